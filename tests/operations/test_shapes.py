"""The same elements in another shape, order, dtype or validity."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelTypeError, KernelValueError


@pl.jit.incore
def reshaped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 32])
    flat = pl.reshape(t, [1, 512])
    wide = pl.reshape(pl.add(flat, 1.0), [8, 64])
    sums = pl.row_sum(t, t)
    line = pl.reshape(sums, [1, 16])
    pl.store(wide, [0, 0], out)
    pl.store(pl.reshape(pl.mul(line, 2.0), [16, 1]), [8, 0], out)


def test_reshape_is_row_major_whatever_lies_on_chip() -> None:
    x = f32(16, 32)
    _, out = run(reshaped, x, empty(24, 64))
    np.testing.assert_array_equal(out[:8], x.reshape(8, 64) + 1)
    np.testing.assert_allclose(out[8:, 0], 2 * x.sum(1), rtol=1e-5)


@pl.jit.incore
def partly(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    column = pl.load(x, [0, 0], [32, 1], valid_shape=[n, 1])
    line = pl.reshape(column, [1, 32])
    back = pl.reshape(pl.add(line, 1.0), [32, 1])
    pl.store(line, [0, 0], out)
    pl.store(pl.reshape(back, [1, 32]), [1, 0], out)
    whole_rows = pl.load(x, [0, 0], [8, 1], valid_shape=[4, 1])
    pl.store(pl.reshape(whole_rows, [4, 2]), [2, 0], out)


def test_reshape_keeps_validity_where_a_box_of_the_new_shape_can_say_it() -> None:
    x = f32(32, 1)
    for n in (32, 5, 0):
        out = run(partly, x, empty(4, 32), n)[-1]
        np.testing.assert_array_equal(out[0, :n], x[:n, 0])
        np.testing.assert_array_equal(out[1, :n], x[:n, 0] + 1)
        assert np.isnan(out[:2, n:]).all()
        np.testing.assert_array_equal(out[2:4, :2], x[:4, 0].reshape(2, 2))


@pl.jit.incore
def no_box(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 32], valid_shape=[16, 20])
    out = pl.store(pl.reshape(t, [8, 64]), [0, 0], out)


def test_reshape_refuses_validity_that_no_box_can_say() -> None:
    with pytest.raises(KernelValueError, match=r"the valid part of \[16, 32\] is no box of \[8, 64\]"):
        run(no_box, f32(16, 32), empty(8, 64))


@pl.jit.incore
def flipped(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    t = pl.add(pl.load(x, [0, 0], [16, 32], valid_shape=[n, 20]), 1.0)
    pl.store(pl.transpose(t, 0, 1), [0, 0], out)
    pl.store(pl.tile.transpose_view(t), [32, 0], out)
    pl.store(pl.transpose(x, 1, 0), [64, 0], out)


def test_transposing_swaps_validity_too() -> None:
    x = f32(16, 32)
    for n in (16, 3):
        out = run(flipped, x, empty(96, 16), n)[-1]
        for start in (0, 32):
            np.testing.assert_array_equal(out[start : start + 20, :n], x[:n, :20].T + 1)
            assert np.isnan(out[start + 20 : start + 32]).all()
            assert np.isnan(out[start : start + 32, n:]).all()
        np.testing.assert_array_equal(out[64:], x.T)


@pl.jit
def permuted(
    x: pl.Tensor[[2, 3, 8], pl.FP32],
    inner: pl.Out[pl.Tensor[[2, 8, 3], pl.FP32]],
    outer: pl.Out[pl.Tensor[[3, 2, 8], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(x, 2.0)
        inner[:] = pl.transpose(t, 1, 2)
        outer[:] = pl.transpose(t, 0, 1)
    return inner, outer


def test_any_two_axes_can_be_swapped() -> None:
    x = f32(2, 3, 8)
    _, inner, outer = run(permuted, x, empty(2, 8, 3), empty(3, 2, 8))
    np.testing.assert_array_equal(inner, 2 * x.swapaxes(1, 2))
    np.testing.assert_array_equal(outer, 2 * x.swapaxes(0, 1))


@pl.jit.incore
def bits(x: pl.Tensor, out: pl.Out[pl.Tensor], halves: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    words = pl.reinterpret_view(t, pl.INT32)
    out = pl.store(pl.ands(words, 0x7FFFFFFF), [0, 0], out)
    pl.store(pl.reinterpret_view(t, pl.INT16), [0, 0], halves)
    pl.store(pl.reinterpret_view(t, pl.INT16, shape=[8, 8]), [4, 0], halves)


def test_reinterpreting_keeps_the_bits_and_scales_the_last_extent() -> None:
    x = f32(4, 8)
    _, out, halves = run(bits, x, empty(4, 8, dtype=np.int32), empty(12, 16, dtype=np.int16))
    np.testing.assert_array_equal(out.view(np.float32), np.abs(x))
    np.testing.assert_array_equal(halves[:4], x.view(np.int16))
    np.testing.assert_array_equal(halves[4:, :8], x.view(np.int16).reshape(8, 8))


@pl.jit.incore
def widened(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [0, 0], [8, 16])
    narrow = pl.set_validshape(t, 4, n)
    pl.store(narrow, [0, 0], out)
    pl.store(pl.set_validshape(narrow, 8, 16), [8, 0], out)
    pl.store(pl.row_sum(narrow, t), [16, 0], out)
    pl.store(t, [24, 0], out)


def test_24_set_validshape_may_widen_and_shows_again_what_lies_there() -> None:
    x = f32(8, 16)
    out = run(widened, x, empty(32, 16), 5)[-1]
    np.testing.assert_array_equal(out[:4, :5], x[:4, :5])
    assert np.isnan(out[4:8]).all()
    np.testing.assert_array_equal(out[8:16], x)
    np.testing.assert_allclose(out[16:20, 0], x[:4, :5].sum(1), rtol=1e-5)
    np.testing.assert_array_equal(out[24:], x)  # the source keeps its own validity


@pl.jit.incore
def set_by_int32(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [8, 16])
    out = pl.store(pl.set_validshape(t, pl.read(n, [0]), 16), [0, 0], out)


@pl.jit.incore
def set_too_wide(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.set_validshape(pl.load(x, [0, 0], [8, 16]), 8, 17), [0, 0], out)


def test_set_validshape_checks_constants_and_the_type_of_scalars() -> None:
    with pytest.raises(KernelTypeError, match="is an INT32 scalar, not INDEX, INT64 or UINT64"):
        run(set_by_int32, f32(8, 16), np.array([3], np.int32), empty(8, 16))
    with pytest.raises(KernelValueError, match="17 is not within the extent 16 of the box"):
        run(set_too_wide, f32(8, 16), empty(8, 16))


@pl.jit.incore
def padded(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [8, 16], valid_shape=[3, 5])
    pl.store(pl.fillpad(t), [0, 0], out)
    pl.store(pl.fillpad(t, pl.PadValue.min), [8, 0], out)
    pl.store(pl.tile.fillpad_inplace(t, pl.PadValue.max), [16, 0], out)
    pl.store(pl.fillpad_expand(t, [10, 24]), [24, 0], out)


def test_08_only_what_is_valid_counts_and_fillpad_makes_all_of_it_valid() -> None:
    limits = {np.float32: (-np.inf, np.inf), np.float16: (-np.inf, np.inf), np.int8: (-128, 127), np.uint8: (0, 255)}
    for dtype, (low, high) in limits.items():
        x = np.arange(1, 129).reshape(8, 16).astype(dtype)
        _, out = run(padded, x, empty(34, 24, dtype=dtype))
        for start, fill in ((0, 0), (8, low), (16, high)):
            expected = np.full((8, 16), fill, dtype)
            expected[:3, :5] = x[:3, :5]
            np.testing.assert_array_equal(out[start : start + 8, :16], expected)
        grown = np.zeros((10, 24), dtype)
        grown[:3, :5] = x[:3, :5]
        np.testing.assert_array_equal(out[24:], grown)


@pl.jit.incore
def padded_by_three(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.fillpad(pl.load(x, [0, 0], [8, 16]), 3.0), [0, 0], out)


def test_fillpad_takes_limits_zero_and_infinities_only() -> None:
    with pytest.raises(KernelValueError, match="'pad_value' is an FP32 scalar"):
        run(padded_by_three, f32(8, 16), empty(8, 16))


@pl.jit.incore
def reductions_of_a_part(x: pl.Tensor, out: pl.Out[pl.Tensor], m: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [0, 0], [8, 16], valid_shape=[m, n])
    pl.store(pl.row_sum(t, t), [0, 0], out)
    pl.store(pl.col_max(t), [8, 0], out)
    pl.store(pl.col_sum(t), [9, 0], out)


def test_reductions_read_the_valid_region_and_a_sum_of_nothing_is_0() -> None:
    x = f32(8, 16)
    for m, n in ((8, 16), (3, 5), (3, 0)):
        out = run(reductions_of_a_part, x, empty(10, 16), m, n)[-1]
        np.testing.assert_allclose(out[:m, 0], x[:m, :n].sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(out[8, :n], x[:m, :n].max(0))
        np.testing.assert_allclose(out[9, :n], x[:m, :n].sum(0), rtol=1e-5, atol=1e-6)
        assert np.isnan(out[8:, n:]).all()


@pl.jit
def relabelled(x: pl.Tensor[[4, 6, 8], pl.FP32], out: pl.Out[pl.Tensor[[24, 8], pl.FP32]]):
    flat = pl.tensor.view(x, [24, 8], layout=pl.ND)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(flat, 1.0)
    return out


def test_view_gives_memory_another_shape() -> None:
    x = f32(4, 6, 8)
    _, out = run(relabelled, x, empty(24, 8))
    np.testing.assert_array_equal(out, x.reshape(24, 8) + 1)
