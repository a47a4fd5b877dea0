"""After a loop or a branch with `pl.yield_`, what it yields is visible, and nothing else that it introduced."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


def hidden(kernel: object, *args: object) -> str:
    """The advice for the only mistake: a name that a loop or a branch keeps inside."""
    with pytest.raises(ir.KernelValueError) as caught:
        kernel.lower(*args)  # type: ignore[attr-defined]  # a jit function
    (diagnostic,) = caught.value.diagnostics
    assert "'inner' has no value here" in diagnostic.message
    return diagnostic.hint


def test_a_name_inside_a_loop_that_yields_stays_inside() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for _, (acc,) in pl.range(3, init_values=(x,)):
                inner = pl.add(acc, 1.0)
                last = pl.yield_(inner)
            out[:] = pl.add(inner, last)
        return out

    assert "only what is yielded is visible afterwards" in hidden(kernel, f32(4, 8), empty(4, 8))


def test_a_name_inside_a_while_loop_that_yields_stays_inside() -> None:
    @pl.jit
    def kernel(out: pl.Out[pl.Tensor[[1], pl.INT32]]):
        for (i,) in pl.while_(init_values=(0,)):
            pl.cond(i < 3)
            inner = i + 1
            last = pl.yield_(inner)
        pl.write(out, [0], pl.cast(inner + last, pl.INT32))
        return out

    assert "only what is yielded is visible afterwards" in hidden(kernel, empty(1, dtype=np.int32))


def test_a_name_inside_arms_that_yield_stays_inside() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if n > 1:
                inner = pl.add(x, 1.0)
                chosen = pl.yield_(inner)
            else:
                inner = pl.add(x, 2.0)
                chosen = pl.yield_(inner)
            out[:] = pl.add(chosen, inner)
        return out

    assert "only what is yielded is visible afterwards" in hidden(kernel, f32(4, 8), empty(4, 8), pl.RUNTIME)


@pl.jit
def reused(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.mul(x, 0.0)
        for _, (acc,) in pl.range(n, init_values=(x,)):
            inner = pl.add(acc, 1.0)
            total = pl.add(total, inner)
            last = pl.yield_(inner)
        inner = pl.mul(last, 2.0)
        out[:] = pl.add(inner, total)
    return out


@pytest.mark.parametrize("n", [0, 1, 3])
def test_names_from_before_go_on_and_a_hidden_name_is_free_again(n: int) -> None:
    x = f32(4, 8)
    last, total = x.copy(), np.zeros_like(x)
    for _ in range(n):
        last = last + np.float32(1)
        total = total + last
    np.testing.assert_allclose(run(reused, x, empty(4, 8), n, runtime=True)[1], last * 2 + total, rtol=1e-5)


@pl.jit.incore
def one_arm(out: pl.Out[pl.Tensor[[1], pl.INT32]], n: pl.Scalar[pl.INDEX]):
    if n > 2:
        a = pl.yield_(1)
    pl.write(out, [0], pl.cast(n, pl.INT32))
    return out


@pl.jit.incore
def other_names(out: pl.Out[pl.Tensor[[1], pl.INT32]], n: pl.Scalar[pl.INDEX]):
    if n > 2:
        a = pl.yield_(1)
    else:
        b = pl.yield_(2)
    pl.write(out, [0], pl.cast(n, pl.INT32))
    return out


@pl.jit.incore
def an_arm_that_leaves(out: pl.Out[pl.Tensor[[1], pl.INT32]], n: pl.Scalar[pl.INDEX]):
    last = 0
    for i in pl.range(10):
        if i >= n:
            break
        else:
            a = pl.yield_(i + 5)
        last = a
    pl.write(out, [0], pl.cast(last, pl.INT32))
    return out


def test_both_arms_of_a_branch_yield_to_the_same_names() -> None:
    for kernel, text in (
        (one_arm, r"only one arm of this branch yields(.|\n)*end the other with a = pl\.yield_\(\.\.\.\)"),
        (other_names, r"one arm of this branch yields a, the other b(.|\n)*yield to the same names in both arms"),
    ):
        with pytest.raises(ir.KernelSyntaxError, match=text):
            kernel.lower(n=pl.RUNTIME)
    assert run(an_arm_that_leaves, np.zeros(1, np.int32), 3, runtime=True)[0].tolist() == [7]
