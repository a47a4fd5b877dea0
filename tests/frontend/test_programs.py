"""Programs of classes and free functions: entries, levels, opaque functions, what inline functions declare."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir

Mat = pl.Tensor[[4, 8], pl.FP32]


@pl.program
class TwoEntries:
    @pl.function(type=pl.FunctionType.InCore)
    def scale(self, x: Mat, out: pl.Out[Mat], factor: pl.Scalar[pl.FP32]):
        out[:] = pl.mul(x, factor)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def prefill(self, x: Mat, out: pl.Out[Mat]):
        out = self.scale(x, out, 2.0)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def decode(self, x: Mat, y: Mat, out: pl.Out[Mat]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, y)
        return out


def test_a_program_with_several_entries_compiles_to_one_program_each(tmp_path, worker) -> None:
    assert TwoEntries.entry_names == ["prefill", "decode"]
    compiled = ir.compile(TwoEntries, tmp_path / "out", platform="a2a3sim")
    x = f32(4, 8)
    for version in (compiled, ir.CompiledProgram.from_dir(tmp_path / "out").load()):
        assert version.orchestration_names == ["prefill", "decode"]
        out = empty(4, 8)
        worker.run(version["prefill"], x, out)
        np.testing.assert_array_equal(out, x * 2)
        worker.run(version["decode"], x, x, out)
        np.testing.assert_array_equal(out, x + x)
        assert version["decode"].param_names == ["x", "y", "out"]
        with pytest.raises(KeyError, match="'train' is no entry of this program; it has prefill, decode"):
            version["train"]
        with pytest.raises(TypeError, match=r"has several entries: 'prefill', 'decode'; choose one"):
            version(x, out)
    (tmp_path / "out" / "entries.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"entries.json is no list of names. Recompile"):
        ir.CompiledProgram.from_dir(tmp_path / "out")


def test_the_entry_is_the_function_that_no_other_calls() -> None:
    @pl.program
    class Layers:
        @pl.function(type=pl.FunctionType.Orchestration)
        def half(self, x: Mat, out: pl.Out[Mat]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.mul(x, 0.5)
            return out

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: Mat, out: pl.Out[Mat]):
            mid = pl.create_tensor([4, 8], pl.FP32)
            mid = self.half(x, mid)
            out = self.half(mid, out)
            return out

    assert Layers.entry_name == "main"
    x = f32(4, 8)
    np.testing.assert_array_equal(run(Layers, x, empty(4, 8))[1], x / 4)


def test_an_opaque_function_is_what_its_body_says() -> None:
    @pl.program
    class Mixed:
        @pl.function
        def tiles(self, x: Mat, out: pl.Out[Mat]):
            t = pl.load(x, [0, 0], [4, 8])
            out = pl.store(pl.exp(t), [0, 0], out)
            return out

        @pl.function
        def main(self, x: Mat, out: pl.Out[Mat]):
            mid = pl.create_tensor([4, 8], pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP):
                mid[:] = pl.neg(x)
            out = self.tiles(mid, out)
            return out

    assert Mixed.get_function("tiles").func_type is pl.FunctionType.InCore
    x = f32(4, 8)
    np.testing.assert_allclose(run(Mixed, x, empty(4, 8))[1], np.exp(-x), rtol=1e-6)


def test_a_host_function_exists_and_is_refused_when_it_is_compiled(tmp_path) -> None:
    @pl.program
    class Distributed:
        @pl.function(type=pl.FunctionType.Orchestration)
        def chip(self, x: Mat, out: pl.Out[Mat]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = x
            return out

        @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
        def report(self, x: Mat): ...

        @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
        def main(self, x: Mat, out: pl.Out[Mat]):
            self.chip(x, out)
            self.report(x)

    assert Distributed.get_function("report").requires_runtime_binding
    assert not Distributed.get_function("main").requires_runtime_binding
    with pytest.raises(NotImplementedError, match="at level HOST: programs over several ranks are not supported"):
        ir.compile(Distributed, tmp_path)

    @pl.jit.host
    def entry(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        return out

    with pytest.raises(NotImplementedError, match=r"@pl.jit.host: host functions .* are not supported"):
        entry.compile(f32(4, 8), empty(4, 8))


@pl.function(type=pl.FunctionType.InCore)
def free_double(x: Mat, out: pl.Out[Mat]):
    out = pl.store(pl.mul(pl.load(x, [0, 0], [4, 8]), 2.0), [0, 0], out)
    return out


@pl.function(type=pl.FunctionType.Orchestration)
def free_main(x: Mat, out: pl.Out[Mat]):
    mid: Mat = pl.create_tensor([4, 8], pl.FP32)
    mid = free_double(x, mid)
    out = free_double(mid, out)
    return out


def test_free_functions_call_each_other() -> None:
    x = f32(4, 8)
    program = ir.Program("free", {"free_double": free_double, "free_main": free_main}, "free_main")
    np.testing.assert_array_equal(run(program, x, empty(4, 8))[1], x * 4)


def test_a_direction_on_an_inline_function_is_dropped_with_a_warning() -> None:
    @pl.jit.inline
    def fill(out: pl.Out[pl.Tensor], value: pl.Scalar[pl.FP32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.full([4, 8], pl.FP32, value)
        return out

    @pl.jit
    def kernel(out: pl.Out[pl.Tensor]):
        out = fill(out, 3.0)
        return out

    with pytest.warns(DeprecationWarning, match="pl.Out on 'out' of inline function 'fill' means nothing"):
        (out,) = run(kernel, empty(4, 8))
    assert (out == 3).all()


@pl.inline
def squared(x):
    y = pl.mul(x, x)
    return y


@pl.function
def increased(x: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
    y = pl.add(x, 1.0)
    return y


@pl.function
def passed_on(x: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
    y = increased(x)
    return y


@pl.function
def combined(x: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
    y = pl.mul(passed_on(increased(x)), 2.0)
    return squared(y)


@pl.jit
def calls_combined(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = combined(x)
    return out


def test_free_functions_that_compute_call_each_other_and_macros() -> None:
    assert {function.func_type for function in (increased, passed_on, combined)} == {pl.FunctionType.InCore}
    x = f32(4, 8)
    want = ((x + 1 + 1) * np.float32(2)) ** 2
    np.testing.assert_allclose(run(calls_combined, x, empty(4, 8))[1], want, rtol=1e-6)


def test_a_call_of_a_method_without_self_says_so() -> None:
    with pytest.raises(ir.KernelValueError, match=r"'scale' has no value here(?s:.)*same program is self\.scale"):

        @pl.program
        class Forgets:
            @pl.function(type=pl.FunctionType.InCore)
            def scale(self, x: Mat, out: pl.Out[Mat]):
                out[:] = pl.mul(x, 2.0)
                return out

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, x: Mat, out: pl.Out[Mat]):
                out = scale(x, out)
                return out


def test_a_program_that_is_called_says_that_it_is_compiled_first() -> None:
    with pytest.raises(TypeError, match=r"compiled = pypto\.ir\.compile\(TwoEntries\); compiled\(\.\.\.\)$"):
        TwoEntries(f32(4, 8), empty(4, 8))
