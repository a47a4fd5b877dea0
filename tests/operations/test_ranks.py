"""Tensors of one to five axes, boxes beyond their end, and parameters bound to slices of another size."""

import itertools

import numpy as np
from checking import empty, f32, run

import pypto.language as pl


@pl.jit
def one_axis(x: pl.Tensor[[64], pl.FP32], out: pl.Out[pl.Tensor[[64], pl.FP32]], n: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.slice(x, [16], [n], valid_shape=[n])
        out[0:16] = pl.fillpad(part, pl.PadValue.max)
        out[16:32] = pl.reshape(pl.add(pl.reshape(x[32:48], [4, 4]), 1.0), [16])
        out[32:64] = pl.add(x[32:64], pl.read(x, [n]))
    return out


def test_values_of_one_axis_are_sliced_padded_and_reshaped() -> None:
    x = f32(64)
    for n in (5, 0, 16):
        _, out = run(one_axis, x, empty(64), n)
        expected = np.full(64, np.inf, np.float32)
        expected[:n] = x[n : 2 * n]
        expected[16:32] = x[32:48] + 1
        expected[32:] = x[32:] + x[n]
        np.testing.assert_array_equal(out, expected)


@pl.jit
def five_axes(
    x: pl.Tensor[[2, 2, 2, 2, 8], pl.FP32], out: pl.Out[pl.Tensor[[2, 2, 2, 2, 8], pl.FP32]], i: pl.Scalar[pl.INDEX]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 1.0)
        out[1, 0, i, 1, :] = pl.add(x[0, i, 0, 1, :], 5.0)
        out[0, i, :, 0, 2:6] = pl.add(x[1, 1, :, i, 2:6], 7.0)
    return out


def test_boxes_of_five_axes_are_read_and_written_with_axes_dropped_anywhere() -> None:
    x = f32(2, 2, 2, 2, 8)
    for i in (0, 1):
        for runtime in (False, True):
            _, out = run(five_axes, x, empty(2, 2, 2, 2, 8), i, runtime=runtime)
            expected = x + 1
            expected[1, 0, i, 1] = x[0, i, 0, 1] + 5
            expected[0, i, :, 0, 2:6] = x[1, 1, :, i, 2:6] + 7
            np.testing.assert_array_equal(out, expected)


@pl.jit.incore
def five_axes_of_tiles(
    x: pl.Tensor[[2, 1, 3, 4, 8], pl.FP32],
    out: pl.InOut[pl.Tensor[[2, 1, 3, 4, 8], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
):
    t = pl.load(x, [0, 0, 1, 0, 0], [2, 1, 2, 4, 8], valid_shape=[2, 1, n, 3, 8])
    out = pl.store(pl.add(t, 1.0), [0, 0, 0, 1, 0], out)
    return out


def test_a_tile_of_five_axes_goes_where_its_box_says() -> None:
    x = f32(2, 1, 3, 4, 8)
    for n in (2, 1, 0):
        _, out = run(five_axes_of_tiles, x, np.zeros_like(x), n)
        expected = np.zeros_like(x)
        expected[:, :, :n, 1:4] = x[:, :, 1 : 1 + n, :3] + 1
        np.testing.assert_array_equal(out, expected)


@pl.jit
def clamped(x: pl.Tensor[[10, 20], pl.FP32], out: pl.Out[pl.Tensor[[24, 16], pl.FP32]], i: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:8, :] = pl.fillpad(pl.slice(x, [8, 16], [i, 8], clamp=True))
        t = pl.add(x, 0.0)
        out[8:16, :] = pl.slice(t, [8, 16], [i, 8], clamp=True, pad_value=pl.PadValue.max)
        part = pl.slice(x, [8, 16], [i, 8], valid_shape=[8, 4], clamp=True, pad_value=pl.PadValue.max)
        out[16:24, :] = pl.fillpad(part)
    return out


def test_a_clamped_slice_has_valid_what_its_source_has_and_pads_only_on_chip() -> None:
    x = f32(10, 20)
    for i, runtime in itertools.product((0, 2, 5, 10, 13), (False, True)):
        _, out = run(clamped, x, empty(24, 16), i, runtime=runtime)
        rows = max(0, min(8, 10 - i))
        expected = np.zeros((24, 16), np.float32)
        expected[8:16] = np.inf
        expected[:rows, :12] = x[i : i + rows, 8:]
        expected[8 : 8 + rows, :12] = x[i : i + rows, 8:]
        expected[16 : 16 + rows, :4] = x[i : i + rows, 8:12]
        np.testing.assert_array_equal(out, expected)


@pl.jit.incore
def sixteen_rows(x: pl.Tensor[[16, 32], pl.FP32], out: pl.InOut[pl.Tensor[[16, 32], pl.FP32]], n: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [0, 0], [16, 32], valid_shape=[n, 32])
    out = pl.store(pl.add(t, 1.0), [0, 0], out)
    return out


@pl.jit
def tails(x: pl.Tensor[[40, 32], pl.FP32], out: pl.InOut[pl.Tensor[[80, 32], pl.FP32]]):
    for i in pl.range(0, 40, 16):
        n = pl.min(16, 40 - i)
        beyond = out[40 + i : 56 + i, :]
        beyond = sixteen_rows(x[i : i + 16, :], beyond, n)
        smaller = out[i : i + n, :]
        smaller = sixteen_rows(x[i : i + n, :], smaller, n)
    return out


def test_a_parameter_is_bound_to_a_slice_that_is_smaller_or_reaches_beyond_its_parent() -> None:
    x = f32(40, 32)
    _, out = run(tails, x, empty(80, 32))
    np.testing.assert_array_equal(out, np.concatenate([x, x]) + 1)


@pl.jit
def dropped(x: pl.Tensor[[3, 4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    outside = pl.slice(x, [1, 4, 8], [1, 0, 0], drop_dims=[0])
    with pl.at(level=pl.Level.CORE_GROUP):
        inside = pl.slice(x, [1, 4, 8], [2, 0, 0], drop_dims=[0])
        out[:] = pl.add(outside, inside)
    return out


def test_a_slice_drops_axes_of_one_element_on_both_levels() -> None:
    x = f32(3, 4, 8)
    _, out = run(dropped, x, empty(4, 8))
    np.testing.assert_array_equal(out, x[1] + x[2])


@pl.jit.incore
def names_keep_theirs(
    x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]], n: pl.Scalar[pl.INDEX]
):
    t = pl.load(x, [0, 0], [8, 16])
    u = pl.set_validshape(t, n, 16)
    pl.set_validshape(t, 1, 1)
    out = pl.store(pl.fillpad(t), [0, 0], out)
    out = pl.store(pl.fillpad(u), [8, 0], out)
    out = pl.store(pl.tile.fillpad_inplace(u, pl.PadValue.max), [16, 0], out)
    out = pl.store(pl.fillpad(pl.set_validshape(u, 8, 9)), [24, 0], out)


def test_24_set_validshape_changes_the_value_that_it_returns_and_no_name() -> None:
    x = f32(8, 16)
    for n in (8, 3, 0):
        _, out = run(names_keep_theirs, x, empty(32, 16), n)
        expected = np.zeros((32, 16), np.float32)
        expected[:8] = x
        expected[8 : 8 + n] = expected[16 : 16 + n] = x[:n]
        expected[16 + n : 24] = np.inf
        expected[24:, :9] = x[:, :9]
        np.testing.assert_array_equal(out, expected)
