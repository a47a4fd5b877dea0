"""Functions of 16-bit floats, of every value, on every instruction set: the exact result rounded once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from interp.numbers import rounded
from operations.harness import from_torch, kernel_of, launch
from operations.test_matrix import AVAILABLE

import pypto.language as pl

FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
}
KINDS = {"FP16": torch.float16, "BF16": torch.bfloat16}


@pytest.mark.parametrize("isa", AVAILABLE)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_of_every_half_is_rounded_once(function: str, dtype: str, isa: str, tmp_path, monkeypatch) -> None:
    """FP64 decides: none of its results is so close to the middle of two halves that its own error could matter."""
    monkeypatch.setenv("PYPTO_ISA", isa)
    text = f"""import pypto.language as pl

@pl.jit.incore
def kernel(x: pl.Tensor[[64, 1024], pl.{dtype}], out: pl.Out[pl.Tensor[[64, 1024], pl.{dtype}]]):
    for i in pl.range(64):
        out = pl.store(pl.{function}(pl.load(x, [i, 0], [1, 1024])), [i, 0], out)
    return out
"""
    halves = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(KINDS[dtype]).reshape(64, 1024)
    out = torch.zeros(64, 1024, dtype=KINDS[dtype])
    launch(kernel_of(text, tmp_path / "k.py"), halves, out)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[function](from_torch(halves).astype(np.float64))
    np.testing.assert_array_equal(from_torch(out), rounded(exact, getattr(pl, dtype)))
    zeros = (exact == 0) & ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(from_torch(out)[zeros]), np.signbit(exact[zeros]))
