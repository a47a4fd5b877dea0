"""Small kernels that several tests run. What starts with `compile_` gives a program for a shape and a type."""

import torch

import pypto.language as pl
from pypto import ir


@pl.jit.incore
def add_tile(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    tile_a = pl.load(a, [0, 0], [a.shape[0], a.shape[1]])
    tile_b = pl.load(b, [0, 0], [a.shape[0], a.shape[1]])
    c = pl.store(pl.add(tile_a, tile_b), [0, 0], c)
    return c


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    c = add_tile(a, b, c)
    return c


@pl.jit.incore
def mul_tile(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    tile_a = pl.load(a, [0, 0], [a.shape[0], a.shape[1]])
    tile_b = pl.load(b, [0, 0], [a.shape[0], a.shape[1]])
    c = pl.store(pl.mul(tile_a, tile_b), [0, 0], c)
    return c


@pl.jit
def mul(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    c = mul_tile(a, b, c)
    return c


@pl.jit.incore
def add_into_tile(a: pl.Tensor, c: pl.InOut[pl.Tensor]):
    tile_a = pl.load(a, [0, 0], [a.shape[0], a.shape[1]])
    tile_c = pl.load(c, [0, 0], [a.shape[0], a.shape[1]])
    c = pl.store(pl.add(tile_a, tile_c), [0, 0], c)
    return c


@pl.jit
def add_into(a: pl.Tensor, c: pl.InOut[pl.Tensor]):
    c = add_into_tile(a, c)
    return c


@pl.jit.incore
def fill_upper_half_tile(out: pl.Out[pl.Tensor]):
    ones = pl.full([64, 128], dtype=pl.FP32, value=1.0)
    out = pl.store(ones, [0, 0], out)
    return out


@pl.jit
def fill_upper_half(out: pl.Out[pl.Tensor]):
    out = fill_upper_half_tile(out)
    return out


@pl.program
class RepeatedMatmul:
    """out = n * (a @ b), as n products that are added one after the other: as long a launch as is asked for."""

    @pl.function(type=pl.FunctionType.InCore)
    def accumulate(
        self,
        a: pl.Tensor[[128, 128], pl.FP32],
        b: pl.Tensor[[128, 128], pl.FP32],
        out: pl.Out[pl.Tensor[[128, 128], pl.FP32]],
        n: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[128, 128], pl.FP32]:
        a_l1 = pl.load(a, [0, 0], [128, 128], target_memory=pl.Mem.Mat)
        b_l1 = pl.load(b, [0, 0], [128, 128], target_memory=pl.Mem.Mat)
        a_l0 = pl.move(a_l1, target_memory=pl.Mem.Left)
        b_l0 = pl.move(b_l1, target_memory=pl.Mem.Right)
        acc = pl.matmul(a_l0, b_l0)
        for _ in pl.range(1, n):
            acc = pl.matmul_acc(acc, a_l0, b_l0)
        out = pl.store(acc, [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        a: pl.Tensor[[128, 128], pl.FP32],
        b: pl.Tensor[[128, 128], pl.FP32],
        out: pl.Out[pl.Tensor[[128, 128], pl.FP32]],
        n: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[128, 128], pl.FP32]:
        out = self.accumulate(a, b, out, n)
        return out


def compile_add(rows: int = 128, cols: int = 128, dtype: torch.dtype = torch.float32) -> ir.CompiledProgram:
    """c = a + b on one tile."""
    return add.compile(*(torch.empty(rows, cols, dtype=dtype) for _ in range(3)))


def compile_mul(rows: int = 128, cols: int = 128, dtype: torch.dtype = torch.float32) -> ir.CompiledProgram:
    """c = a * b on one tile."""
    return mul.compile(*(torch.empty(rows, cols, dtype=dtype) for _ in range(3)))


def compile_add_into(rows: int = 128, cols: int = 128, dtype: torch.dtype = torch.float32) -> ir.CompiledProgram:
    """c = a + c on one tile."""
    return add_into.compile(*(torch.empty(rows, cols, dtype=dtype) for _ in range(2)))
