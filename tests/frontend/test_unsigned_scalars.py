"""UINT64 scalars: the first bit is a digit, in whatever is computed with them."""

import ctypes

import numpy as np
import pytest
import torch

import pypto.language as pl
from pypto.ir import exprs
from pypto.language.dtypes import FP32, INDEX, INT64, UINT64

NUMBERS = [0, 7, 2**63 - 1, 2**63, 2**63 + 12345, 2**64 - 1]


@pl.jit.incore
def digits(n: pl.Scalar[pl.UINT64], f: pl.Out[pl.Tensor[[1, 1], pl.FP32]], o: pl.Out[pl.Tensor[[1, 9], pl.INT64]]):
    pl.write(f, [0, 0], pl.cast(n, pl.FP32))
    pl.write(o, [0, 0], pl.cast(n // 3, pl.INT64))
    pl.write(o, [0, 1], pl.cast(n % 1000, pl.INT64))
    pl.write(o, [0, 2], pl.cast(n >> 3, pl.INT64))
    pl.write(o, [0, 3], pl.cast(pl.min(n, 5), pl.INT64))
    pl.write(o, [0, 4], pl.cast(pl.max(n, 5), pl.INT64))
    pl.write(o, [0, 5], pl.cast(n + 1, pl.INT64))
    pl.write(o, [0, 6], pl.cast(pl.cast(pl.cast(n, pl.FP32), pl.UINT64), pl.INT64))
    big: pl.Scalar[pl.INT64] = pl.const(0, pl.INT64)
    if n > 9223372036854775807:
        big = big + 1
    if n >= 9223372036854775808:
        big = big + 10
    if pl.const(5, pl.UINT64) < n:
        big = big + 100
    if pl.const(7, pl.UINT64) <= n:
        big = big + 1000
    pl.write(o, [0, 7], big)
    pl.write(o, [0, 8], pl.cast(n, pl.INT64))
    return f, o


@pl.jit
def entry(n: pl.Scalar[pl.UINT64], f: pl.Out[pl.Tensor[[1, 1], pl.FP32]], o: pl.Out[pl.Tensor[[1, 9], pl.INT64]]):
    f, o = digits(n, f, o)
    return f, o


def signed(number: int) -> int:
    return exprs.wrap(number, 64, True)


def expected(n: int) -> list[int]:
    # As the device converts: a binary32 of 2**64 is beyond all 64-bit integers, and becomes the largest.
    back = min(int(np.float32(n)), 2**64 - 1)
    big = (n > 2**63 - 1) + 10 * (n >= 2**63) + 100 * (n > 5) + 1000 * (n >= 7)
    return [signed(number) for number in (n // 3, n % 1000, n >> 3, min(n, 5), max(n, 5), n + 1, back, big, n)]


@pytest.mark.parametrize("known", ["when it is compiled", "when it runs"])
@pytest.mark.parametrize("n", NUMBERS)
def test_all_64_bits_count(n: int, known: str) -> None:
    f, o = torch.zeros(1, 1), torch.zeros(1, 9, dtype=torch.int64)
    compiled = entry.compile(n if known == "when it is compiled" else pl.RUNTIME, f, o)
    for spelling in (n, np.uint64(n), ctypes.c_uint64(n)):
        compiled(spelling, f.zero_(), o.zero_())
        assert o[0].tolist() == expected(n)
        assert f.item() == float(np.float32(n))


def test_numbers_beyond_64_bits_are_refused() -> None:
    f, o = torch.zeros(1, 1), torch.zeros(1, 9, dtype=torch.int64)
    compiled = entry.compile(pl.RUNTIME, f, o)
    with pytest.raises(OverflowError, match=r"'n'.*: -1 does not fit UINT64, which holds 0 to 18446744073709551615"):
        compiled(-1, f, o)
    with pytest.raises(OverflowError, match=r"'n'.*18446744073709551616 is out of range for UINT64"):
        compiled(2**64, f, o)


def test_constants_are_folded_as_the_device_computes() -> None:
    high = exprs.Const(2**64 - 1, UINT64)
    assert exprs.binary("add", high, exprs.Const(2, UINT64), UINT64) == exprs.Const(1, UINT64)
    assert exprs.unary("bitnot", exprs.Const(0, UINT64), UINT64) == high
    assert exprs.unary("neg", exprs.Const(1, UINT64), UINT64) == high
    assert exprs.cast(exprs.Const(-1, INDEX), UINT64) == high
    assert exprs.cast(high, INT64) == exprs.Const(-1, INT64)
    assert exprs.cast(high, FP32) == exprs.Const(2.0**64, FP32)
    assert exprs.cast(exprs.Const(1e30, FP32), UINT64) == high
    assert exprs.cast(exprs.Const(-1e30, FP32), INT64) == exprs.Const(-(2**63), INT64)
    assert exprs.cast(exprs.Const(0.1, FP32), FP32) == exprs.Const(0.1, FP32)
    assert exprs.cast(exprs.Const(2**24 + 1, INDEX), FP32) == exprs.Const(2.0**24, FP32)


@pl.jit.incore
def beside_an_index(n: pl.Scalar[pl.UINT64], i: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[1, 2], pl.INT64]]):
    pl.write(o, [0, 0], pl.cast(n // i, pl.INT64))
    pl.write(o, [0, 1], pl.cast(n // pl.cast(i, pl.UINT64), pl.INT64))
    return o


@pl.jit
def divided(n: pl.Scalar[pl.UINT64], i: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[1, 2], pl.INT64]]):
    o = beside_an_index(n, i, o)
    return o


def test_beside_a_signed_scalar_of_run_time_they_are_signed_as_arrays_are_unless_that_is_cast() -> None:
    n, o = 2**63 + 12, torch.zeros(1, 2, dtype=torch.int64)
    divided.compile(pl.RUNTIME, pl.RUNTIME, o)(n, 5, o)
    assert o[0].tolist() == [(n - 2**64) // 5, n // 5]
