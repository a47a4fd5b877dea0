"""Rules of elementwise operations that no table of numbers shows: dtypes, levels, validity, refusals."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelNotSupportedError, KernelTypeError, KernelValueError


def refusal(kernel, *args) -> str:
    """The text of a refusal as a type error."""
    with pytest.raises(KernelTypeError) as caught:
        kernel.lower(*args)
    return str(caught.value)


@pl.jit.incore
def narrow_left(v: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.sub(pl.load(v, [0, 0], [16, 1]), pl.load(x, [0, 0], [16, 32])), [0, 0], out)


@pl.jit.incore
def row_vector(x: pl.Tensor, h: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.add(pl.load(x, [0, 0], [16, 32]), pl.load(h, [0, 0], [1, 32])), [0, 0], out)


@pl.jit.incore
def narrow_maximum(x: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.maximum(pl.load(x, [0, 0], [16, 32]), pl.load(v, [0, 0], [16, 1])), [0, 0], out)


def test_09_only_columns_broadcast_and_never_from_the_left() -> None:
    x, v, h, out = f32(16, 32), f32(16, 1), f32(1, 32), empty(16, 32)
    text = refusal(narrow_left, v, x, out)
    assert "the left operand is the narrow one" in text
    assert "write pl.neg(pl.row_expand_sub(X, v))" in text
    assert "[1, N] needs pl.col_expand_add" in refusal(row_vector, x, h, out)
    assert "the shapes differ" in refusal(narrow_maximum, x, v, out)


@pl.jit.incore
def extrema(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 32])
    out = pl.store(pl.max(t, t), [0, 0], out)


def test_10_max_and_min_are_of_scalars() -> None:
    text = refusal(extrema, f32(16, 32), empty(16, 32))
    assert "pl.max works on scalars" in text
    assert "pl.maximum(a, b); along a row: pl.row_max(x)" in text


@pl.jit.incore
def compared(x: pl.Tensor, y: pl.Tensor, numbers: pl.Out[pl.Tensor], chosen: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [4, 8])
    b = pl.load(y, [0, 0], [4, 8])
    whole = pl.tensor.cmp(x, y, cmp_type=4)
    numbers = pl.assemble(numbers, pl.add(whole, pl.cmp(x, 0.0, cmp_type=2)), [0, 0])
    chosen = pl.store(pl.sel(pl.cmp(a, b, cmp_type=4), a, b, a), [0, 0], chosen)


def test_11_comparing_tensors_gives_numbers_and_comparing_tiles_a_mask() -> None:
    x, y = f32(4, 8), f32(4, 8, seed=1)
    *_, numbers, chosen = run(compared, x, y, empty(4, 8), empty(4, 8))
    np.testing.assert_array_equal(numbers, (x > y).astype(np.float32) + (x < 0))
    np.testing.assert_array_equal(chosen, np.maximum(x, y))


@pl.jit.incore
def mask_in_arithmetic(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    out = pl.store(pl.add(pl.cmps(t, 0.0), pl.cmps(t, 1.0)), [0, 0], out)


def test_11_a_mask_is_no_number() -> None:
    text = refusal(mask_in_arithmetic, f32(4, 8), empty(4, 8))
    assert "pl.add works on numbers, got BOOL" in text
    assert "a mask is used by pl.sel" in text


@pl.jit.incore
def packed(x: pl.Tensor, bits: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 20])
    out = pl.store(pl.sels(pl.load(bits, [0, 0], [4, 32]), t, t, -1.0), [0, 0], out)


def test_11_a_packed_mask_from_memory_has_the_lowest_bit_of_a_byte_first() -> None:
    x = f32(4, 20)
    wanted = np.random.default_rng(0).random((4, 20)) < 0.5
    bits = np.zeros((4, 32), np.uint8)
    bits[:, :3] = np.packbits(wanted, axis=1, bitorder="little")
    *_, out = run(packed, x, bits, empty(4, 20))
    np.testing.assert_array_equal(out, np.where(wanted, x, np.float32(-1)))


@pl.jit.incore
def half_scalars(h: pl.Tensor, s: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(h, [0, 0], [4, 8])
    pl.store(pl.mul(t, 0.1), [0, 0], out)
    pl.store(pl.add(t, pl.read(s, [0])), [4, 0], out)


def test_a_scalar_beside_halves_is_rounded_to_halves_first() -> None:
    h, s = f32(4, 8).astype(np.float16), np.array([0.1], np.float32)
    *_, out = run(half_scalars, h, s, empty(8, 8, dtype=np.float16))
    np.testing.assert_array_equal(out[:4], h * np.float16(0.1))
    np.testing.assert_array_equal(out[4:], h + np.float16(0.1))


@pl.jit.incore
def promoted(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    wide = pl.add(pl.load(a, [0, 0], [4, 8]), pl.load(b, [0, 0], [4, 8]))
    out = pl.store(pl.mul(wide, pl.load(c, [0, 0], [4, 8])), [0, 0], out)


def test_promotion_prefers_floats_then_width_then_the_sign() -> None:
    random = np.random.default_rng(0)
    a = random.integers(-100, 100, (4, 8)).astype(np.int16)
    b = random.integers(-100000, 100000, (4, 8)).astype(np.int32)
    c = random.integers(-5, 5, (4, 8)).astype(np.float32)
    *_, out = run(promoted, a, b, c, empty(4, 8))
    np.testing.assert_array_equal(out, (a + b).astype(np.float32) * c)


@pl.jit.incore
def three_inputs(x: pl.Tensor, y: pl.Tensor, z: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [4, 8])
    b = pl.load(y, [0, 0], [4, 8])
    c = pl.load(z, [0, 0], [4, 8])
    pl.store(pl.addc(a, b, c), [0, 0], out)
    pl.store(pl.subc(a, b, c), [4, 0], out)
    pl.store(pl.addsc(a, 2.0, c), [8, 0], out)
    pl.store(pl.subsc(a, 2.0, c), [12, 0], out)


def test_30_subc_adds_its_third_operand_as_the_simulator_does() -> None:
    x, y, z = (f32(4, 8, seed=seed) for seed in range(3))
    *_, out = run(three_inputs, x, y, z, empty(16, 8))
    two = np.float32(2)
    np.testing.assert_array_equal(out.reshape(4, 4, 8), [(x + y) + z, (x - y) + z, (x + two) + z, (x - two) + z])


@pl.jit.incore
def combined(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    a = pl.load(x, [0, 0], [8, 16], valid_shape=[8, n])
    b = pl.load(y, [0, 0], [8, 16], valid_shape=[5, 12])
    pl.store(pl.part_add(a, b), [0, 0], out)
    pl.store(pl.part_mul(a, b), [8, 0], out)
    pl.store(pl.part_max(a, b), [16, 0], out)
    pl.store(pl.part_min(a, b), [24, 0], out)


def test_partial_operations_combine_where_both_are_valid_and_copy_where_one_is() -> None:
    x, y = f32(8, 16), f32(8, 16, seed=1)
    for n in (16, 7):
        *_, out = run(combined, x, y, empty(32, 16), n)
        cols = max(n, 12)
        for have, operation in zip(out.reshape(4, 8, 16), (np.add, np.multiply, np.maximum, np.minimum), strict=True):
            first, second = np.zeros((8, 16), bool), np.zeros((8, 16), bool)
            first[:, :n], second[:5, :12] = True, True
            want = np.where(first & second, operation(x, y), np.where(first, x, np.where(second, y, 0)))
            np.testing.assert_array_equal(have[:, :cols], want[:, :cols])
            assert np.isnan(have[:, cols:]).all()


@pl.jit
def scratch_on_tensors(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_max(x, x)
    return out


@pl.jit.incore
def precision_on_tiles(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.rsqrt(pl.load(x, [0, 0], [4, 8]), high_precision=True), [0, 0], out)


@pl.jit.incore
def bits_of_floats(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.ands(pl.load(x, [0, 0], [4, 8]), 3), [0, 0], out)


@pl.jit.incore
def unknown_comparison(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.tensor.cmp(x, 1.0, cmp_type=6), [0, 0], out)


@pl.jit.incore
def low_precision_floats(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.cast(pl.load(x, [0, 0], [4, 8]), pl.FP8E4M3FN), [0, 0], out)


def test_keywords_of_the_other_level_and_wrong_dtypes_are_refused() -> None:
    x, out = f32(4, 8), empty(4, 8)
    assert "'tmp_tile' belongs to tiles, and this is a tensor" in refusal(scratch_on_tensors, x, empty(4, 1))
    assert "'high_precision' belongs to tensors, and this is a tile" in refusal(precision_on_tiles, x, out)
    assert "works on integers, got FP32" in refusal(bits_of_floats, x, out)
    with pytest.raises(KernelValueError, match="'cmp_type' is 6"):
        unknown_comparison.lower(x, out)
    with pytest.raises(KernelNotSupportedError, match=r"elements of dtype pl\.FP8E4M3FN are not supported"):
        low_precision_floats.lower(x, out)


@pl.jit.incore
def shifted_powers(x: pl.Tensor, v: pl.Tensor, h: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [8, 16])
    pl.store(pl.row_expand_expdif(t, pl.load(v, [0, 0], [8, 1])), [0, 0], out)
    pl.store(pl.col_expand_expdif(t, pl.load(h, [0, 0], [1, 16])), [8, 0], out)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_expdif_rounds_the_difference_before_the_exponential(dtype: type) -> None:
    x, v, h = (array.astype(dtype) for array in (f32(8, 16), f32(8, 1, seed=1), f32(1, 16, seed=2)))
    *_, out = run(shifted_powers, x, v, h, empty(16, 16, dtype=dtype))
    tolerance = 2.0**-22 if dtype is np.float32 else 2.0**-10  # 2 ULP of FP32, 1 of FP16
    for have, narrow in ((out[:8], v), (out[8:], h)):
        np.testing.assert_allclose(have, np.exp((x - narrow).astype(np.float64)), rtol=tolerance)


@pl.jit
def blocks(out: pl.Out[pl.Tensor[[4, 8], pl.INT32]]):
    for i in pl.spmd(4):
        line = pl.full([1, 8], dtype=pl.INT32, value=0)
        number = pl.cast(pl.get_block_num() * 10 + pl.get_block_idx(), pl.INT32)
        out[i : i + 1, :] = pl.expands(line, number)
    return out


def test_blocks_know_their_number_and_how_many_there_are() -> None:
    (out,) = run(blocks, empty(4, 8, dtype=np.int32))
    np.testing.assert_array_equal(out, np.broadcast_to(np.arange(40, 44)[:, None], (4, 8)))
