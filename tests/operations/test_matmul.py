"""Matrix products in all their forms. Small integers make every sum exact, so that nothing needs a tolerance."""

import numpy as np
import pytest
from checking import empty, run

import pypto.language as pl
from pypto.ir import KernelTypeError


def whole(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    """Small integers in any dtype."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pl.jit
def turned(
    a: pl.Tensor[[16, 32], pl.FP16],
    b: pl.Tensor[[32, 24], pl.FP16],
    at: pl.Tensor[[32, 16], pl.FP16],
    bt: pl.Tensor[[24, 32], pl.FP16],
    out: pl.Out[pl.Tensor[[64, 24], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:16, :] = pl.matmul(a, b)
        out[16:32, :] = pl.matmul(a, bt, b_trans=True)
        out[32:48, :] = pl.matmul(at, b, a_trans=True)
        twice = pl.mul(at, 2.0)
        out[48:64, :] = pl.matmul(twice, pl.mul(bt, 1.0), a_trans=True, b_trans=True, out_dtype=pl.BF16)
    return out


@pytest.mark.parametrize("dtype", [np.float16])
def test_operands_are_transposed_in_memory_and_on_chip(dtype: type) -> None:
    a, b = whole(16, 32, dtype=dtype), whole(32, 24, seed=1, dtype=dtype)
    *_, out = run(turned, a, b, a.T.copy(), b.T.copy(), empty(64, 24))
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(out.reshape(4, 16, 24), [product, product, product, 2 * product])


@pl.jit
def batched(
    a: pl.Tensor[[2, 3, 4, 8], pl.FP32],
    b: pl.Tensor[[3, 8, 6], pl.FP32],
    flat: pl.Tensor[[8, 6], pl.FP32],
    out: pl.Out[pl.Tensor[[2, 3, 4, 6], pl.FP32]],
    merged: pl.Out[pl.Tensor[[2, 3, 4, 6], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
        merged[:] = pl.matmul(a, flat)
    return out, merged


def test_leading_axes_are_a_batch_and_broadcast_as_in_numpy() -> None:
    a, b, flat = whole(2, 3, 4, 8), whole(3, 8, 6, seed=1), whole(8, 6, seed=2)
    *_, out, merged = run(batched, a, b, flat, empty(2, 3, 4, 6), empty(2, 3, 4, 6))
    np.testing.assert_array_equal(out, a @ b)
    np.testing.assert_array_equal(merged, a @ flat)


@pl.jit
def accumulated(
    a: pl.Tensor[[2, 4, 8], pl.FP32],
    b: pl.Tensor[[2, 6, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[2, 4, 6], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([2, 4, 6], dtype=pl.FP32)
        for k in pl.range(3):
            acc = pl.matmul_acc(acc, a, b, b_trans=True, init_cond=(k == 0))
        out[:] = acc
    return out


def test_accumulators_of_a_batch_start_anew_where_init_cond_holds() -> None:
    a, b = whole(2, 4, 8), whole(2, 6, 8, seed=1)
    *_, out = run(accumulated, a, b, empty(2, 4, 6))
    np.testing.assert_array_equal(out, 3 * (a @ b.swapaxes(1, 2)))


@pl.jit.incore
def tiles(
    a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor], m: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INDEX]
):
    left = pl.load(a, [0, 0], [16, 32], valid_shape=[m, k], target_memory=pl.Mem.Mat)
    right = pl.load(b, [0, 0], [32, 24], valid_shape=[k, 20], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul(left, right), [0, 0], out)
    line = pl.load(bias, [0, 0], [1, 24])
    pl.store(pl.matmul_bias(left, right, line), [16, 0], out)
    row = pl.load(a, [0, 0], [1, 32])
    full_right = pl.load(b, [0, 0], [32, 24])
    acc = pl.gemv(row, full_right)
    pl.store(pl.gemv_acc(acc, row, full_right), [32, 0], out)
    pl.store(pl.gemv_bias(row, full_right, line), [33, 0], out)


def test_rows_and_inner_extent_of_a_product_are_valid_on_the_left_columns_on_the_right() -> None:
    a, b, bias = whole(16, 32), whole(32, 24, seed=1), whole(1, 24, seed=2)
    for m, k in ((16, 32), (5, 7)):
        *_, out = run(tiles, a, b, bias, empty(34, 24), m, k)
        product = a[:m, :k] @ b[:k]
        np.testing.assert_array_equal(out[:m, :20], product[:, :20])
        np.testing.assert_array_equal(out[16 : 16 + m, :20], (product + bias)[:, :20])
        assert np.isnan(out[m:16]).all()
        assert np.isnan(out[:32, 20:]).all()
        np.testing.assert_array_equal(out[32], 2 * a[0] @ b)
        np.testing.assert_array_equal(out[33], (a[:1] @ b + bias)[0])


@pl.jit.incore
def whole_numbers(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    left = pl.load(a, [0, 0], [16, 64])
    right = pl.load(b, [0, 0], [64, 32])
    acc = pl.matmul_bias(left, right, pl.load(bias, [0, 0], [1, 32]))
    out = pl.store(pl.matmul_acc(acc, left, right), [0, 0], out)


def test_05_int8_operands_give_int32() -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 64), (64, 32)))
    bias = random.integers(-1000, 1000, (1, 32)).astype(np.int32)
    *_, out = run(whole_numbers, a, b, bias, empty(16, 32, dtype=np.int32))
    np.testing.assert_array_equal(out, 2 * (a.astype(np.int64) @ b.astype(np.int64)) + bias)


@pl.jit.incore
def stays_wide(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    product = pl.tensor.matmul(pl.slice(a, [16, 32], [0, 0]), pl.slice(b, [32, 16], [0, 0]), out_dtype=pl.FP16)
    out = pl.store(pl.cast(pl.add(product, 0.0001), pl.FP32), [0, 0], out)


def test_05_out_dtype_does_not_narrow_what_the_next_operation_sees() -> None:
    a, b = whole(16, 32, dtype=np.float16), whole(32, 16, seed=1, dtype=np.float16)
    *_, out = run(stays_wide, a, b, empty(16, 16))
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b.astype(np.float32)) + np.float32(0.0001))


@pl.jit
def split_k(
    a: pl.Tensor[[16, 64], pl.FP32], b: pl.Tensor[[64, 24], pl.FP32], out: pl.Out[pl.Tensor[[16, 24], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([16, 24], dtype=pl.FP32, value=0.0)
    for block in pl.spmd(4):
        part = pl.matmul(a[:, block * 16 : block * 16 + 16], b[block * 16 : block * 16 + 16, :])
        out = pl.assemble(out, part, [0, 0], atomic=pl.AtomicType.Add)
    return out


def test_blocks_of_a_split_product_add_atomically() -> None:
    a, b = whole(16, 64), whole(64, 24, seed=1)
    *_, out = run(split_k, a, b, empty(16, 24))
    np.testing.assert_array_equal(out, a @ b)


@pl.jit.incore
def tensor_keyword(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    left = pl.load(a, [0, 0], [16, 32])
    out = pl.store(pl.matmul(left, pl.load(b, [0, 0], [24, 32]), b_trans=True), [0, 0], out)


@pl.jit.incore
def mixed(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.matmul(pl.load(a, [0, 0], [16, 32]), pl.load(b, [0, 0], [32, 24])), [0, 0], out)


def test_wrong_products_are_refused() -> None:
    with pytest.raises(KernelTypeError, match="'b_trans' belongs to tensors, and this is a tile"):
        run(tensor_keyword, whole(16, 32), whole(24, 32), empty(16, 24))
    with pytest.raises(KernelTypeError, match="different dtypes: FP32 and FP16"):
        run(mixed, whole(16, 32), whole(32, 24, dtype=np.float16), empty(16, 24))


@pl.jit.incore
def narrow_accumulator(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    half = pl.full([16, 24], dtype=pl.FP16, value=0.0)
    out[:] = pl.matmul_acc(half, a, b)


@pl.jit.incore
def accumulator_of_integers(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    count = pl.full([16, 24], dtype=pl.INT32, value=0)
    out[:] = pl.matmul_acc(count, a, b)


def test_an_accumulator_has_the_dtype_of_the_product() -> None:
    text = r"pl\.matmul_acc: the accumulator is {0}, the product FP32(.|\n)*pl\.cast\({1}, pl\.FP32\)"
    for kernel, dtype, name in ((narrow_accumulator, "FP16", "half"), (accumulator_of_integers, "INT32", "count")):
        with pytest.raises(KernelTypeError, match=text.format(dtype, name)):
            kernel.lower(whole(16, 32), whole(32, 24), empty(16, 24))


@pl.jit
def named_batches(
    a: pl.Tensor[[2, 4, 8], pl.FP32],
    b: pl.Tensor[[2, 8, 6], pl.FP32],
    out: pl.Out[pl.Tensor[[2, 4, 6], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        once = pl.batch_matmul(pl.mul(a, 1.0), pl.mul(b, 1.0))
        out[:] = pl.tile.batch_matmul_acc(once, pl.mul(a, 1.0), pl.mul(b, 1.0))
    return out


def test_batches_have_a_spelling_of_their_own() -> None:
    a, b = whole(2, 4, 8), whole(2, 8, 6, seed=1)
    *_, out = run(named_batches, a, b, empty(2, 4, 6))
    np.testing.assert_array_equal(out, 2 * (a @ b))


@pl.jit.incore
def loaded_batches(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    left = pl.move(pl.load(a, [0, 0, 0], [2, 4, 8], target_memory=pl.Mem.Mat), pl.Mem.Left)
    right = pl.move(pl.load(b, [0, 0, 0], [2, 8, 6], target_memory=pl.Mem.Mat), pl.Mem.Right)
    once = pl.tile.batch_matmul(left, right)
    out = pl.store(pl.tile.batch_matmul_acc(once, left, right), [0, 0, 0], out)


def test_tiles_of_several_matrices_multiply_matrix_by_matrix() -> None:
    a, b = whole(2, 4, 8), whole(2, 8, 6, seed=1)
    *_, out = run(loaded_batches, a, b, empty(2, 4, 6))
    np.testing.assert_array_equal(out, 2 * (a @ b))


@pl.jit.incore
def transposed_batches(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], flipped: pl.Out[pl.Tensor]):
    left = pl.load(a, [0, 0, 0], [2, 4, 8], valid_shape=[2, 3, 8])
    right = pl.load(b, [0, 0, 0], [2, 6, 8])
    out = pl.store(pl.matmul(left, pl.tile.transpose_view(right)), [0, 0, 0], out)
    flipped = pl.store(pl.transpose(right, 1, 2), [0, 0, 0], flipped)


def test_tiles_of_several_matrices_are_transposed_matrix_by_matrix() -> None:
    a, b = whole(2, 4, 8), whole(2, 6, 8, seed=1)
    *_, out, flipped = run(transposed_batches, a, b, empty(2, 4, 6), empty(2, 8, 6))
    np.testing.assert_array_equal(out[:, :3], (a @ b.transpose(0, 2, 1))[:, :3])
    np.testing.assert_array_equal(out[:, 3:], empty(2, 1, 6))
    np.testing.assert_array_equal(flipped, b.transpose(0, 2, 1))


@pl.jit
def padded_left(
    p: pl.Tensor[[16, 32], pl.FP32],
    n: pl.Tensor[[1], pl.INT32],
    v: pl.Tensor[[32, 24], pl.FP32],
    out: pl.Out[pl.Tensor[[32, 24], pl.FP32]],
):
    rows = pl.cast(pl.read(n, [0]), pl.INDEX)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:16, :] = pl.matmul(p, pl.slice(v, [32, 24], [0, 0], valid_shape=[rows, 24]))
        acc = pl.full([16, 24], dtype=pl.FP32, value=1.0)
        out[16:32, :] = pl.matmul_acc(acc, p, pl.slice(v, [32, 24], [0, 0], valid_shape=[20, 24]))
    return out


def test_rows_of_the_right_operand_that_are_not_valid_count_nothing() -> None:
    p, v = whole(16, 32), whole(32, 24, seed=1)
    v[20:] = np.nan
    *_, out = run(padded_left, p, np.array([20], np.int32), v, empty(32, 24))
    product = p[:, :20] @ v[:20]
    np.testing.assert_array_equal(out, np.concatenate([product, product + 1]))
