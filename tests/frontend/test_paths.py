"""Names that not every path assigns: what earlier rounds left, and what may be missing."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


def report(kernel, *args) -> str:
    """The text of the refusal."""
    with pytest.raises(ir.KernelError) as caught:
        kernel.lower(*args)
    return str(caught.value)


def test_the_first_round_may_make_what_later_rounds_use() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(4):
            t = pl.load(x, [i, 0], [1, 8])
            if i == 0:
                acc = pl.mul(t, 2.0)
                total = 1
            else:
                acc = pl.add(acc, t)
                total = total + i
        out = pl.store(acc, [0, 0], out)
        pl.write(out, [1, 0], pl.cast(total, pl.FP32))
        return out

    x = f32(4, 8)
    out = run(kernel, x, empty(4, 8))[1]
    np.testing.assert_allclose(out[0], x.sum(0) + x[0], rtol=1e-5, atol=1e-5)
    assert out[1, 0] == 7


def test_the_first_round_may_make_it_in_a_scope_of_its_own() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(4):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = x[i : i + 1, :]
            if i == 0:
                with pl.at(level=pl.Level.CORE_GROUP):
                    acc = pl.mul(t, 2.0)
            else:
                with pl.at(level=pl.Level.CORE_GROUP):
                    acc = pl.add(acc, t)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = acc
        return out

    x = f32(4, 8)
    np.testing.assert_allclose(run(kernel, x, empty(4, 8))[1][0], x.sum(0) + x[0], rtol=1e-5, atol=1e-5)


def test_a_value_of_the_loop_before_is_kept_where_the_inner_loop_starts_again() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(3):
            for k in pl.range(2):
                t = pl.load(x, [i + k, 0], [1, 8])
                if i + k == 0:
                    acc = pl.add(t, 1.0)
                else:
                    acc = pl.add(pl.mul(acc, 0.5), t)
        out = pl.store(acc, [0, 0], out)
        return out

    x = f32(4, 8)
    want = x[0] + 1
    for row in (1, 1, 2, 2, 3):
        want = want / 2 + x[row]
    np.testing.assert_allclose(run(kernel, x, empty(4, 8))[1][0], want, rtol=1e-5)


def test_a_name_that_the_first_round_reads_has_no_value() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(4):
            out = pl.store(t, [i, 0], out)
            t = pl.load(x, [i, 0], [1, 8])
        return out

    text = report(kernel, f32(4, 8), empty(4, 8))
    assert "'t' has no value here" in text
    assert "help: give it a value before this line, on every path that leads here" in text


def test_a_view_that_a_skipped_block_assigns_is_refused_where_it_is_used() -> None:
    @pl.jit
    def loop(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
        for i in pl.range(n):
            v = x[i : i + 1, :]
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = v
        return out

    @pl.jit
    def branch(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
        if n == 2:
            v = x[0:1, :]
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = v
        return out

    for kernel in (loop, branch):
        text = report(kernel, f32(4, 8), empty(4, 8), pl.RUNTIME)
        assert "'v' has no value here when the block at line" in text
        assert "help: give 'v' a value before line" in text


def test_a_view_of_a_loop_that_certainly_runs_is_known_after_it() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(4):
            v = x[i : i + 1, :]
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = v
        return out

    x = f32(4, 8)
    np.testing.assert_array_equal(run(kernel, x, empty(4, 8))[1][0], x[3])


def test_both_arms_make_a_view_known() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
        if n == 2:
            v = x[0:1, :]
        if n == 3:
            v = x[1:2, :]
        else:
            v = x[2:3, :]
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = v
        return out

    x = f32(4, 8)
    np.testing.assert_array_equal(run(kernel, x, empty(4, 8), 3)[1][0], x[1])


def test_a_refused_kernel_adds_no_second_mistake_where_it_is_called() -> None:
    @pl.jit.incore
    def broken(a: pl.Tensor, c: pl.Out[pl.Tensor]):
        c = pl.store(pl.load(a, [0], [4, 8]), [0, 0], c)
        return c

    @pl.jit
    def kernel(a: pl.Tensor, c: pl.Out[pl.Tensor]):
        c = broken(a, c)
        c = broken(a, c)
        return c

    with pytest.raises(ir.KernelError) as caught:
        kernel.lower(f32(4, 8), empty(4, 8))
    (diagnostic,) = caught.value.diagnostics
    assert "pl.load: 1 offsets for 'a', which has 2 axes" in diagnostic.message


def test_7_1_a_bare_assignment_to_an_output_is_explained_where_it_stands() -> None:
    @pl.jit
    def kernel(a: pl.Tensor, c: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            c = pl.add(a, a)
        return c

    with pytest.raises(ir.PartialCodegenError) as caught:
        kernel.lower(f32(4, 8), empty(4, 8))
    text = str(caught.value)
    assert "c = pl.add(a, a)" in text
    assert "nothing writes the output 'c': a bare assignment gives the name another value" in text
    assert "help: write c[:] = x, c = pl.assemble(c, x, offsets) or c = pl.store(x, offsets, c)" in text
