"""Calls between functions: inline, launched, methods, factories; how callees are found and specialised."""

import numpy as np
import pytest
from checking import empty, f32, program_of, run

import pypto.language as pl
from pypto.ir import KernelError, KernelTypeError, KernelValueError

SCALE = 3.0


@pl.jit.inline
def scaled(x, factor):
    y = pl.mul(x, factor)
    return pl.mul(y, SCALE)


@pl.jit.incore
def scale_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    y = pl.load(x, [0, 0], [16, 32])
    y = scaled(y, 2.0)
    out = pl.store(y, [0, 0], out)
    return out


@pl.jit
def scale(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = scale_tile(x, out)
    return out


def test_an_inline_function_is_spliced_with_its_own_names() -> None:
    x = f32(16, 32)
    _, out = run(scale, x, empty(16, 32))
    np.testing.assert_array_equal(out, x * np.float32(2) * np.float32(3))


@pl.jit.incore
def returns_a_value(x: pl.Tensor, y: pl.Tensor):
    z = pl.add(x, y)
    return z


@pl.jit
def uses_a_value(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = returns_a_value(x, x)
    t = returns_a_value(t, x)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = t
    return out


def test_a_kernel_may_return_a_value_that_is_none_of_its_parameters() -> None:
    x = f32(16, 32)
    _, out = run(uses_a_value, x, empty(16, 32))
    np.testing.assert_array_equal(out, (x + x) + x)


@pl.jit.incore
def fill(out: pl.Out[pl.Tensor], value: pl.Scalar[pl.FP32]):
    out[:] = pl.full([out.shape[0], out.shape[1]], pl.FP32, value)
    return out


@pl.jit
def fill_both(a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], value: pl.Scalar[pl.FP32]):
    a = fill(a, value)
    b = fill(out=b, value=4)
    return a, b


def test_each_call_site_is_specialised_for_its_shapes() -> None:
    a, b = run(fill_both, empty(4, 8), empty(16, 32), 2.5)
    assert (a == 2.5).all()
    assert (b == 4).all()
    program = program_of(fill_both, a, b, 2.5)
    assert set(program.functions) == {"fill_both", "fill", "fill_1"}


def test_equal_call_sites_share_one_kernel() -> None:
    program = program_of(fill_both, empty(4, 8), empty(4, 8), 2.5)
    # `value` is fixed in the first call and a literal in the second, which stays a runtime parameter.
    assert set(program.functions) == {"fill_both", "fill", "fill_1"}
    assert program.functions["fill"].params[1].baked == 2.5
    assert program.functions["fill_1"].params[1].baked is None


def make(width: int):
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = pl.store(pl.load(x, [0, 0], [4, width]), [0, 0], out)
        return out

    @pl.jit
    def entry(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = kernel(x, out)
        return out

    return entry


def test_factories_make_kernels_that_see_their_own_closures() -> None:
    for width in (8, 16):
        x = f32(4, width)
        _, out = run(make(width), x, empty(4, width))
        np.testing.assert_array_equal(out, x)


alias_of_fill = fill


@pl.jit
def calls_an_alias(a: pl.Out[pl.Tensor]):
    a = alias_of_fill(a, 1.0)
    return a


def test_25_a_callee_is_found_by_its_own_name() -> None:
    with pytest.raises(KernelValueError, match=r"'alias_of_fill' is another name for 'fill'"):
        calls_an_alias.lower(empty(4, 8))


@pl.jit.inline
def endless(x):
    return endless(x)


@pl.jit
def calls_itself(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = endless(x)
    return out


def test_a_function_that_calls_itself_is_refused() -> None:
    with pytest.raises(KernelValueError, match="'endless' calls itself, directly or through others"):
        calls_itself.lower(f32(4, 8), f32(4, 8))


@pl.program
class Layers:
    @pl.function(type=pl.FunctionType.InCore)
    def double(
        self, x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]
    ) -> pl.Tensor[[16, 32], pl.FP32]:
        t: pl.Tile[[16, 32], pl.FP32] = pl.load(x, [0, 0], [16, 32])
        out = pl.store(pl.add(t, t), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]
    ) -> pl.Tensor[[16, 32], pl.FP32]:
        half: pl.Tensor[[16, 32], pl.FP32] = pl.create_tensor([16, 32], dtype=pl.FP32)
        half = self.double(x, half)
        out = self.double(half, out)
        return out


def test_methods_of_a_program_call_each_other() -> None:
    x = f32(16, 32)
    _, out = run(Layers, x, empty(16, 32))
    np.testing.assert_array_equal(out, x * 4)
    assert Layers.name == "Layers"
    assert Layers.get_function("double").func_type is pl.FunctionType.InCore
    assert Layers.get_function("missing") is None


@pl.program
class SingleKernel:
    @pl.function(type=pl.FunctionType.InCore)
    def only(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        out = pl.store(pl.neg(pl.load(x, [0, 0], [4, 8])), [0, 0], out)
        return out


def test_a_program_of_one_kernel_launches_it() -> None:
    x = f32(4, 8)
    _, out = run(SingleKernel, x, empty(4, 8))
    np.testing.assert_array_equal(out, -x)


def test_wrong_arguments_of_a_call_are_named() -> None:
    @pl.jit
    def missing(a: pl.Out[pl.Tensor]):
        a = fill(a)
        return a

    @pl.jit
    def unknown(a: pl.Out[pl.Tensor]):
        a = fill(a, valeu=1.0)
        return a

    @pl.jit
    def swapped(a: pl.Out[pl.Tensor]):
        a = fill(1.0, a)
        return a

    for kernel, text in (
        (missing, r"fill\(\) needs value"),
        (unknown, r"fill\(\) has no parameter 'valeu'[\s\S]*its parameters are out, value"),
        (swapped, r"fill\(\): 'out' is a tensor, got an FP32 scalar"),
    ):
        with pytest.raises(KernelTypeError, match=text):
            kernel.lower(empty(4, 8))


def test_a_mistake_in_a_callee_shows_the_chain_of_calls() -> None:
    @pl.jit.inline
    def inner(x):
        return pl.add(x, [1])

    @pl.jit.inline
    def outer(x):
        return inner(x)

    @pl.jit
    def entry(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = outer(x)
        return out

    with pytest.raises(KernelError) as caught:
        entry.lower(f32(4, 8), f32(4, 8))
    lines = str(caught.value).splitlines()
    assert "return pl.add(x, [1])" in lines[1]
    assert lines[-2].startswith("  in inner, called at ")
    assert lines[-1].startswith("  in outer, called at ")


@pl.jit
def value_meets_a_kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(x, 2.0)
    first = pl.read(t, [0, 0])
    y = returns_a_value(t, t)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(y, first)
    return out


def test_16_a_value_of_a_scope_may_be_passed_to_a_kernel_and_read_outside() -> None:
    x = f32(16, 32)
    _, out = run(value_meets_a_kernel, x, empty(16, 32))
    np.testing.assert_array_equal(out, x * np.float32(4) + x[0, 0] * np.float32(2))


@pl.jit.inline
def fill_through(out, value):
    out = fill(out, value)
    return out


@pl.jit
def baked_through_inline(a: pl.Out[pl.Tensor], value: pl.Scalar[pl.FP32]):
    a = fill_through(a, value)
    return a


def test_02_a_fixed_scalar_stays_fixed_through_inline_functions() -> None:
    program = program_of(baked_through_inline, empty(4, 8), 2.5)
    assert program.functions["fill"].params[1].baked == 2.5


@pl.jit.inline
def shifted(x: pl.Tensor, by: pl.Scalar[pl.FP32] = 2.0):
    return pl.add(x, by)


@pl.jit.incore
def filled(out: pl.Out[pl.Tensor], value: pl.Scalar[pl.FP32] = 0.5):
    out[:] = pl.full([4, 8], dtype=pl.FP32, value=value)
    return out


@pl.jit
def with_defaults(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    halves = pl.create_tensor([4, 8], dtype=pl.FP32)
    halves = filled(halves)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(pl.add(shifted(x), shifted(x, by=3.0)), halves)
    return out


def test_parameters_of_functions_that_are_called_may_have_defaults() -> None:
    x = f32(4, 8)
    want = ((x + np.float32(2)) + (x + np.float32(3))) * np.float32(0.5)
    np.testing.assert_array_equal(run(with_defaults, x, empty(4, 8))[1], want)


@pl.jit.inline
def gives_nothing(x):
    pl.static_assert(1 > 0)


def test_a_call_whose_value_is_used_gives_one() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            gives_nothing(x)
            out[:] = pl.add(gives_nothing(x), 1.0)
        return out

    text = r"gives_nothing\(\.\.\.\) returns nothing, and here its value is used(.|\n)*end it with `return value`"
    with pytest.raises(KernelTypeError, match=text):
        kernel.lower(f32(4, 4), empty(4, 4))
