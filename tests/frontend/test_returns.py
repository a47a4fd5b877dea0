"""`return` on some paths: in branches, loops and scopes, of functions that are launched and of spliced ones."""

from typing import Any

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


@pl.jit.inline
def chosen(x, n):
    if n == 0:
        return pl.add(x, 1.0)
    if n == 1:
        return pl.mul(x, 2.0)
    return pl.neg(x)


@pl.jit.incore
def branches(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    r = chosen(pl.load(x, [0, 0], [8, 8]), n)
    out = pl.store(r, [0, 0], out)
    if n > 5:
        return out
    out = pl.store(pl.add(r, 10.0), [0, 0], out)
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_what_follows_a_branch_that_returns_is_its_other_arm(n: int, runtime: bool) -> None:
    x = f32(8, 8)
    r = x + 1 if n == 0 else x * 2 if n == 1 else -x
    got = run(branches, x, empty(8, 8), n, runtime=runtime)[1]
    np.testing.assert_array_equal(got, r if n > 5 else r + 10)


@pl.jit.inline
def first_above(x, limit, n):
    for i in pl.range(n):
        t = pl.load(x, [i, 0], [1, 8])
        if pl.read(x, [i, 0]) > limit:
            return t, i
    return pl.load(x, [0, 0], [1, 8]), -1


@pl.jit.inline
def last_above(x, n):
    while True:
        n = n - 1
        if pl.read(x, [n, 0]) > 0.0:
            return n


@pl.jit.inline
def place(x, rows, cols):
    for r in pl.range(rows):
        for c in pl.range(cols):
            if pl.read(x, [r, c]) == 5.0:
                return r, c
        if r == 6:
            return 100, r
    return -1, -1


@pl.jit.inline
def rounds(x, n):
    for i in pl.unroll(4):
        if n == i:
            return pl.mul(x, 2.0)
        x = pl.add(x, 1.0)
    return x


@pl.jit.incore
def loops(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    t, i = first_above(x, 0.5, n)
    r, c = place(x, n, n)
    out = pl.store(t, [1, 0], out)
    out = pl.store(rounds(pl.load(x, [0, 0], [1, 8]), n), [2, 0], out)
    pl.write(out, [0, 0], pl.cast(i, pl.FP32))
    pl.write(out, [0, 1], pl.cast(last_above(x, 8), pl.FP32))
    pl.write(out, [0, 2], pl.cast(r, pl.FP32))
    pl.write(out, [0, 3], pl.cast(c, pl.FP32))
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize("five", [True, False], ids=["with a 5", "without"])
@pytest.mark.parametrize("n", [0, 2, 3, 4, 8])
def test_a_return_leaves_every_loop_around_it(n: int, five: bool, runtime: bool) -> None:
    x = -np.abs(f32(8, 8)) - 1
    x[3, 0] = x[5, 0] = 3
    if five:
        x[2, 3] = 5
    got = run(loops, x, empty(8, 8), n, runtime=runtime)[1]
    found = 3 if n > 3 else -1
    where = (2, 3) if five and n > 3 else (100, 6) if n > 6 else (-1, -1)
    assert got[0, :4].tolist() == [found, 5, *where]
    np.testing.assert_array_equal(got[1], x[max(found, 0)])
    np.testing.assert_allclose(got[2], (x[0] + min(n, 4)) * (2 if n < 4 else 1), rtol=1e-6)


@pl.jit
def orchestrated(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if pl.read(x, [0, 1]) > 50.0:  # noqa: SIM102 - `and` would make one branch of two
            if n == 4:
                return out
        out[:] = pl.add(x, 0.0)
    if n == 0:
        return out
    for i in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(out, 1.0)
        if i == 2:
            return out
        while pl.read(out, [0, 0]) < 0.0:
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.add(out, 100.0)
            if n == 5:
                return out
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(out, 2.0)
    return out


def orchestrated_by_hand(x: np.ndarray, n: int) -> np.ndarray:
    if n == 0 or (n == 4 and x[0, 1] > 50):
        return x
    out = x
    for i in range(n):
        out = out + np.float32(1)
        if i == 2:
            return out
        while out[0, 0] < 0:
            out = out + np.float32(100)
            if n == 5:
                return out
    return out * 2


@pytest.mark.parametrize("first", [1, -5])
@pytest.mark.parametrize("second", [1, 60])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5])
def test_orchestration_code_returns_on_what_it_reads(n: int, second: float, first: float) -> None:
    x = f32(8, 8)
    x[0, :2] = first, second
    got = run(orchestrated, x, empty(8, 8), n, runtime=True)[1]
    np.testing.assert_allclose(got, orchestrated_by_hand(x, n), rtol=1e-6)


@pl.jit.inline
def part(x, a, b):
    if a > 0:
        if b > 0:
            return x[0:4, :], a
        a = a + 1
    for i in pl.range(b):
        if i == 2:
            return x[i : i + 4, :], a + 5
    return x[4:8, :], a + 2


@pl.jit
def views(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX]):
    v, a = part(x, n, m)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:4, :] = pl.add(v, pl.cast(a, pl.FP32))
    return out


@pytest.mark.parametrize(
    ("n", "m", "row", "number"), [(0, 0, 4, 2), (0, 2, 4, 2), (0, 5, 2, 5), (2, 0, 4, 5), (2, 2, 0, 2), (2, 5, 0, 2)]
)
def test_each_path_may_return_another_view_and_another_number(n: int, m: int, row: int, number: int) -> None:
    x = f32(8, 8)
    got = run(views, x, empty(8, 8), n, m, runtime=True)[1]
    np.testing.assert_allclose(got[:4], x[row : row + 4] + np.float32(number), rtol=1e-6)


@pl.jit
def without_a_value(x: pl.Tensor, out: pl.InOut[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    if n == 0:
        return
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    for i in pl.range(n):
        if i == 3:
            return
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(out, 1.0)


@pytest.mark.parametrize("n", [0, 1, 8])
def test_a_function_may_end_early_without_a_value(n: int) -> None:
    x, before = f32(8, 8), f32(8, 8)
    got = run(without_a_value, x, before, n, runtime=True)[1]
    np.testing.assert_allclose(got, x + min(n, 3) if n else before, rtol=1e-6)


@pl.jit.inline
def pair(x, n):
    return x, n


@pl.jit.inline
def passes_on(x, n):
    if n == 0:
        return pair(x, n)
    elif n == 1:
        pass
    else:
        return x, n + 10
    return pair(pl.neg(x), 7)


@pl.jit.incore
def passed(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    t, a = passes_on(pl.load(x, [0, 0], [8, 8]), n)
    out = pl.store(pl.add(t, pl.cast(a, pl.FP32)), [0, 0], out)
    return out


@pytest.mark.parametrize(("n", "sign", "number"), [(0, 1, 0), (1, -1, 7), (2, 1, 12)])
def test_what_a_call_gives_is_returned_like_values_that_are_written_out(n: int, sign: int, number: int) -> None:
    x = f32(8, 8)
    got = run(passed, x, empty(8, 8), n, runtime=True)[1]
    np.testing.assert_allclose(got, sign * x + np.float32(number), rtol=1e-6)


@pl.jit.incore
def carries(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for i, (a, k) in pl.range(n, init_values=(pl.load(x, [0, 0], [1, 8]), 0)):
        if i == 3:
            out = pl.store(a, [0, 0], out)
            return out
        b = pl.add(a, pl.load(x, [i, 0], [1, 8]))
        last, count = pl.yield_(b, k + i)
    out = pl.store(pl.mul(last, pl.cast(count, pl.FP32)), [0, 0], out)
    return out


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_a_return_leaves_a_loop_that_carries_values(n: int) -> None:
    x = f32(8, 8)
    want = x[0] + x[: min(n, 3)].sum(0)
    want = want if n > 3 else want * np.float32(sum(range(n)))
    np.testing.assert_allclose(run(carries, x, empty(8, 8), n, runtime=True)[1][0], want, rtol=1e-5)


@pl.jit.incore
def meets(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    i = pl.get_block_idx()
    t = pl.load(x, [i, 0], [1, 8])
    out = pl.store(t, [i, 0], out)
    if n == 0:
        return out
    for k in pl.range(n):
        pl.system.syncall()
        t = pl.add(t, pl.load(x, [(i + 1) % 4, 0], [1, 8]))
        pl.system.syncall()
        x = pl.store(t, [i, 0], x)
        if k == 2:
            return out
        out = pl.store(t, [i, 0], out)
    pl.system.syncall()
    out = pl.store(pl.neg(t), [i, 0], out)
    return out


@pl.jit
def meeting(x: pl.InOut[pl.Tensor[[4, 8], pl.FP32]], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]], n: pl.Scalar[pl.INDEX]):
    with pl.spmd(4):
        meets(x, out, n)
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_all_blocks_return_between_barriers(n: int) -> None:
    x = f32(4, 8)
    sums = [x]
    for _ in range(n):
        sums.append(sums[-1] + np.roll(sums[-1], -1, 0))
    want = x if n == 0 else -sums[n] if n < 3 else sums[2]
    np.testing.assert_allclose(run(meeting, x, empty(4, 8), n, runtime=True)[1], want, rtol=1e-5)


@pl.jit.incore
def value_of(x: pl.Tensor, n: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [0, 0], [8, 8])
    if n == 1:
        return pl.neg(t)
    return t


@pl.jit
def used(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    if n == 2:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(x, 3.0)
            return out
    t = value_of(x, n)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = t
    return out


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_kernel_returns_another_value_on_each_path(n: int) -> None:
    x = f32(8, 8)
    np.testing.assert_array_equal(run(used, x, empty(8, 8), n, runtime=True)[1], x * np.float32([1, -1, 3][n]))


CONSTANT = True


@pl.jit.inline
def decided(x, n):
    if CONSTANT:
        return x
    return x, n


def test_a_constant_decides_what_a_function_returns() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = pl.store(decided(pl.load(x, [0, 0], [8, 8]), 3), [0, 0], out)
        return out

    x = f32(8, 8)
    np.testing.assert_array_equal(run(kernel, x, empty(8, 8))[1], x)


SCOPE = "    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = x\n        other[:] = x\n"
REFUSED = {
    SCOPE + "    for i in pl.parallel(n):\n        if i == 3:\n            return out\n    return out\n": (
        "`return` inside pl.parallel, whose rounds may run at once",
        "loop with pl.range",
        10,
    ),
    "    for i in pl.spmd(n):\n        out[:] = x\n        if i == 3:\n            return out\n    return out\n": (
        "`return` inside pl.spmd, whose blocks may run at once",
        "compute what decides, and return after the blocks",
        8,
    ),
    SCOPE + "        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):\n            return out\n    return out\n": (
        "`return` inside pl.split_aiv, whose lanes may run at once",
        "return after the region",
        9,
    ),
    SCOPE + "    if n == 3:\n        return out\n": (
        "this path returns nothing, the one that ends in line 9 one value",
        "return as many values on every path",
        8,
    ),
    SCOPE + "    if n == 3:\n        return out, other\n    return out\n": (
        "this path returns one value, the one that ends in line 9 a tuple of 2",
        "return as many values on every path",
        10,
    ),
    SCOPE + "    if n == 3:\n        return other\n    return out\n": (
        "'kernel' returns another tensor on each path",
        "return the same parameter on every path",
        10,
    ),
    SCOPE + "    if n == 3:\n        return n\n    return out\n": (
        "what this function returns is an INDEX scalar on one path and pl.Tensor[[8, 8], pl.FP32] on the other",
        "return the same kind of value on every path",
        10,
    ),
}


def kernel_of(body: str, path: Any) -> Any:
    tensor = "pl.Tensor[[8, 8], pl.FP32]"
    path.write_text(
        f"import pypto.language as pl\n\n@pl.jit\ndef kernel(x: {tensor}, out: pl.Out[{tensor}], "
        f"other: pl.Out[{tensor}], n: pl.Scalar[pl.INDEX]):\n{body}"
    )
    names: dict[str, Any] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["kernel"]


@pytest.mark.parametrize("body", REFUSED)
def test_a_return_that_cannot_be_is_refused(body: str, tmp_path) -> None:
    message, hint, line = REFUSED[body]
    with pytest.raises(ir.KernelError) as caught:
        kernel_of(body, tmp_path / "kernel.py").lower(n=pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == message
    assert hint in diagnostic.hint
    assert diagnostic.loc.line == line


def test_thousands_of_returns_on_some_paths_are_one_mistake(tmp_path) -> None:
    body = SCOPE + "".join(f"    if n == {i}:\n        return out\n" for i in range(4000)) + "    return out\n"
    with pytest.raises(ir.KernelError) as caught:
        kernel_of(body, tmp_path / "kernel.py").lower(n=pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert "branches, loops and returns on some paths are inside each other here" in diagnostic.message
    assert "return once, at the end" in diagnostic.hint
