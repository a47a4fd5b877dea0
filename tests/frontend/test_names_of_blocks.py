"""A name may mean something else in each block: what a finished block left is no type for the next one."""

from typing import Any

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir.diagnostics import KernelError


@pl.jit
def tiles_of_two_widths(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    wide = pl.create_tensor([16, 32], dtype=pl.FP32)
    for i in pl.spmd(2):
        part = x[i * 8 : i * 8 + 8, :]
        wide[i * 8 : i * 8 + 8, :] = pl.mul(part, 2.0)
    for i in pl.spmd(2):
        for k in pl.range(4):
            part = wide[i * 8 : i * 8 + 8, k * 8 : k * 8 + 8]
            if k == 0:
                acc = part
            else:
                acc = pl.add(acc, part)
        out[i * 8 : i * 8 + 8, :] = acc
    return out


def test_scopes_side_by_side_use_one_name_for_tiles_of_two_shapes() -> None:
    x = f32(16, 32)
    out = run(tiles_of_two_widths, x, empty(16, 8))[-1]
    np.testing.assert_allclose(out, (2 * x).reshape(16, 4, 8).sum(1), rtol=1e-5, atol=1e-6)


@pl.jit.incore
def branches(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        part = pl.load(x, [i * 8, 0], [8, 32])
        total = pl.add(part, part)
        out = pl.store(total, [i * 8, 0], out)
    if n > 3:
        part = pl.load(x, [0, 0], [4, 32])
        for i in pl.range(n):
            total = pl.mul(part, 3.0)
            out = pl.store(total, [0, 0], out)
    else:
        part = pl.load(x, [0, 0], [2, 32])
        out = pl.store(part, [0, 0], out)


@pytest.mark.parametrize("n", [2, 5])
def test_each_arm_of_a_branch_may_do_so(n: int) -> None:
    x = f32(16, 32)
    want = x + x
    if n > 3:
        want[:4] = x[:4] * np.float32(3)
    else:
        want[:2] = x[:2]
    np.testing.assert_array_equal(run(branches, x, n, empty(16, 32), runtime=True)[-1], want)


@pl.jit.incore
def nested(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        part = pl.load(x, [i * 8, 0], [8, 32])
        out = pl.store(part, [i * 8, 0], out)
    for i in pl.range(2):
        for j in pl.range(2):
            for k in pl.range(2):
                part = pl.load(x, [i * 8 + j * 4 + k * 2, 0], [2, 32])
            out = pl.store(pl.neg(part), [i * 8 + j * 4, 0], out)


def test_the_value_of_an_inner_loop_is_the_name_after_it() -> None:
    x = f32(16, 32)
    want = x.copy()
    for row in range(0, 16, 4):
        want[row : row + 2] = -x[row + 2 : row + 4]
    np.testing.assert_array_equal(run(nested, x, empty(16, 32))[-1], want)


@pl.jit.incore
def carried(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    part = pl.load(x, [0, 0], [8, 32])
    for i in pl.range(2):
        part = pl.load(x, [i * 4, 0], [4, 32])
        out = pl.store(part, [i * 4, 0], out)


@pl.jit.incore
def read_first(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        part = pl.load(x, [i * 8, 0], [8, 32])
        out = pl.store(part, [i * 8, 0], out)
    for i in pl.range(2):
        out = pl.store(part, [0, 0], out)
        part = pl.load(x, [i * 4, 0], [4, 32])


def test_a_value_of_an_open_block_keeps_its_type() -> None:
    with pytest.raises(
        KernelError, match=r"'part' is pl.Tile\[\[8, 32\], pl.FP32\] and cannot become pl.Tile\[\[4, 32"
    ):
        carried.lower(f32(16, 32), empty(16, 32))


def test_a_loop_that_reads_the_value_first_is_refused() -> None:
    with pytest.raises(KernelError, match="'part'"):
        read_first.lower(f32(16, 32), empty(16, 32))


@pl.jit.incore
def a_tile_becomes_a_tensor(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [8, 32])
    t = out
    t = pl.store(pl.load(x, [0, 0], [8, 32]), [0, 0], t)
    return out


@pl.jit.incore
def a_tensor_becomes_a_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = x
    t = pl.load(t, [0, 0], [8, 32])
    out = pl.store(t, [0, 0], out)
    return out


@pytest.mark.parametrize(
    ("kernel", "kinds"),
    [(a_tile_becomes_a_tensor, ("Tile", "Tensor")), (a_tensor_becomes_a_tile, ("Tensor", "Tile"))],
    ids=["tile first", "tensor first"],
)
def test_a_name_stays_a_tile_or_a_tensor(kernel: Any, kinds: tuple[str, str]) -> None:
    old, new = (rf"pl\.{kind}\[\[8, 32\], pl\.FP32\]" for kind in kinds)
    with pytest.raises(KernelError, match=rf"'t' is {old} and cannot become {new}(.|\n)*use another name"):
        kernel.lower(f32(8, 32), empty(8, 32))
