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


@pl.jit.inline
def written(x, out, n):
    for i in pl.range(2):
        for j in pl.range(1, n):
            if j == 4:
                return out
        row = 0
        while row < n:
            if i > 0:
                return out
            with pl.at(level=pl.Level.CORE_GROUP):
                out = pl.store(pl.load(x, [row, 0], [1, 8]), [row, 0], out)
            row = row + 1
    return out


@pl.jit
def through_loops(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    out = written(x, out, n)
    for k in pl.range(n):
        if k == 3:
            return out
        while k < 2:
            if n == 2:
                return out
            with pl.at(level=pl.Level.CORE_GROUP):
                out = pl.store(pl.load(x, [6, 0], [1, 8]), [k, 0], out)
            k = k + 1
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.store(pl.load(x, [7, 0], [1, 8]), [7, 0], out)
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_a_tensor_that_is_the_same_on_every_path_is_one_whatever_loops_carry_it(n: int) -> None:
    x, want = f32(8, 8), np.zeros((8, 8), np.float32)
    want[: n if n < 5 else 0] = x[: n if n < 5 else 0]
    if n not in (0, 2):
        want[:2] = x[6]
    if n not in (2, 5):
        want[7] = x[7]
    got = run(through_loops, x, np.zeros((8, 8), np.float32), n, runtime=True)[1]
    np.testing.assert_array_equal(got, want)


@pl.jit.inline
def one_of(x, z, n):
    for i in pl.range(4):
        v = x[i : i + 1, :]
        if i == n:
            return v
        if n > 5:
            return z[0:1, :]
    return z[1:2, :]


@pl.jit
def views_of_both(x: pl.Tensor, z: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    found = one_of(x, z, n)
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.store(pl.load(found, [0, 0], [1, 8]), [0, 0], out)
    return out


@pytest.mark.parametrize("n", [2, 5, 6])
def test_a_tensor_that_paths_give_differently_is_the_one_of_the_path_taken(n: int) -> None:
    x, z = f32(8, 8), f32(8, 8) + 1
    want = x[2:3] if n == 2 else z[1:2] if n == 5 else z[:1]
    np.testing.assert_array_equal(run(views_of_both, x, z, empty(1, 8), n, runtime=True)[2], want)


@pl.jit.inline
def first_of_pairs(x, n):
    for i in pl.range(2):
        for j in pl.unroll(2):
            t = pl.load(x, [2 * i + j, 0], [1, 8])
            if 2 * i + j == n:
                return t
    for i in pl.range(4):
        if i < 3:
            continue
        t = pl.load(x, [i + 4, 0], [1, 8])
    return t


@pl.jit.incore
def of_pairs(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    out = pl.store(first_of_pairs(x, n), [0, 0], out)
    return out


@pytest.mark.parametrize("n", [0, 3, 9])
def test_loops_after_one_that_was_read_again_out_of_an_unrolled_one_may_continue(n: int) -> None:
    x = f32(8, 8)
    got = run(of_pairs, x, empty(1, 8), n, runtime=True)[1]
    np.testing.assert_array_equal(got, x[n : n + 1] if n < 4 else x[7:8])
