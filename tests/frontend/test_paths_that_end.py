"""Paths that end, or are never taken: what follows them, and names that have no value there."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelValueError


@pl.jit.incore
def counts_twice(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    if n < 5:
        row = 0
        while row < 3:
            row = row + 1
    if n < 4:
        row = 1
        while row < 5:
            row = row + 3
    else:
        row = 2
    out = pl.store(pl.load(x, [row, 0], [1, 8]), [0, 0], out)
    return out


@pytest.mark.parametrize("n", [0, 4, 5])
def test_a_name_of_a_skipped_branch_gets_a_value_in_later_branches(n: int) -> None:
    x = f32(8, 8)
    got = run(counts_twice, x, empty(1, 8), n, runtime=True)[1]
    np.testing.assert_array_equal(got, x[7:8] if n < 4 else x[2:3])


@pl.jit.incore
def perhaps_neither(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    if n < 5:
        row = 1
    for i in pl.range(n):
        row = i
    out = pl.store(pl.load(x, [row, 0], [1, 8]), [0, 0], out)
    return out


def test_a_loop_without_rounds_leaves_a_name_as_unsure_as_a_branch_before_it_made_it() -> None:
    with pytest.raises(KernelValueError, match=r"'row' has no value here when the block at line \d+ is skipped"):
        run(perhaps_neither, f32(8, 8), empty(1, 8), 0, runtime=True)


SKIP = True


@pl.jit
def goes_on(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 8])
    for i in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.load(x, [i, 0], [1, 8]), [i, 0], out)
        if SKIP:
            continue
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(t, [0, 0], out)
    for i in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            for j in pl.range(n):
                if j > i:
                    break
                else:
                    out = pl.store(pl.load(x, [j, 0], [1, 8]), [j, 0], out)
                    continue
                out = pl.store(t, [0, 0], out)
    return out


def test_nothing_after_break_or_continue_runs() -> None:
    x = f32(8, 8)
    got = run(goes_on, x, np.zeros((8, 8), np.float32), 2, runtime=True)[1]
    np.testing.assert_array_equal(got, np.concatenate([x[:2], np.zeros((6, 8), np.float32)]))


@pl.jit
def excluded(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    row = 1
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
    row = n
    for i in pl.range(0, 3):
        if i == 0:
            if i > 0:
                row = row + 1
                with pl.at(level=pl.Level.CORE_GROUP):
                    out = pl.store(t, [row, 0], out)
                pl.write(out, [row, 0], 1.0)
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.load(x, [4, 0], [4, 8])
                out = pl.store(t, [0, 0], out)
    return out


def test_scopes_between_conditions_that_exclude_each_other_are_part_of_the_program() -> None:
    x = f32(8, 8)
    got = run(excluded, x, empty(4, 8), 2, runtime=True)[1]
    np.testing.assert_array_equal(got, x[4:])
