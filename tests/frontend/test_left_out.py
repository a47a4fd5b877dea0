"""An output that is written only where a known condition never goes: the message says where, and why."""

import re
from pathlib import Path

import pytest
import torch

import pypto.language as pl
from pypto import ir

SOURCE = Path(__file__).read_text().splitlines()
ALWAYS = True


def line_of(text: str) -> int:
    """The line of this file that ends with this comment."""
    return next(number for number, line in enumerate(SOURCE, 1) if line.endswith(f"# {text}"))


@pl.jit
def after_return(x: pl.Tensor[[8, 64], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    if n == 0:  # test of after_return
        return out  # return of after_return
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)  # write of after_return
    return out


@pl.jit
def other_arm(x: pl.Tensor[[8, 64], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if n > 0:  # test of other_arm
            y = pl.mul(x, 2.0)
            out = pl.store(y, [0, 0], out)  # write of other_arm
    return out


@pl.jit
def inner_return(x: pl.Tensor[[8, 64], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if n == 0:  # noqa: SIM102  (a return inside two branches)
            if n < 3:
                return out  # return of inner_return
        out[:] = pl.mul(x, 2.0)  # write of inner_return
    return out


@pl.jit
def plain_return(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    return out  # return of plain_return
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)  # write of plain_return


@pl.jit
def constant(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if not ALWAYS:  # test of constant
            out[:] = pl.mul(x, 2.0)  # write of constant
    return out


@pl.jit
def nowhere(x: pl.Tensor[[8, 64], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    if n == 0:
        return out
    return out


X, OUT = torch.ones(8, 64), torch.empty(8, 64)
RUNTIME = r"compile with n=pl\.RUNTIME: a scalar that is given is a constant of the program"


def refusal(kernel: pl.JITFunction, *args: object) -> str:
    with pytest.raises(ir.KernelError, match="nothing writes the Out parameter 'out'") as raised:
        kernel.compile(*args)
    return str(raised.value)


def test_a_write_behind_a_return_that_always_happens_is_told_with_its_condition() -> None:
    write, back, test = (line_of(f"{what} of after_return") for what in ("write", "return", "test"))
    text = refusal(after_return, X, 0, OUT)
    where = f"what line {write} does with it stands after the `return` in line {back}, which always happens"
    assert f"{where}: `n == 0` in line {test} is always true\n" in text
    assert re.search(rf"help: write out on the path that is left too, or {RUNTIME}$", text)
    assert "rebinds" not in text


def test_the_advice_helps() -> None:
    out = torch.zeros(8, 64)
    compiled = after_return.compile(X, pl.RUNTIME, OUT)
    compiled(X, 0, out)
    assert not out.any()
    compiled(X, 1, out)
    assert bool((out == 2).all())


def test_a_write_in_an_arm_that_is_never_taken_is_told_with_its_condition() -> None:
    write, test = line_of("write of other_arm"), line_of("test of other_arm")
    text = refusal(other_arm, X, 0, OUT)
    assert f"what line {write} does with it is left out: `n > 0` in line {test} is always false\n" in text
    assert re.search(RUNTIME, text)


@pytest.mark.parametrize(("kernel", "args"), [(inner_return, (X, 0, OUT)), (plain_return, (X, OUT))])
def test_a_write_behind_a_return_without_a_condition_of_its_own(
    kernel: pl.JITFunction, args: tuple[object, ...]
) -> None:
    name = kernel.__name__
    write, back = line_of(f"write of {name}"), line_of(f"return of {name}")
    text = refusal(kernel, *args)
    assert f"what line {write} does with it stands after the `return` in line {back}, which always happens\n" in text
    assert text.endswith("help: write out before that `return`")


def test_a_constant_of_the_module_is_no_scalar_of_the_program() -> None:
    text = refusal(constant, X, OUT)
    assert f"`not ALWAYS` in line {line_of('test of constant')} is always false\n" in text
    assert text.endswith("help: write out on the path that is left too")


def test_an_output_that_is_written_nowhere_gets_the_usual_advice() -> None:
    text = refusal(nowhere, X, 0, OUT)
    assert "nothing writes the Out parameter 'out'\n" in text
    assert "`out = ...` only rebinds the name; write out[:] = x" in text
