"""Kernels that functions make, in a file whose annotations are never evaluated by Python."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir.diagnostics import KernelError


def make_jit(width: int):
    columns = width * 2  # used by annotations alone: Python makes no closure cell for it
    rows = pl.dynamic("rows")

    @pl.jit
    def kernel(x: pl.Tensor[[rows, columns], pl.FP32], out: pl.Out[pl.Tensor[[rows, columns], pl.FP32]]):
        for i in pl.range(x.shape[0]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i : i + 1, :] = pl.mul(x[i : i + 1, :], 2.0)
        return out

    return kernel


@pytest.mark.parametrize("width", [8, 16])
def test_annotations_see_the_names_of_the_factory(width: int) -> None:
    x = f32(3, 2 * width)
    np.testing.assert_array_equal(run(make_jit(width), x, empty(3, 2 * width))[1], 2 * x)
    with pytest.raises(ValueError, match=rf"declared \[rows, {2 * width}\]"):
        make_jit(width).lower(f32(3, width), empty(3, width))


def make_program(columns: int):
    tile = [4, columns]

    @pl.program
    class Doubled:
        @pl.function(type=pl.FunctionType.InCore)
        def double(self, x: pl.Tensor[tile, pl.FP32], out: pl.Out[pl.Tensor[tile, pl.FP32]]):
            out = pl.store(pl.mul(pl.load(x, [0, 0], [4, 8]), 2.0), [0, 0], out)
            return out

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: pl.Tensor[tile, pl.FP32], out: pl.Out[pl.Tensor[tile, pl.FP32]]):
            out = self.double(x, out)
            return out

    return Doubled


def test_so_do_those_of_the_methods_of_a_class() -> None:
    x = f32(4, 8)
    np.testing.assert_array_equal(run(make_program(8), x, empty(4, 8))[1], 2 * x)


class Large:
    """Stands for a tensor."""


def test_a_kernel_does_not_keep_what_its_annotations_do_not_name() -> None:
    def make():
        rows, large = 4, Large()

        @pl.jit
        def kernel(x: pl.Tensor[[rows, 8], pl.FP32]):
            return x

        return kernel, weakref.ref(large)

    _kernel, large = make()
    gc.collect()
    assert large() is None


def test_a_name_that_nobody_has_is_an_error() -> None:
    @pl.jit
    def kernel(x: pl.Tensor[[absent, 8], pl.FP32]):
        return x

    with pytest.raises(KernelError, match="parameter 'x': 'absent' is not defined"):
        kernel.lower(f32(4, 8))
