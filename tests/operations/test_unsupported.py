"""What this device does not have is refused by name, with what it belongs to."""

import numpy as np
import pytest
from checking import f32

import pypto.language as pl
import pypto.language.distributed as pld
from pypto.ir import KernelNotSupportedError


@pl.jit
def windows(x: pl.Tensor[[4, 8], pl.FP32]):
    buffer = pld.alloc_window_buffer(4 * 8 * 4)
    return buffer


@pl.jit
def ranks(x: pl.Tensor[[4, 8], pl.FP32]):
    return pld.world_size()


def test_29_windows_need_several_ranks() -> None:
    for kernel in (windows, ranks):
        with pytest.raises(KernelNotSupportedError, match="this device has no programs over several ranks"):
            kernel.lower(f32(4, 8))


@pl.jit.incore
def scaled_product(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(a, [0, 0], [16, 16])
    out = pl.store(pl.matmul_mx(t, t, t, t), [0, 0], out)


@pl.jit.incore
def pipes(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
    out = pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], out)


def test_products_of_scaled_blocks_and_pipes_are_refused() -> None:
    arguments = f32(16, 16), np.zeros((16, 16), np.float32)
    with pytest.raises(KernelNotSupportedError, match="no block-scaled FP8 and FP4 matrix products"):
        scaled_product.lower(*arguments)
    with pytest.raises(KernelNotSupportedError, match="no explicit pipes between the cube and the vector core"):
        pipes.lower(*arguments)
