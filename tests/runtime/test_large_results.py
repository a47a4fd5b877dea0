"""Results that outgrow the caches are written past them, with the same bytes as ever."""

from __future__ import annotations

import pytest
import torch

import pypto.language as pl
from pypto.runtime import ChipWorker


@pl.jit.incore
def block(x: pl.Tensor, out: pl.Out[pl.Tensor], row: pl.Scalar[pl.INDEX]):
    tile = pl.load(x, [row, 0], [8, x.shape[1]])
    return pl.store(pl.add(pl.mul(tile, 2.0), 1.0), [row, 0], out)


@pl.jit
def double(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for row in pl.range(0, x.shape[0], 8):
        out = block(x, out, row)
    return out


@pytest.mark.parametrize("cols", [2048, 2055], ids=["whole-lines", "rows-that-begin-anywhere"])
def test_a_large_result_is_right_at_the_first_launch_and_when_it_repeats(cols: int) -> None:
    x = torch.randn(2048, cols)  # 16 MiB, from which on results are streamed
    with ChipWorker() as w:
        handle = w.register(double.compile(x, torch.empty_like(x)))
        source = w.alloc_tensor(x.shape, x.dtype, init=x)
        for launch in range(4):
            out = w.alloc_tensor(x.shape, x.dtype, init=torch.full_like(x, float(launch)))
            handle(source, out)
            got = torch.empty_like(x)
            w.copy_from(got, out)
            assert torch.equal(got, x * 2 + 1), launch
            w.free_tensor(out)
        w.free_tensor(source)
