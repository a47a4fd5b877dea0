"""Operations in their three spellings: what they compute, and how operands are converted."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelTypeError


@pl.jit.incore
def spellings(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [16, 32])
    b = pl.tile.load(y, [0, 0], [16, 32])
    unified = pl.add(a, b)
    explicit = pl.tile.add(a, b)
    tensors = pl.tensor.add(x, y)
    pl.store(unified, [0, 0], out)
    pl.tile.store(explicit, [16, 0], out)
    out = pl.assemble(out, tensors, [32, 0])


def test_unified_tile_and_tensor_spellings_compute_the_same() -> None:
    x, y = f32(16, 32), f32(16, 32, seed=1)
    out = run(spellings, x, y, empty(48, 32))[-1]
    np.testing.assert_array_equal(out.reshape(3, 16, 32), np.broadcast_to(x + y, (3, 16, 32)))


@pl.jit.incore
def arithmetic(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [16, 32])
    b = pl.load(y, [0, 0], [16, 32])
    pl.store(pl.sub(a, b), [0, 0], out)
    pl.store(pl.mul(a, b), [16, 0], out)
    pl.store(pl.div(a, b), [32, 0], out)
    pl.store(pl.maximum(a, b), [48, 0], out)
    pl.store(pl.minimum(a, b), [64, 0], out)
    pl.store(pl.relu(a), [80, 0], out)
    pl.store(pl.neg(a), [96, 0], out)
    pl.store(pl.recip(pl.abs(b)), [112, 0], out)
    pl.store(pl.sqrt(pl.abs(a)), [128, 0], out)
    pl.store(pl.exp(a), [144, 0], out)
    pl.store(pl.sub(a, 2.0), [160, 0], out)
    pl.store(pl.tile.muls(a, 3), [176, 0], out)


def test_arithmetic_is_that_of_numpy() -> None:
    x, y = f32(16, 32), f32(16, 32, seed=1)
    out = run(arithmetic, x, y, empty(192, 32))[-1].reshape(12, 16, 32)
    wide = x.astype(np.float64)
    expected = [x - y, x * y, x / y, np.maximum(x, y), np.minimum(x, y), np.maximum(x, 0), -x, 1 / np.abs(y)]
    expected += [np.sqrt(np.abs(x)), np.exp(wide).astype(np.float32), x - np.float32(2), x * np.float32(3)]
    for have, want in zip(out, expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=3e-7)  # 2 ULP of FP32


@pl.jit.incore
def rows_and_columns(x: pl.Tensor, v: pl.Tensor, h: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [16, 32])
    column = pl.load(v, [0, 0], [16, 1])
    row = pl.load(h, [0, 0], [1, 32])
    pl.store(pl.row_expand_sub(a, column), [0, 0], out)
    pl.store(pl.row_expand_mul(a, column), [16, 0], out)
    pl.store(pl.row_expand_div(a, column), [32, 0], out)
    pl.store(pl.row_expand_add(a, column), [48, 0], out)
    pl.store(pl.col_expand_sub(a, row), [64, 0], out)
    pl.store(pl.col_expand_mul(a, row), [80, 0], out)
    pl.store(pl.col_expand_div(a, row), [96, 0], out)
    pl.store(pl.col_expand_add(a, row), [112, 0], out)
    pl.store(pl.mul(a, column), [128, 0], out)
    pl.store(pl.add(column, a), [144, 0], out)


def test_narrow_operands_are_broadcast() -> None:
    x, v, h = f32(16, 32), f32(16, 1, seed=1), f32(1, 32, seed=2)
    out = run(rows_and_columns, x, v, h, empty(160, 32))[-1].reshape(10, 16, 32)
    expected = [x - v, x * v, x / v, x + v, x - h, x * h, x / h, x + h, x * v, x + v]
    for have, want in zip(out, expected, strict=True):
        np.testing.assert_array_equal(have, want)


@pl.jit.incore
def narrow_left(x: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.sub(pl.load(v, [0, 0], [16, 1]), pl.load(x, [0, 0], [16, 32])), [0, 0], out)


def test_a_narrow_left_operand_of_sub_is_refused_because_it_would_be_computed_the_other_way_round() -> None:
    with pytest.raises(KernelTypeError, match=r"the left operand is the narrow one .* X - v instead of v - X"):
        run(narrow_left, f32(16, 32), f32(16, 1), empty(16, 32))


@pl.jit.incore
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 32])
    scratch = pl.create_tile([16, 32], pl.FP32)
    powers = pl.exp(pl.row_expand_sub(t, pl.row_max(t, scratch)))
    out = pl.store(pl.row_expand_div(powers, pl.row_sum(powers, scratch)), [0, 0], out)
    return out


def test_softmax() -> None:
    x = f32(16, 32)
    _, out = run(softmax, x, empty(16, 32))
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=1e-6)  # a few roundings of FP32


@pl.jit.incore
def partial(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 32], valid_shape=[9, 20])
    pl.store(t, [0, 0], out)
    pl.store(pl.row_sum(t, t), [16, 0], out)
    pl.store(pl.row_min(t, t), [32, 0], out)


def test_only_valid_elements_count() -> None:
    x = f32(9, 20)
    _, out = run(partial, x, empty(48, 32))
    np.testing.assert_array_equal(out[:9, :20], x)
    np.testing.assert_allclose(out[16:25, 0], x.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(out[32:41, 0], x.min(1))
    assert np.isnan(out[9:16]).all()
    assert np.isnan(out[:, 20:]).all()


@pl.jit.incore
def casts(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [1, 8])
    pl.store(pl.cast(t, pl.INT32), [0, 0], out)
    pl.store(pl.cast(t, pl.INT32, mode="rint"), [1, 0], out)
    pl.store(pl.cast(t, pl.INT32, mode="floor"), [2, 0], out)
    pl.store(pl.cast(t, pl.INT32, mode=4), [3, 0], out)
    pl.store(pl.cast(t, pl.INT32, "trunc"), [4, 0], out)


def test_03_the_default_cast_to_integers_rounds_half_away_from_zero() -> None:
    x = np.array([[2.5, -2.5, 0.5, 1.4, 1.6, -1.4, -1.6, 3.5]], np.float32)
    _, out = run(casts, x, empty(5, 8, dtype=np.int32))
    np.testing.assert_array_equal(out[0], [3, -3, 1, 1, 2, -1, -2, 4])
    np.testing.assert_array_equal(out[1], [2, -2, 0, 1, 2, -1, -2, 4])
    np.testing.assert_array_equal(out[2], [2, -3, 0, 1, 1, -2, -2, 3])
    np.testing.assert_array_equal(out[3], [3, -2, 1, 2, 2, -1, -1, 4])
    np.testing.assert_array_equal(out[4], [2, -2, 0, 1, 1, -1, -1, 3])


@pl.jit.incore
def mixed(h: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor]):
    half = pl.load(h, [0, 0], [16, 32])
    whole = pl.load(i, [0, 0], [16, 32])
    pl.store(pl.cast(pl.add(half, whole), pl.FP32), [0, 0], out)
    pl.store(pl.add(whole, 0.5), [16, 0], out)
    pl.store(pl.cast(pl.add(whole, 2), pl.FP32), [32, 0], out)


def test_floats_beat_integers_and_a_float_literal_promotes_an_integer_tile() -> None:
    h = f32(16, 32).astype(np.float16)
    i = np.arange(512, dtype=np.int32).reshape(16, 32)
    out = run(mixed, h, i, empty(48, 32))[-1]
    np.testing.assert_array_equal(out[:16], (h + i.astype(np.float16)).astype(np.float32))
    np.testing.assert_array_equal(out[16:32], i + np.float32(0.5))
    np.testing.assert_array_equal(out[32:], i + 2)


@pl.jit.incore
def integer_division(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.div(pl.load(a, [0, 0], [1, 8]), pl.load(b, [0, 0], [1, 8])), [0, 0], out)


def test_integer_division_truncates_and_a_zero_divisor_yields_0() -> None:
    a = np.array([[7, -7, 7, -7, 5, 0, 1, -9]], np.int32)
    b = np.array([[2, 2, -2, -2, 0, 3, 1, 4]], np.int32)
    out = run(integer_division, a, b, empty(1, 8, dtype=np.int32))[-1]
    np.testing.assert_array_equal(out, [[3, -3, -3, 3, 0, 0, 1, -2]])


@pl.jit.incore
def products(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    left = pl.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
    right = pl.load(b, [0, 0], [32, 24], target_memory=pl.Mem.Mat)
    acc = pl.matmul(pl.move(left, pl.Mem.Left), pl.move(right, pl.Mem.Right))
    for k in pl.range(3):
        acc = pl.matmul_acc(acc, left, right, init_cond=(k == 1))
    out = pl.store(acc, [0, 0], out)


def test_matmul_acc_starts_anew_where_init_cond_holds() -> None:
    a, b = f32(16, 32), f32(32, 24, seed=1)
    out = run(products, a, b, empty(16, 24))[-1]
    np.testing.assert_allclose(out, 2 * (a @ b), rtol=1e-4, atol=1e-4)  # sums of 64 products


@pl.jit.incore
def narrowing_store(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.matmul(pl.load(a, [0, 0], [16, 32]), pl.load(b, [0, 0], [32, 16])), [0, 0], out)


def test_05_a_product_of_halves_is_fp32_and_the_store_narrows_it() -> None:
    a, b = f32(16, 32).astype(np.float16), f32(32, 16, seed=1).astype(np.float16)
    out = run(narrowing_store, a, b, empty(16, 16, dtype=np.float16))[-1]
    np.testing.assert_array_equal(
        out, (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32).astype(np.float16)
    )
