"""Annotations of names in a body: they see the body's names, and are compared with the values."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelTypeError

ROWS = pl.dynamic("ROWS")


@pl.jit
def local_extents(x: pl.Tensor[[ROWS, 32], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 32], pl.FP32]]):
    rows, cols = x.shape
    twice: pl.Tensor[[rows, cols], pl.FP32] = pl.create_tensor([rows, cols], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        half: pl.Tensor[[8, cols // 2], pl.FP32] = x[0:8, 0:16]
        twice[:, :] = pl.mul(x[0:8, 0:cols], 2.0)
        twice[0:8, 0:16] = half
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = twice[0:8, 0:32]
    return out


def test_extents_of_an_annotation_may_be_names_of_the_body() -> None:
    x = f32(8, 32)
    *_, out = run(local_extents, x, empty(8, 32))
    np.testing.assert_array_equal(out, np.concatenate([x[:, :16], x[:, 16:] * 2], 1))


@pl.jit.incore
def placed(x: pl.Tensor, count: pl.Tensor[[1, 1], pl.INT32], out: pl.Out[pl.Tensor]):
    place: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 2048)
    other = pl.tile.alloc(memory_space=pl.Mem.Vec, size=2048, pinned=True)
    n: pl.Scalar[pl.INDEX] = pl.cast(pl.read(count, [0, 0]), pl.INDEX)
    t: pl.Tile[[16, 32], pl.FP32, pl.MemRef(place, 0, 2048), pl.Mem.Vec, pl.TileView(valid_shape=[16, n])] = pl.load(
        x, [0, 0], [16, 32], valid_shape=[16, n]
    )
    u: pl.Tile[[16, 32], pl.FP32, pl.MemRef(other, 0, 2048)] = pl.mul(t, 2.0)
    out = pl.store(u, [0, 0], out)
    return out


def test_places_on_chip_and_runtime_validity_are_labels() -> None:
    x = f32(16, 32)
    *_, out = run(placed, x, np.array([[9]], np.int32), empty(16, 32))
    np.testing.assert_array_equal(out[:, :9], x[:, :9] * 2)
    assert np.isnan(out[:, 9:]).all()


@pl.jit.incore
def contradicted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    t: pl.Tile[[rows, cols * 2], pl.FP32] = pl.load(x, [0, 0], [16, 32])
    out = pl.store(t, [0, 0], out)
    return out


def test_a_known_extent_of_the_body_is_compared_with_the_value() -> None:
    with pytest.raises(KernelTypeError, match=r"the value is pl\.Tile\[\[16, 32\], pl\.FP32\], the annotation says"):
        contradicted.lower(f32(16, 32), empty(16, 32))
