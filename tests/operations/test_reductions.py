"""Sums and products of floats within their bounds, and what NaN and infinities do to reductions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from checking import empty, run
from operations.harness import from_torch, kernel_of, launch

import pypto.language as pl

DTYPES = {"FP32": torch.float32, "FP16": torch.float16, "BF16": torch.bfloat16}
UNIT = {"FP32": 2.0**-24, "FP16": 2.0**-11, "BF16": 2.0**-8}
"""Half a unit in the last place, relative: what one rounding costs."""

SHAPES = [(5, 129), (17, 64), (33, 1000), (1, 4097)]


def source(call: str, dtype: str, shape: tuple[int, int], out: tuple[int, int]) -> str:
    """A kernel that reduces a whole tensor."""
    return f"""import pypto.language as pl

@pl.jit
def kernel(x: pl.Tensor[{list(shape)}, pl.{dtype}], out: pl.Out[pl.Tensor[{list(out)}, pl.{dtype}]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = {call}
    return out
"""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_30_sums_accumulate_in_fp32_and_are_rounded_once(axis: int, dtype: str, shape, tmp_path) -> None:
    """`n` additions in FP32 in any order are off by at most `n` half units of the sum of magnitudes."""
    name, out_shape = ("row_sum", (shape[0], 1)) if axis else ("col_sum", (1, shape[1]))
    x = torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(DTYPES[dtype])
    out = torch.zeros(out_shape, dtype=DTYPES[dtype])
    launch(kernel_of(source(f"pl.{name}(x)", dtype, shape, out_shape), tmp_path / "k.py"), x, out)
    wide = x.double()
    exact, magnitude = wide.sum(axis, keepdim=True), wide.abs().sum(axis, keepdim=True)
    bound = magnitude * shape[axis] * UNIT["FP32"]
    if dtype != "FP32":
        bound += exact.abs() * UNIT[dtype] * 1.01  # the one rounding, of a sum that is slightly off
    assert bool(((out.double() - exact).abs() <= bound).all())


def test_30_col_sum_adds_rows_in_ascending_order(tmp_path) -> None:
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((97, 33)).astype(np.float32))
    out = torch.zeros(1, 33)
    launch(kernel_of(source("pl.col_sum(x)", "FP32", (97, 33), (1, 33)), tmp_path / "k.py"), x, out)
    total = x[0].clone()
    for row in x[1:]:
        total = total + row
    assert torch.equal(out[0], total)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_products_accumulate_in_fp32(axis: int, dtype: str, tmp_path) -> None:
    shape = (9, 40) if axis else (40, 9)
    name, out_shape = ("row_prod", (9, 1)) if axis else ("col_prod", (1, 9))
    x = torch.from_numpy(np.random.default_rng(0).uniform(0.8, 1.25, shape)).to(DTYPES[dtype])
    out = torch.zeros(out_shape, dtype=DTYPES[dtype])
    launch(kernel_of(source(f"pl.{name}(x)", dtype, shape, out_shape), tmp_path / "k.py"), x, out)
    exact = x.double().prod(axis, keepdim=True)
    bound = exact * (40 * UNIT["FP32"] + (UNIT[dtype] if dtype != "FP32" else 0) * 1.01)
    assert bool(((out.double() - exact).abs() <= bound).all())


@pl.jit.incore
def with_nan(x: pl.Tensor, out: pl.Out[pl.Tensor], places: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    pl.store(pl.row_max(t, t), [0, 0], out)
    pl.store(pl.row_min(t, t), [0, 1], out)
    pl.store(pl.row_sum(t, t), [0, 2], out)
    pl.store(pl.row_argmax(t, t), [0, 0], places)
    pl.store(pl.row_argmin(t, t), [0, 1], places)


def test_nan_wins_every_reduction_and_the_first_one_is_found() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    x[1, [3, 6]] = np.nan
    x[2, 5] = np.inf
    x[3, [0, 7]] = -np.inf
    _, out, places = run(with_nan, x, empty(4, 3), empty(4, 2, dtype=np.int32))
    np.testing.assert_array_equal(out[:, 0], [7, np.nan, np.inf, 30])
    np.testing.assert_array_equal(out[:, 1], [0, np.nan, 16, -np.inf])
    np.testing.assert_array_equal(places, [[7, 0], [3, 3], [5, 0], [6, 0]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "k", "n"), [(16, 16, 16), (17, 129, 65), (64, 512, 33)])
def test_products_of_matrices_are_within_the_bound_of_sums_in_fp32(
    m: int, k: int, n: int, dtype: str, tmp_path
) -> None:
    """Products of 16-bit floats are exact in FP32; those of FP32 round once more."""
    random = np.random.default_rng(0)
    a, b = (torch.from_numpy(random.standard_normal(shape)).to(DTYPES[dtype]) for shape in ((m, k), (k, n)))
    text = f"""import pypto.language as pl

@pl.jit
def kernel(a: pl.Tensor[[{m}, {k}], pl.{dtype}], b: pl.Tensor[[{k}, {n}], pl.{dtype}],
           out: pl.Out[pl.Tensor[[{m}, {n}], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out
"""
    out = torch.zeros(m, n)
    launch(kernel_of(text, tmp_path / "k.py"), a, b, out)
    exact = a.double() @ b.double()
    bound = (a.double().abs() @ b.double().abs()) * (k + 1) * UNIT["FP32"]
    assert bool(((out.double() - exact).abs() <= bound).all())
    assert from_torch(out).dtype == np.float32
