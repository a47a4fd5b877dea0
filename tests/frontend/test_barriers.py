"""`pl.system.syncall`: blocks read what other blocks wrote before the barrier, and keep their own values across it."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl


@pl.jit
def normalised(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    sums = pl.create_tensor([1, 4], pl.FP32)
    for b in pl.spmd(4, name_hint="rows"):
        row = x[b : b + 1, :]
        mine = pl.exp(row)
        scale = pl.cast(b + 1, pl.FP32)
        sums[:, b : b + 1] = pl.row_sum(mine)
        target = out[b : b + 1, :]
        pl.system.syncall()
        total = pl.row_sum(sums)
        mine = pl.row_expand_div(mine, total)
        pl.system.syncall(core_type="mix", mode="hard")
        out[b : b + 1, :] = pl.mul(mine, scale)
    return out


def test_23_blocks_read_after_the_barrier_what_others_wrote_before_it() -> None:
    x = f32(4, 8)
    want = np.exp(x) / np.exp(x).sum() * np.arange(1, 5)[:, None]
    np.testing.assert_allclose(run(normalised, x, empty(4, 8))[1], want, rtol=1e-5)


@pl.jit.incore
def shifted(x: pl.Tensor, shared: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    b = pl.get_block_idx()
    valid = pl.min(n, 8 - b)
    mine = pl.load(x, [b, 0], [1, 8], valid_shape=[1, valid])
    shared = pl.store(mine, [b, 0], shared)
    last = b == pl.get_block_num() - 1
    pl.system.syncall()
    view = pl.reshape(shared, [4, 8])
    if last:
        other = pl.load(view, [0, 0], [1, 8], valid_shape=[1, 2])
    else:
        other = pl.load(view, [b + 1, 0], [1, 8], valid_shape=[1, 2])
    pl.store(mine, [b, 0], out)
    pl.system.syncall()
    pl.store(other, [b, 0], out)


@pl.jit
def ring(x: pl.Tensor, out: pl.Out[pl.Tensor], blocks: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX]):
    shared = pl.create_tensor([4, 8], pl.FP32, init_value=0.0)
    for _ in pl.range(2):
        with pl.spmd(blocks):
            shifted(x, shared, out, n)
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize(("blocks", "n"), [(4, 6), (1, 3), (0, 3)])
def test_a_kernel_function_may_have_barriers_too(blocks: int, n: int, runtime: bool) -> None:
    x = f32(4, 8)
    want = empty(4, 8)
    for b in range(blocks):
        valid = min(n, 8 - b)
        want[b, :valid] = x[b, :valid]
        want[b, :2] = x[(b + 1) % blocks, :2]
    np.testing.assert_array_equal(run(ring, x, empty(4, 8), blocks, n, runtime=runtime)[1], want)


@pl.jit.incore
def smoothed(shared: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], rounds: pl.Scalar[pl.INDEX]):
    b = pl.get_block_idx()
    blocks = pl.get_block_num()
    mine = pl.load(shared, [b, 0], [1, 8])
    steps = 0
    for i in pl.range(rounds):
        right = pl.load(shared, [(b + 1) % blocks, 0], [1, 8])
        pl.system.syncall()
        mine = pl.mul(pl.add(mine, right), 0.5)
        steps = steps + i
        shared = pl.store(mine, [b, 0], shared)
        pl.system.syncall()
    out = pl.store(pl.add(mine, pl.cast(steps, pl.FP32)), [b, 0], out)
    return out


@pl.jit
def smooth(x: pl.Tensor, out: pl.Out[pl.Tensor], blocks: pl.Scalar[pl.INDEX], rounds: pl.Scalar[pl.INDEX]):
    shared = pl.create_tensor([6, 8], pl.FP32, init_value=0.0)
    for _ in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            shared[:] = x
        with pl.spmd(blocks):
            smoothed(shared, out, rounds)
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize(("blocks", "rounds"), [(6, 3), (5, 1), (1, 2), (4, 0), (0, 3)])
def test_23_a_barrier_stands_in_a_loop_of_any_number_of_rounds(blocks: int, rounds: int, runtime: bool) -> None:
    x = f32(6, 8)
    want = empty(6, 8)
    rows = x[:blocks].copy()
    for _ in range(rounds):
        rows = ((rows + np.roll(rows, -1, 0)) * np.float32(0.5)).astype(np.float32)
    want[:blocks] = rows + np.float32(sum(range(rounds)))
    np.testing.assert_array_equal(run(smooth, x, empty(6, 8), blocks, rounds, runtime=runtime)[1], want)


@pl.jit
def halved(x: pl.Tensor, limits: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Rows are halved until the largest element of all blocks is below a limit, at most four times."""
    peaks = pl.create_tensor([4, 1], pl.FP32)
    for b in pl.spmd(4):
        t = pl.load(x, [b, 0], [1, 8])
        rounds = 0
        going = True
        while going:
            peaks[b : b + 1, :] = pl.row_max(t, t)
            pl.system.syncall()
            if rounds == 4:
                break
            top = pl.read(peaks, [0, 0])
            for k in pl.range(1, 4):
                top = pl.max(top, pl.read(peaks, [k, 0]))
            going = top > pl.read(limits, [0])
            if going:
                pl.system.syncall()
                t = pl.mul(t, 0.5)
                rounds = rounds + 1
        pl.store(pl.add(t, pl.cast(rounds, pl.FP32)), [b, 0], out)
    return out


@pytest.mark.parametrize("limit", [100.0, 5.0, 2.0, 0.0])
def test_23_barriers_stand_in_while_loops_and_branches(limit: float) -> None:
    x = np.arange(1, 33, dtype=np.float32).reshape(4, 8) / 4
    rows, rounds = x.copy(), 0
    while rows.max() > limit and rounds < 4:
        rows, rounds = rows * np.float32(0.5), rounds + 1
    got = run(halved, x, np.float32([limit]), empty(4, 8))[2]
    np.testing.assert_array_equal(got, rows + np.float32(rounds))


@pl.jit
def relayed(x: pl.Tensor, out: pl.InOut[pl.Tensor], n: pl.Scalar[pl.INDEX], step: pl.Scalar[pl.INDEX]):
    """Blocks loop over numbers of their own: as many, but not the same ones."""
    for b in pl.spmd(3):
        for i in pl.range(b + n, b, step):
            for j in pl.range(2):
                row = out[b * 2 + j : b * 2 + j + 1, :]
                if i == b + 2:
                    continue
                pl.system.syncall()
                out[b * 2 + j : b * 2 + j + 1, :] = pl.add(row, pl.cast(i, pl.FP32))
                pl.system.syncall()
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize(("n", "step"), [(4, -1), (5, -2), (0, -1), (-3, 1), (-3, 2)])
def test_23_loops_around_barriers_count_in_every_direction(n: int, step: int, runtime: bool) -> None:
    want = np.zeros((6, 8), np.float32)
    for b in range(3):
        for i in range(b + n, b, step):
            want[2 * b : 2 * b + 2] += 0 if i == b + 2 else i
    got = run(relayed, f32(6, 8), np.zeros((6, 8), np.float32), n, step, runtime=runtime)[1]
    np.testing.assert_array_equal(got, want)


@pl.jit
def moved(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for b in pl.spmd(2):
        at = b
        if n > 1:
            at = at + 2
        row = x[at : at + 1, :]
        view = pl.reshape(x, [2, 16])
        if n > 0:
            at = at + 1
        pl.system.syncall()
        out[b : b + 1, :] = pl.add(pl.reshape(view[b : b + 1, 0:8], [1, 8]), pl.add(row, pl.cast(at, pl.FP32)))
    return out


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_view_that_is_made_again_after_a_barrier_is_the_one_that_was_made(n: int) -> None:
    x = f32(4, 8)
    first = 2 if n > 1 else 0
    want = [x.reshape(2, 16)[b, :8] + (x[b + first] + np.float32(b + first + (n > 0))) for b in range(2)]
    np.testing.assert_array_equal(run(moved, x, empty(2, 8), n, runtime=True)[1], np.stack(want))


def test_a_barrier_outside_a_kernel_is_refused() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.system.syncall()
        return out

    with pytest.raises(TypeError, match="Misplaced"):
        kernel.lower(f32(4, 8), empty(4, 8))
