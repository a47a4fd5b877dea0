"""Loops and branches: where values of a name meet."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl


@pl.jit.incore
def accumulate(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    acc = pl.load(x, [0, 0], [16, 32])
    for i in pl.range(1, 4):
        acc = pl.add(acc, pl.load(x, [i * 16, 0], [16, 32]))
    out = pl.store(acc, [0, 0], out)
    return out


def test_a_loop_carries_a_tile() -> None:
    x = f32(64, 32)
    _, out = run(accumulate, x, empty(16, 32))
    np.testing.assert_allclose(out, x.reshape(4, 16, 32).sum(0), rtol=1e-6)  # FP32 sums of four


@pl.jit.incore
def alias_is_a_value(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [16, 32])
    b = a
    for _ in pl.range(3):
        a = pl.add(a, 1.0)
    pl.store(a, [0, 0], out)
    pl.store(b, [16, 0], out)


def test_an_alias_keeps_its_value_when_the_other_name_is_assigned() -> None:
    x = f32(16, 32)
    _, out = run(alias_is_a_value, x, empty(32, 32))
    np.testing.assert_array_equal(out[16:], x)
    np.testing.assert_array_equal(out[:16], x + np.float32(1) + np.float32(1) + np.float32(1))


@pl.jit.incore
def swap(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [16, 32])
    b = pl.load(x, [16, 0], [16, 32])
    for _ in pl.range(3):
        a, b = b, a
    pl.store(a, [0, 0], out)
    pl.store(b, [16, 0], out)


def test_a_loop_that_swaps_two_tiles_swaps_them() -> None:
    x = f32(32, 32)
    _, out = run(swap, x, empty(32, 32))
    np.testing.assert_array_equal(out, np.concatenate([x[16:], x[:16]]))


@pl.jit.incore
def previous(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    now = pl.load(x, [0, 0], [16, 32])
    before = now
    for i in pl.range(1, 4):
        before = now
        now = pl.add(now, pl.load(x, [i * 16, 0], [16, 32]))
    pl.store(now, [0, 0], out)
    pl.store(before, [16, 0], out)


def test_the_value_of_the_round_before_survives() -> None:
    x = f32(64, 32)
    _, out = run(previous, x, empty(32, 32))
    np.testing.assert_allclose(out[16:], x.reshape(4, 16, 32)[:3].sum(0), rtol=1e-6)


@pl.jit.incore
def branch(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    for i in pl.range(n):
        t = pl.load(x, [i * 16, 0], [16, 32])
        if i % 3 == 0:
            t = pl.mul(t, 2.0)
        elif i % 3 == 1:
            u = t
            t = pl.neg(u)
            t = pl.add(t, u)
        pl.store(t, [i * 16, 0], out)


def test_arms_of_a_branch_meet() -> None:
    x = f32(64, 32)
    out = run(branch, x, 4, empty(64, 32))[-1]
    expected = x.reshape(4, 16, 32) * np.array([2, 0, 1, 2], np.float32).reshape(4, 1, 1)
    np.testing.assert_array_equal(out, expected.reshape(64, 32))


@pl.jit.incore
def one_in_each_arm(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        if i == 0:
            t = pl.load(x, [0, 0], [16, 32])
            k = 5
        else:
            t = pl.full([16, 32], pl.FP32, 3.0)
            k = i * 16
        pl.store(pl.add(t, pl.cast(k, pl.FP32)), [i * 16, 0], out)


def test_a_name_that_both_arms_introduce_has_the_value_of_the_arm_that_ran() -> None:
    x = f32(16, 32)
    _, out = run(one_in_each_arm, x, empty(32, 32))
    np.testing.assert_array_equal(out[:16], x + np.float32(5))
    np.testing.assert_array_equal(out[16:], 19)


@pl.jit.incore
def early_exit(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 32])
    count = 0
    for i in pl.range(10):
        if i == 7:
            continue
        t = pl.add(t, 1.0)
        count = count + 1
        if count >= 8:
            t = pl.mul(t, 2.0)
            break
    pl.store(t, [0, 0], out)
    pl.write(out, [16, 0], pl.cast(count, pl.FP32))


def test_break_and_continue_leave_names_as_they_are_there() -> None:
    x = np.zeros((16, 32), np.float32)
    _, out = run(early_exit, x, empty(17, 32))
    np.testing.assert_array_equal(out[:16], 16)
    assert out[16, 0] == 8


@pl.jit.incore
def natural_while(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = 1
    rounds = 0
    while n < 100:
        n = n * 3
        rounds = rounds + 1
    pl.store(pl.mul(pl.load(x, [0, 0], [16, 32]), pl.cast(n, pl.FP32)), [0, 0], out)
    pl.write(out, [16, 0], pl.cast(rounds, pl.FP32))


def test_a_natural_while_runs_until_its_condition_fails() -> None:
    x = np.ones((16, 32), np.float32)
    _, out = run(natural_while, x, empty(17, 32))
    assert (out[:16] == 243).all()
    assert out[16, 0] == 5


@pl.jit.incore
def carried(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a0 = pl.load(x, [0, 0], [16, 32])
    s0 = 0
    for i, (a, s) in pl.range(1, 4, init_values=(a0, s0)):
        b = pl.add(a, pl.load(x, [i * 16, 0], [16, 32]))
        a_last, s_last = pl.yield_(b, s + i)
    pl.store(a_last, [0, 0], out)
    pl.store(pl.add(a0, pl.cast(s_last, pl.FP32)), [16, 0], out)


def test_yielded_values_are_carried_and_initial_names_keep_theirs() -> None:
    x = f32(64, 32)
    _, out = run(carried, x, empty(32, 32))
    np.testing.assert_allclose(out[:16], x.reshape(4, 16, 32).sum(0), rtol=1e-6)
    np.testing.assert_array_equal(out[16:], x[:16] + np.float32(6))


@pl.jit.incore
def yielding_arms(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        if i == 0:
            t, k = pl.yield_(pl.load(x, [0, 0], [16, 32]), 1)
        else:
            t, k = pl.yield_(pl.load(x, [16, 0], [16, 32]), 2)
        pl.store(pl.mul(t, pl.cast(k, pl.FP32)), [i * 16, 0], out)


def test_arms_that_yield_merge_the_assigned_names() -> None:
    x = f32(32, 32)
    _, out = run(yielding_arms, x, empty(32, 32))
    np.testing.assert_array_equal(out, np.concatenate([x[:16], 2 * x[16:]]))


@pl.jit.incore
def partial_tiles(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 32])
    for i in pl.range(n):
        rows = 4 + i
        t = pl.load(x, [i, 0], [16, 32], valid_shape=[rows, 32])
    t = pl.add(t, 1.0)
    pl.store(t, [0, 0], out)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_loop_carries_how_much_of_a_tile_is_valid(n: int) -> None:
    x = f32(32, 32)
    out = run(partial_tiles, x, n, empty(16, 32))[-1]
    rows = 16 if n == 0 else 3 + n
    start = max(0, n - 1)
    np.testing.assert_array_equal(out[:rows], x[start : start + rows] + 1)
    assert np.isnan(out[rows:]).all()


@pl.jit.incore
def partial_arms(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        rows = 3
        t = pl.load(x, [0, 0], [16, 32])
        if i == 1:
            t = pl.load(x, [16, 0], [16, 32], valid_shape=[rows + i, 32])
        pl.store(t, [i * 16, 0], out)


def test_arms_may_differ_in_what_is_valid() -> None:
    x = f32(32, 32)
    _, out = run(partial_arms, x, empty(32, 32))
    np.testing.assert_array_equal(out[:20], x[:20])
    assert np.isnan(out[20:]).all()


@pl.jit.incore
def unrolled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.unroll(1, 3):
        t = pl.load(x, [0, 0], [16 * i, 32])
        pl.store(t, [0, 0], out)


def test_an_unrolled_index_is_a_constant() -> None:
    x = f32(32, 32)
    _, out = run(unrolled, x, empty(32, 32))
    np.testing.assert_array_equal(out, x)


@pl.jit
def scopes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        n = pl.cast(pl.read(x, [0, 0]), pl.INDEX)
        u = t
    for i in pl.range(3):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.add(t, pl.cast(n + i, pl.FP32))
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(t, [0, 0], out)
        pl.store(u, [16, 0], out)
    return out


def test_values_cross_scopes() -> None:
    x = np.full((16, 32), 2.0, np.float32)
    _, out = run(scopes, x, empty(32, 32))
    np.testing.assert_array_equal(out[:16], 2 + 2 + 3 + 4)
    np.testing.assert_array_equal(out[16:], 2)


@pl.jit.incore
def tensors_become_values(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    y = x
    for i in pl.range(n):
        x = pl.add(x, 1.0)
        if i == 0:
            y = pl.mul(y, 2.0)
        out[16:32, :] = y
    out[0:16, :] = x


def test_device_memory_that_a_loop_or_branch_replaces_by_a_value_is_loaded() -> None:
    x = f32(16, 8)
    out = run(tensors_become_values, x, 2, empty(32, 8))[-1]
    np.testing.assert_array_equal(out[:16], (x + np.float32(1)) + np.float32(1))
    np.testing.assert_array_equal(out[16:], x * 2)


@pl.jit.incore
def reads_in_the_condition(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    i = 0
    while pl.read(x, [0, i]) < 4.0 and i < 6:
        i = i + 1
        if i == 2:
            continue
        pl.write(out, [0, i], pl.cast(i, pl.FP32))


def test_15_a_condition_is_computed_before_each_round_and_reads_past_the_end_do_not_fail() -> None:
    x = np.array([[0, 1, 2, 3, 1, 0]], np.float32)
    _, out = run(reads_in_the_condition, x, empty(1, 8), clean=False)
    np.testing.assert_array_equal(out, np.array([[np.nan, 1, np.nan, 3, 4, 5, 6, np.nan]], np.float32))


@pl.jit
def views_change_places(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    current = x[0:4, :]
    following = x[4:8, :]
    for i in pl.range(3):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i * 4 : i * 4 + 4, :] = current
        current, following = following, current
    return out


def test_a_loop_may_carry_views_of_device_memory() -> None:
    x = f32(8, 8)
    _, out = run(views_change_places, x, empty(12, 8))
    np.testing.assert_array_equal(out, np.concatenate([x[:4], x[4:], x[:4]]))


@pl.jit.inline
def count_down(n):
    rounds = 0
    while n > 0:
        n = n - 2
        rounds = rounds + 1
    return rounds


@pl.jit.incore
def scalars_are_values(out: pl.Out[pl.Tensor]):
    n = 5
    for _ in pl.range(2):
        before = n
        pair = (n, before)
        rounds = count_down(n)
        for _j in pl.range(3):
            n = n + 1
        if n > 9:
            n = n * 10
        pl.write(out, [0, n % 8], pl.cast(pair[0] + pair[1] + rounds, pl.FP32))
    pl.write(out, [1, 0], pl.cast(n, pl.FP32))


def test_scalars_are_values_in_tuples_in_other_names_and_in_spliced_functions() -> None:
    (out,) = run(scalars_are_values, empty(2, 8))
    expected = np.full((2, 8), np.nan, np.float32)
    expected[0, 0] = 5 + 5 + 3  # n was 5 and became 8
    expected[0, 110 % 8] = 8 + 8 + 4  # n was 8 and became 110
    expected[1, 0] = 110
    np.testing.assert_array_equal(out, expected)


@pl.jit.incore
def validity_follows_the_value(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    a = pl.load(x, [0, 0], [8, 8])
    b = pl.load(x, [8, 0], [8, 8], valid_shape=[3, 8])
    derived = a
    for i in pl.range(n):
        derived = pl.add(a, 0.0)
        last = pl.neg(a)
        a, b = b, a
        if i == 2:
            b = pl.load(x, [16, 0], [8, 8], valid_shape=[i, 8])
    pl.store(a, [0, 0], out)
    pl.store(b, [8, 0], out)
    pl.store(derived, [16, 0], out)
    pl.store(last, [24, 0], out)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_validity_follows_the_value_through_swaps_and_into_what_is_derived_from_it(n: int) -> None:
    x = f32(24, 8)
    out = run(validity_follows_the_value, x, n, empty(32, 8))[-1]
    a, b = x[:8], x[8:11]
    for i in range(n):
        derived, last = a, -a
        a, b = b, a
        if i == 2:
            b = x[16:18]
    expected = empty(32, 8)
    for start, value in ((0, a), (8, b), (16, derived), (24, last)):
        expected[start : start + len(value)] = value
    np.testing.assert_array_equal(out, expected)


@pl.jit.incore
def carried_while(x: pl.Tensor, out: pl.Out[pl.Tensor], limit: pl.Scalar[pl.INDEX]):
    total = pl.load(x, [0, 0], [1, 8])
    i = 0
    for i, total in pl.while_(init_values=(i, total)):
        pl.cond(i < limit)
        i = i + 1
        t = pl.load(x, [i, 0], [1, 8])
        rounds, final = pl.yield_(i, pl.add(total, t))
    out = pl.store(final, [0, 0], out)
    out = pl.store(total, [1, 0], out)
    pl.write(out, [2, 0], pl.cast(rounds, pl.FP32))
    return out


@pytest.mark.parametrize("limit", [0, 3])
def test_14_a_while_loop_carries_values_and_leaves_the_initial_ones(limit: int) -> None:
    x = f32(4, 8)
    out = run(carried_while, x, empty(4, 8), limit, runtime=True)[1]
    np.testing.assert_allclose(out[0], x[: limit + 1].sum(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(out[1], x[0])
    assert out[2, 0] == limit


LAYER = 7


@pl.jit.inline
def next_and_same(x: pl.Tensor, n: pl.Scalar[pl.INDEX]):
    return n + 1, x


@pl.jit(auto_scope=False)
def of_everything(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INT32] = 3):
    """Statements and hints as model kernels mix them."""
    rows, cols = x.shape
    pl.static_assert(cols == 8, "eight columns")
    limit, y = next_and_same(x, n)
    count = 0
    while True:
        count = count + 1
        if count >= limit:
            break
    for i in pl.parallel(0, pl.dim(x, 0), 2):
        with pl.at(
            level=pl.Level.CORE_GROUP,
            optimizations=[pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=2)],
            name_hint=f"layer_{LAYER}-scale",
        ):
            if x.dtype == pl.FP32:
                t = pl.mul(y[i : i + 2, :], pl.cast(count, pl.FP32))
            out[i : i + 2, 0:cols] = pl.add(t, 1.0)
    first = pl.read(out, [0, 0])
    if first > 0.0 and count > 2:
        with pl.cluster(), pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = pl.neg(out[0:1, :])
    pl.tensor.write(out, [rows - 1, 6], pl.cast(n, pl.FP32))
    return out


@pytest.mark.parametrize("runtime", [False, True])
def test_statements_and_hints_as_model_kernels_mix_them(runtime: bool) -> None:
    x = np.abs(f32(4, 8))
    want = x * 4 + 1
    want[0] *= -1
    want[3, 6] = 3
    np.testing.assert_allclose(run(of_everything, x, empty(4, 8), 3, runtime=runtime)[1], want, rtol=1e-6)
    assert "layer_7_scale" in of_everything.lower(x, empty(4, 8), 3).as_python()
