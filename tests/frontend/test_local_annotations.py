"""Annotations of assignments inside a kernel may name what the kernel knows; numbers may be members of enumerations."""

import enum

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


class Step(enum.IntEnum):
    FIRST = 1
    SECOND = 3


@pl.jit
def annotated(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    rows, cols = x.shape
    half: pl.Scalar[pl.INDEX] = rows // 2
    with pl.at(level=pl.Level.CORE_GROUP):
        t: pl.Tensor[[rows, cols], pl.FP32] = pl.add(x, 1.0)
        u: pl.Tensor[[half, cols], pl.FP32] = t[0:half, :]
        if Step.SECOND > Step.FIRST + 1:
            u = pl.mul(u, Step.SECOND)
        v: pl.Tensor[[half, cols], pl.FP32, pl.TensorView(valid_shape=[n, cols])] = u
        out[0:half, :] = v
    return out


def test_an_annotation_names_extents_of_the_kernel() -> None:
    x = f32(4, 8)
    got = run(annotated, x, empty(4, 8), 2, runtime=True)[1]
    np.testing.assert_array_equal(got[:2], (x[:2] + np.float32(1)) * np.float32(3))


def test_an_annotation_that_contradicts_the_value_is_refused() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows, cols = x.shape
        with pl.at(level=pl.Level.CORE_GROUP):
            t: pl.Tensor[[cols, rows], pl.FP32] = pl.add(x, 1.0)
            out[:] = t
        return out

    with pytest.raises(ir.KernelTypeError, match=r"the value is pl.Tile\[\[4, 8\], pl.FP32\], the annotation says"):
        kernel.lower(f32(4, 8), empty(4, 8))
