"""Names that change from round to round, across barriers: double buffers, rings of buffers, views of either."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir

ROUNDS = (0, 1, 2, 3, 5)


@pl.jit
def swapped(x: pl.InOut[pl.Tensor], y: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for i in pl.spmd(4):
        source = x
        target = y
        for _ in pl.range(n):
            t = pl.add(source[i : i + 1, :], source[(i + 1) % 4 : (i + 1) % 4 + 1, :])
            pl.system.syncall()
            target[i : i + 1, :] = pl.mul(t, 0.5)
            pl.system.syncall()
            source, target = target, source
        out[i : i + 1, :] = source[i : i + 1, :]
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_buffers_are_swapped_between_barriers(rounds: int, runtime: bool) -> None:
    x = f32(4, 8)
    want = x.copy()
    for _ in range(rounds):
        want = (want + np.roll(want, -1, 0)) * np.float32(0.5)
    np.testing.assert_array_equal(run(swapped, x, empty(4, 8), empty(4, 8), rounds, runtime=runtime)[2], want)


@pl.jit
def turned(a: pl.InOut[pl.Tensor], b: pl.InOut[pl.Tensor], c: pl.InOut[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for i in pl.spmd(4):
        first = a
        second = b
        third = c
        k = 0
        while k < n:
            t = pl.load(first, [(i + 1) % 4, 0], [1, 8])
            pl.system.syncall()
            second[i : i + 1, :] = pl.add(t, 1.0)
            first, second, third = second, third, first
            k = k + 1
            pl.system.syncall()
    return a, b, c


@pytest.mark.parametrize("rounds", ROUNDS)
def test_three_buffers_turn_in_a_while_loop_with_barriers(rounds: int) -> None:
    want = [f32(4, 8, seed=seed) for seed in range(3)]
    got = run(turned, *(buffer.copy() for buffer in want), rounds, runtime=True)
    first, second, third = want
    for _ in range(rounds):
        second[:] = np.roll(first, -1, 0) + np.float32(1)
        first, second, third = second, third, first
    for have, expected in zip(got, want, strict=False):
        np.testing.assert_array_equal(have, expected)


@pl.jit
def wandering(
    x: pl.InOut[pl.Tensor[[8, 8], pl.FP32]],
    y: pl.InOut[pl.Tensor[[8, 8], pl.FP32]],
    out: pl.Out[pl.Tensor[[2, 8], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
):
    """Fibonacci's numbers: where the last two stand differs from block to block and from round to round."""
    for i in pl.spmd(2):
        one = pl.full([1, 8], dtype=pl.FP32, value=1.0)
        last = pl.store(one, [0, 0], x[i : i + 1, :])
        before = pl.store(one, [0, 0], y[i : i + 1, :])
        for k in pl.range(n):
            pl.system.syncall()
            total = pl.add(pl.load(before, [0, 0], [1, 8]), pl.load(last, [0, 0], [1, 8]))
            at = i + 2 * k + 2
            before = last
            if k % 2 == 0:
                last = pl.store(total, [0, 0], x[at : at + 1, :])
            else:
                last = pl.store(total, [0, 0], y[at : at + 1, :])
            pl.system.syncall()
        out[i : i + 1, :] = pl.load(last, [0, 0], [1, 8])
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize(("rounds", "want"), [(0, 1), (1, 2), (2, 3), (3, 5)])
def test_a_view_keeps_the_offsets_of_the_round_that_made_it(rounds: int, want: int, runtime: bool) -> None:
    got = run(wandering, empty(8, 8), empty(8, 8), empty(2, 8), rounds, runtime=runtime)[2]
    np.testing.assert_array_equal(got, np.full((2, 8), want, np.float32))


@pl.jit
def reshaped(x: pl.InOut[pl.Tensor], y: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for i in pl.spmd(4):
        source = x
        target = y
        for k in pl.range(n):
            flat = pl.reshape(source, [2, 16])
            old = source
            pl.system.syncall()
            source, target = target, source
            pl.system.syncall()
            t = pl.load(flat, [i // 2, 8 * (i % 2)], [1, 8])
            source = pl.store(pl.add(pl.add(t, t), pl.load(old, [i, 0], [1, 8])), [i, 0], source)
            if k == 2:
                break
        out[i : i + 1, :] = source[i : i + 1, :]
    return out


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_view_of_a_buffer_means_what_the_name_meant_when_it_was_made(rounds: int) -> None:
    x = f32(4, 8)
    want = x.copy()
    for _ in range(min(rounds, 3)):
        want = want + want + want
    got = run(reshaped, x, empty(4, 8), empty(4, 8), rounds, runtime=True)[2]
    np.testing.assert_array_equal(got, want)


@pl.jit
def held(x: pl.Tensor, shared: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for i in pl.spmd(4):
        a = pl.load(x, [i, 0], [1, 8])
        b = pl.mul(a, 10.0)
        for _ in pl.range(n):
            shared = pl.store(a, [i, 0], shared)
            pl.system.syncall()
            a = pl.add(a, pl.load(shared, [(i + 1) % 4, 0], [1, 8]))
            a, b = b, a
            pl.system.syncall()
        out[i : i + 1, :] = pl.sub(a, b)
    return out


@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_tiles_are_swapped_between_barriers(rounds: int) -> None:
    x = f32(4, 8)
    a, b = x.copy(), x * np.float32(10)
    for _ in range(rounds):
        a = a + np.roll(a, -1, 0)
        a, b = b, a
    np.testing.assert_array_equal(run(held, x, empty(4, 8), empty(4, 8), rounds, runtime=True)[2], a - b)


@pl.jit
def stored(x: pl.InOut[pl.Tensor[[4, 8], pl.FP32]], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        two = pl.full([1, 8], dtype=pl.FP32, value=2.0)
        row = pl.store(two, [0, 0], x[2:3, :])
        other = pl.assemble(x[1:2, :], pl.mul(two, 2.0), [0, 0])
        out[:] = pl.add(pl.load(row, [0, 0], [1, 8]), pl.load(other, [0, 0], [1, 8]))
    return out


def test_a_store_into_a_slice_gives_back_that_slice() -> None:
    x, out = run(stored, f32(4, 8), empty(1, 8))
    np.testing.assert_array_equal(out, np.full((1, 8), 6, np.float32))
    np.testing.assert_array_equal(x[1:3, 0], np.float32([4, 2]))


@pl.jit
def trailing(
    x: pl.InOut[pl.Tensor[[8, 8], pl.FP32]],
    y: pl.InOut[pl.Tensor[[8, 8], pl.FP32]],
    out: pl.Out[pl.Tensor[[2, 8], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
):
    """Two buffers change places, and the row written last, a box of either, is read in the next round."""
    for i in pl.spmd(2):
        source = x
        target = y
        last = pl.store(pl.full([1, 8], dtype=pl.FP32, value=1.0), [0, 0], x[i : i + 1, :])
        older = last
        for k in pl.range(n):
            pl.system.syncall()
            row = pl.add(pl.load(last, [0, 0], [1, 8]), pl.load(older, [0, 0], [1, 8]))
            at = (2 * k + i + 2) % 8
            older = last
            last = pl.store(row, [0, 0], target[at : at + 1, :])
            source, target = target, source
            pl.system.syncall()
        out[i : i + 1, :] = pl.load(last, [0, 0], [1, 8])
    return x, y, out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 6])
def test_a_box_of_buffers_that_change_places_crosses_barriers(rounds: int, runtime: bool) -> None:
    x, y = f32(8, 8, seed=1), f32(8, 8, seed=2)
    got = run(trailing, x.copy(), y.copy(), empty(2, 8), rounds, runtime=runtime)
    x[:2] = 1
    source, target = x, y
    last = older = 1
    for k in range(rounds):
        last, older = last + older, last
        target[[(2 * k + 2) % 8, (2 * k + 3) % 8]] = last
        source, target = target, source
    np.testing.assert_array_equal(got[0], x)
    np.testing.assert_array_equal(got[1], y)
    np.testing.assert_array_equal(got[2], np.full((2, 8), last, np.float32))


@pl.jit
def folded(a: pl.InOut[pl.Tensor[[4, 4], pl.FP32]], b: pl.InOut[pl.Tensor[[2, 8], pl.FP32]], n: pl.Scalar[pl.INDEX]):
    """Names of two shapes exchange their memory; a third is another shape of itself."""
    for i in pl.spmd(2):
        square = a
        wide = b
        same = a
        for _ in pl.range(n):
            pl.system.syncall()
            square, wide = pl.reshape(wide, [4, 4]), pl.reshape(square, [2, 8])
            same = pl.reshape(pl.reshape(same, [16]), [4, 4])
            pl.system.syncall()
            pl.store(pl.full([1, 4], dtype=pl.FP32, value=1.0), [i, 0], square)
            pl.store(pl.full([1, 4], dtype=pl.FP32, value=2.0), [1, 4 * i], wide)
            pl.system.syncall()
            pl.store(pl.full([1, 2], dtype=pl.FP32, value=3.0), [3, 2 * i], same)
    return a, b


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_names_of_two_shapes_exchange_their_memory_across_barriers(rounds: int) -> None:
    a, b = f32(4, 4), f32(2, 8)
    got = run(folded, a.copy(), b.copy(), rounds, runtime=True)
    square, wide, same = a, b, a
    for _ in range(rounds):
        square, wide = wide.reshape(4, 4), square.reshape(2, 8)
        square[:2], wide[1], same[3] = 1, 2, 3
    np.testing.assert_array_equal(got[0], a)
    np.testing.assert_array_equal(got[1], b)


def test_a_box_of_itself_does_not_cross_a_barrier() -> None:
    @pl.jit
    def kernel(a: pl.InOut[pl.Tensor[[4, 4], pl.FP32]], n: pl.Scalar[pl.INDEX]):
        for i in pl.spmd(4):
            one = pl.full([1, 4], dtype=pl.FP32, value=1.0)
            t = a
            for k in pl.range(n):
                pl.system.syncall()
                t = pl.store(one, [i, 0], t[k : k + 4, :])
        return a

    with pytest.raises(ir.KernelError) as caught:
        ir.compile(kernel.lower(f32(4, 4), pl.RUNTIME))
    (diagnostic,) = caught.value.diagnostics
    assert (
        "'t' is a box of itself, made again in each round of a loop, in a kernel with a barrier" in diagnostic.message
    )
    assert "keep the whole tensor under the name, and its offset as a number" in diagnostic.hint
