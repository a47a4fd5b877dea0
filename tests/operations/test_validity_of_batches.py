"""What is valid of values of more than two axes: any axis may be partly valid."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelNotSupportedError, KernelValueError


def boxed(shape: tuple[int, ...], valid: tuple[int, ...], value: np.ndarray, outside: float) -> np.ndarray:
    """`value` in the valid box, `outside` elsewhere."""
    result = np.full(shape, outside, np.float32)
    box = tuple(slice(0, extent) for extent in valid)
    result[box] = value[box]
    return result


@pl.jit
def any_axis(
    x: pl.Tensor[[3, 4, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[3, 4, 8], pl.FP32]],
    copy: pl.InOut[pl.Tensor[[3, 4, 8], pl.FP32]],
    a: pl.Scalar[pl.INDEX],
    b: pl.Scalar[pl.INDEX],
    c: pl.Scalar[pl.INDEX],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.add(pl.slice(x, [3, 4, 8], [0, 0, 0], valid_shape=[a, b, c]), 1.0)
        copy[:] = t
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(t, pl.PadValue.max)
    return out, copy


@pytest.mark.parametrize("runtime", [False, True])
def test_loads_stores_and_fills_touch_exactly_the_valid_box_of_any_axis(runtime: bool) -> None:
    x = f32(3, 4, 8)
    for valid in ((3, 4, 8), (3, 2, 8), (2, 3, 5), (3, 1, 8), (1, 4, 8), (3, 0, 8), (0, 2, 3)):
        _, out, copy = run(any_axis, x, empty(3, 4, 8), np.zeros((3, 4, 8), np.float32), *valid, runtime=runtime)
        np.testing.assert_array_equal(out, boxed(x.shape, valid, x + 1, np.inf))
        np.testing.assert_array_equal(copy, boxed(x.shape, valid, x + 1, 0))


@pl.jit.incore
def over_the_edge(x: pl.Tensor[[3, 3, 20], pl.FP32], out: pl.InOut[pl.Tensor[[4, 3, 18], pl.FP32]]):
    t = pl.load(x, [1, 1, 4], [4, 4, 16], valid_shape=[2, 2, 16])
    out = pl.store(t, [2, 1, 2], out)


def test_a_box_beyond_the_tensor_reads_and_writes_only_what_is_valid_of_it() -> None:
    x = f32(3, 3, 20)
    _, out = run(over_the_edge, x, np.zeros((4, 3, 18), np.float32))
    expected = np.zeros((4, 3, 18), np.float32)
    expected[2:4, 1:3, 2:18] = x[1:3, 1:3, 4:20]
    np.testing.assert_array_equal(out, expected)


@pl.jit
def many_planes(x: pl.Tensor[[20, 4, 8], pl.FP32], out: pl.Out[pl.Tensor[[20, 4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(x, 2.0)
        u = pl.assemble(t, pl.neg(t[:, 1:3, :]), [0, 2, 0])
        out[:] = u
    return out


def test_parts_of_many_planes_are_taken_and_put_in_a_loop() -> None:
    x = f32(20, 4, 8)
    _, out = run(many_planes, x, empty(20, 4, 8))
    expected = 2 * x
    expected[:, 2:4] = -2 * x[:, 1:3]
    np.testing.assert_array_equal(out, expected)


@pl.jit
def combined(
    x: pl.Tensor[[2, 4, 8], pl.FP32],
    y: pl.Tensor[[2, 4, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[2, 4, 8], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.slice(x, [2, 4, 8], [0, 0, 0], valid_shape=[2, n, 8])
        b = pl.slice(y, [2, 4, 8], [0, 0, 0], valid_shape=[1, 3, 6])
        out[:] = pl.fillpad(pl.part_add(a, b), pl.PadValue.min)
    return out


def test_partial_combinations_know_what_is_valid_of_each_plane() -> None:
    x, y = f32(2, 4, 8), f32(2, 4, 8, seed=1)
    for n in (4, 3, 1):
        _, _, out = run(combined, x, y, empty(2, 4, 8), n)
        a, b = boxed(x.shape, (2, n, 8), x, 0), boxed(x.shape, (1, 3, 6), y, 0)
        expected = np.full((2, 4, 8), -np.inf, np.float32)
        expected[:, : max(n, 3)] = (a + b)[:, : max(n, 3)]
        np.testing.assert_array_equal(out, expected)


@pl.jit
def batches(
    x: pl.Tensor[[3, 4, 8], pl.FP32],
    y: pl.Tensor[[3, 8, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[3, 4, 16], pl.FP32]],
    same: pl.Out[pl.Tensor[[3, 4, 16], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
    k: pl.Scalar[pl.INDEX],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.slice(x, [3, 4, 8], [0, 0, 0], valid_shape=[2, n, k])
        b = pl.slice(y, [3, 8, 16], [0, 0, 0], valid_shape=[3, k, 9])
        product = pl.matmul(a, b)
        out[:] = pl.fillpad(pl.matmul_acc(product, a, b))
        same[:] = pl.fillpad(pl.matmul(a, b[1]))
    return out, same


def test_a_batch_of_partly_valid_matrices_takes_rows_and_k_of_the_left_and_columns_of_the_right() -> None:
    x, y = f32(3, 4, 8), f32(3, 8, 16, seed=1)
    for n, k in ((4, 8), (2, 5), (0, 3)):
        _, _, out, same = run(batches, x, y, empty(3, 4, 16), empty(3, 4, 16), n, k)
        # FP32 sums of at most 16 products of numbers around 1
        expected = boxed((3, 4, 16), (2, n, 9), 2 * (x[..., :k] @ y[:, :k]), 0)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
        expected = boxed((3, 4, 16), (2, n, 9), x[..., :k] @ y[1, :k], 0)
        np.testing.assert_allclose(same, expected, rtol=1e-5, atol=1e-5)


@pl.jit
def swapped(
    x: pl.Tensor[[3, 4, 8], pl.FP32],
    inner: pl.Out[pl.Tensor[[3, 8, 4], pl.FP32]],
    outer: pl.Out[pl.Tensor[[4, 3, 8], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [3, 4, 8], [0, 0, 0], valid_shape=[2, n, 5])
        inner[:] = pl.fillpad(pl.transpose(t, 1, 2))
        outer[:] = pl.fillpad(pl.transpose(t, 0, 1))
    return inner, outer


def test_transposing_swaps_what_is_valid_of_any_two_axes() -> None:
    x = f32(3, 4, 8)
    for n in (4, 2):
        _, inner, outer = run(swapped, x, empty(3, 8, 4), empty(4, 3, 8), n)
        whole = boxed(x.shape, (2, n, 5), x, 0)
        np.testing.assert_array_equal(inner, whole.swapaxes(1, 2))
        np.testing.assert_array_equal(outer, whole.swapaxes(0, 1))


@pl.jit
def grown(x: pl.Tensor[[3, 4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 6, 16], pl.FP32]], n: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [3, 4, 8], [0, 0, 0], valid_shape=[3, n, 7])
        out[:] = pl.fillpad_expand(t, [4, 6, 16], pl.PadValue.min)
    return out


def test_fillpad_expand_grows_every_axis() -> None:
    x = f32(3, 4, 8)
    for n in (4, 1):
        _, out = run(grown, x, empty(4, 6, 16), n)
        expected = np.full((4, 6, 16), -np.inf, np.float32)
        expected[:3, :n, :7] = x[:, :n, :7]
        np.testing.assert_array_equal(out, expected)


@pl.jit.incore
def spread_by_load(x: pl.Tensor[[4, 4, 8], pl.FP32], out: pl.InOut[pl.Tensor[[4, 4, 8], pl.FP32]]):
    t = pl.load(x, [0, 0, 0], [2, 4, 8])
    out = pl.store(pl.relu(pl.move(t, pl.Mem.Vec)), [1, 0, 0], out)


def test_a_tile_that_merged_leading_axes_spreads_over_as_many_when_it_is_stored() -> None:
    x = f32(4, 4, 8)
    _, out = run(spread_by_load, x, np.zeros((4, 4, 8), np.float32))
    expected = np.zeros((4, 4, 8), np.float32)
    expected[1:3] = np.maximum(x[:2], 0)
    np.testing.assert_array_equal(out, expected)


@pl.jit.incore
def spread(
    x: pl.Tensor[[24, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[2, 3, 4, 8], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
    c: pl.Scalar[pl.INDEX],
):
    t = pl.load(x, [0, 0], [24, 8], valid_shape=[n, c])
    out = pl.store(t, [0, 0, 0, 0], out, [2, 3, 4, 8])


@pytest.mark.parametrize("runtime", [False, True])
def test_valid_rows_that_end_within_a_plane_are_stored_over_several_leading_axes(runtime: bool) -> None:
    x = f32(24, 8)
    for n, c in ((24, 8), (13, 5), (12, 8), (5, 8), (4, 8), (0, 8)):
        _, out = run(spread, x, empty(2, 3, 4, 8), n, c, runtime=runtime)
        flat = out.reshape(24, 8)
        np.testing.assert_array_equal(flat[:n, :c], x[:n, :c])
        assert np.isnan(flat[n:]).all()
        assert np.isnan(flat[:, c:]).all()


@pl.jit
def regrouped(x: pl.Tensor[[3, 4, 8], pl.FP32], out: pl.Out[pl.Tensor[[3, 2, 16], pl.FP32]], n: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [3, 4, 8], [0, 0, 0], valid_shape=[n, 2, 8])
        out[:] = pl.fillpad(pl.reshape(pl.reshape(t, [3, 1, 4, 8]), [3, 2, 16]))
    return out


def test_reshape_keeps_what_is_valid_of_axes_that_stay_and_of_first_elements() -> None:
    x = f32(3, 4, 8)
    for n in (3, 1):
        _, out = run(regrouped, x, empty(3, 2, 16), n)
        expected = np.zeros((3, 2, 16), np.float32)
        expected[:n, 0] = x[:n, :2].reshape(n, 16)
        np.testing.assert_array_equal(out, expected)


@pl.jit
def not_a_box(x: pl.Tensor[[3, 4, 8], pl.FP32], out: pl.Out[pl.Tensor[[12, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [3, 4, 8], [0, 0, 0], valid_shape=[3, 2, 8])
        out[:] = pl.reshape(t, [12, 8])
    return out


def test_reshape_refuses_to_merge_a_partly_valid_axis() -> None:
    with pytest.raises(KernelValueError, match=r"the valid part of \[3, 4, 8\] is no box of \[12, 8\]"):
        run(not_a_box, f32(3, 4, 8), empty(12, 8))


@pl.jit
def scattered(x: pl.Tensor[[3, 4, 8], pl.FP32], out: pl.Out[pl.Tensor[[3, 4, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [3, 4, 8], [0, 0, 0], valid_shape=[3, 2, 8])
        wide = pl.create_tensor([3, 4, 16], dtype=pl.FP32, init_value=0)
        out[:] = pl.scatter(t, mask_pattern=1, dst=wide)
    return out


def test_a_scatter_from_partly_valid_planes_is_refused() -> None:
    text = r"of \[3, 4, 8\] only the outermost axis and the last one may be partly valid"
    with pytest.raises(KernelNotSupportedError, match=text):
        run(scattered, f32(3, 4, 8), empty(3, 4, 16))


@pl.jit
def swapped_arguments(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.slice(x, [0, 0], [8, 16])
    return out


def test_06_offsets_in_place_of_the_shape_are_explained() -> None:
    with pytest.raises(KernelValueError, match=r"an extent of shape is 0(.|\n)*shape comes first"):
        run(swapped_arguments, f32(8, 16), empty(8, 16))
