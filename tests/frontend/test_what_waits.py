"""Values wait in device memory between scopes where something reads them later, and only there.

Scopes that share names must stay independent: a value that waits is written by each task, and tasks that write the same
memory run in turn, which the sanitizer reports for the blocks of one task.
"""

import numpy as np
import pytest
import torch
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir.passes import outline

ROWS, COLS = 64, 64
BAND = 16


def waiting(fn: pl.JITFunction, *args: torch.Tensor) -> set[str]:
    """What waits in device memory that the source does not mention."""
    lowered = outline(fn.lower(*args))
    return {
        stmt.out.name.removesuffix("_gm")
        for stmt in lowered.entry.body
        if getattr(stmt, "op", "") == "create_tensor" and stmt.out.name.endswith("_gm")
    }


@pl.jit
def names_again(x: pl.Tensor, y: pl.Out[pl.Tensor], z: pl.Out[pl.Tensor]):
    for b in pl.spmd(ROWS // BAND):
        r0 = b * BAND
        t = pl.mul(x[r0 : r0 + BAND, :], 2.0)
        y[r0 : r0 + BAND, :] = t
    for b in pl.parallel(ROWS // BAND):
        r0 = b * BAND
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.add(x[r0 : r0 + BAND, :], 1.0)
            z[r0 : r0 + BAND, :] = t
    return y, z


def test_a_loop_that_assigns_the_names_of_an_earlier_scope_reads_nothing_of_it() -> None:
    x, out = f32(ROWS, COLS), empty(ROWS, COLS)
    assert waiting(names_again, *map(torch.from_numpy, (x, out, out))) == set()
    _, y, z = run(names_again, x, out, out)
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x + 1)


@pl.jit
def first_rounds(x: pl.Tensor, y: pl.Out[pl.Tensor], z: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.mul(x[0:BAND, :], 2.0)
        y[0:BAND, :] = acc
    for b in pl.spmd(ROWS // BAND):
        for k in pl.range(4):
            if k == 0:
                acc = pl.add(x[b * BAND : b * BAND + BAND, :], 1.0)
            else:
                acc = pl.mul(acc, 0.5)
        z[b * BAND : b * BAND + BAND, :] = acc
    return y, z


def test_a_value_that_the_first_round_replaces_does_not_come_from_an_earlier_scope() -> None:
    x, out = f32(ROWS, COLS), empty(ROWS, COLS)
    assert waiting(first_rounds, *map(torch.from_numpy, (x, out, out))) == set()
    _, y, z = run(first_rounds, x, out, out)
    np.testing.assert_array_equal(y[:BAND], x[:BAND] * 2)
    np.testing.assert_array_equal(z, (x + 1) / 8)


@pl.jit
def perhaps_no_round(x: pl.Tensor, n: pl.Tensor, y: pl.Out[pl.Tensor]):
    rounds = pl.read(n, [0])
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.mul(x[0:BAND, :], 2.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(rounds):
            if k == 0:
                acc = pl.add(x[BAND : 2 * BAND, :], 1.0)
            else:
                acc = pl.mul(acc, 0.5)
        y[0:BAND, :] = acc
    return y


@pytest.mark.parametrize("n", [0, 1, 3])
def test_where_a_loop_may_have_no_round_the_value_of_the_earlier_scope_waits_for_it(n: int) -> None:
    x, out = f32(ROWS, COLS), empty(ROWS, COLS)
    rounds = np.array([n], np.int32)
    assert waiting(perhaps_no_round, *map(torch.from_numpy, (x, rounds, out))) == {"acc"}
    got = run(perhaps_no_round, x, rounds, out)[2][:BAND]
    want = x[:BAND] * 2 if n == 0 else (x[BAND : 2 * BAND] + 1) * np.float32(0.5 ** (n - 1))
    np.testing.assert_array_equal(got, want)


@pl.jit
def through_rounds(x: pl.Tensor, n: pl.Tensor, y: pl.Out[pl.Tensor], last: pl.Out[pl.Tensor]):
    k = 0
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.mul(x[0:BAND, :], 0.0)
        found = pl.cast(0, pl.INT32)
    while k < 4:
        with pl.at(level=pl.Level.CORE_GROUP):
            total = pl.add(total, x[k * BAND : k * BAND + BAND, :])
            scratch = pl.mul(total, 2.0)
            y[k * BAND : k * BAND + BAND, :] = scratch
            found = pl.read(n, [k])
        if found < 0:
            break
        k = k + 1
    with pl.at(level=pl.Level.CORE_GROUP):
        scratch = pl.add(total, 1.0)
        last[:, :] = scratch
    return y, last


@pytest.mark.parametrize("stop", [0, 2, 9])
def test_what_a_later_round_or_the_way_out_of_a_loop_reads_waits(stop: int) -> None:
    x, out, band = f32(ROWS, COLS), empty(ROWS, COLS), empty(BAND, COLS)
    n = np.where(np.arange(4) == stop, -1, 1).astype(np.int32)
    assert waiting(through_rounds, *map(torch.from_numpy, (x, n, out, band))) == {"total", "found"}
    _, _, y, last = run(through_rounds, x, n, out, band)
    total = np.zeros((BAND, COLS), np.float32)
    for k in range(min(stop, 3) + 1):
        total = total + x[k * BAND : k * BAND + BAND]
        np.testing.assert_array_equal(y[k * BAND : k * BAND + BAND], total * 2)
    np.testing.assert_array_equal(last, total + 1)
