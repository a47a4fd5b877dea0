"""Kernels for the command line: annotated, dynamic, open, with a scalar, and a program."""

import torch

import pypto.language as pl

M = pl.dynamic("M")


@pl.jit
def double(x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]) -> pl.Tensor[[32, 64], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)
    return out


@pl.jit
def scale(
    x: pl.Tensor[[M, 64], pl.FP32], factor: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[M, 64], pl.FP32]]
) -> pl.Tensor[[M, 64], pl.FP32]:
    for row in pl.range(0, M, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[row : row + 16, :] = pl.mul(x[row : row + 16, :], factor)
    return out


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]) -> pl.Tensor:
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, b)
    return out


@pl.jit
def listed(a: pl.Tensor, out: pl.Out[pl.Tensor]) -> pl.Tensor:
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, 1.0)
    return out


def listed_args() -> list[torch.Tensor]:
    return [torch.full((16, 32), 3.0), torch.zeros(16, 32)]


@pl.jit
def undefined(a: pl.Tensor, out: pl.Out[pl.Tensor]) -> pl.Tensor:
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, 1.0)
    return out


def undefined_args() -> list[torch.Tensor]:
    return [torch.full((16, 32), float("nan")), torch.zeros(16, 32)]


@pl.jit
def half(
    x: pl.Tensor[[16, 64], pl.FP16], w: pl.Tensor[[64, 32], pl.FP16], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]
) -> pl.Tensor[[16, 32], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, w)
    return out


@pl.jit
def wrong(x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]) -> pl.Tensor[[32, 64], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.no_such_operation(x)  # type: ignore[attr-defined]
    return out


@pl.jit
def picked(
    table: pl.Tensor[[8, 64], pl.FP32], place: pl.Tensor[[16], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
) -> pl.Tensor[[16, 64], pl.FP32]:
    for row in pl.spmd(16):
        out[row : row + 1, :] = pl.add(pl.load(table, [pl.read(place, [row]), 0], [1, 64]), 0.0)
    return out


@pl.program
class Negate:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(
        self, x: pl.Tensor[[16, 32], pl.FP16], out: pl.Out[pl.Tensor[[16, 32], pl.FP16]]
    ) -> pl.Tensor[[16, 32], pl.FP16]:
        return pl.store(pl.neg(pl.load(x, [0, 0], [16, 32])), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[16, 32], pl.FP16], out: pl.Out[pl.Tensor[[16, 32], pl.FP16]]
    ) -> pl.Tensor[[16, 32], pl.FP16]:
        return self.kernel(x, out)
