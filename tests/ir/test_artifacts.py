"""What a compiled directory says about how it was built, and one that holds several programs one after the other."""

import importlib
import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker


@pl.program
class Double:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]], n: pl.Scalar[pl.INT32]):
        t = pl.load(x, [0, 0], [4, 16])
        out = pl.store(pl.add(t, t), [n, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]], n: pl.Scalar[pl.INT32]):
        out = self.kernel(x, out, n)
        return out


@pl.program
class Two:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
        t = pl.load(x, [0, 0], [4, 16])
        out = pl.store(pl.add(t, t), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def prefill(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
        out = self.kernel(x, out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def decode(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
        out = self.kernel(x, out)
        return out


def test_kernel_config_is_python_that_says_how_the_program_was_built(tmp_path: Path) -> None:
    ir.compile(Double, tmp_path)
    values = runpy.run_path(str(tmp_path / "kernel_config.py"))
    assert values["RUNTIME_CONFIG"] == {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 4}
    assert values["ORCHESTRATION"]["function_name"] == "Double"
    assert values["ORCHESTRATION"]["signature"] == ["In", "Out", "Scalar"]
    assert [kernel["name"] for kernel in values["KERNELS"]] == ["kernel"]


@pytest.mark.parametrize("kind", [ir.RuntimeKind.HOST_BUILD_GRAPH, "host_build_graph"])
def test_the_kind_of_runtime_is_kept(kind: object, tmp_path: Path) -> None:
    compiled = ir.compile(Double, tmp_path, runtime=kind)
    again = ir.CompiledProgram.from_dir(tmp_path)
    for program in (compiled, again):
        assert program.runtime_name == "host_build_graph"
        assert program.runtime_config == {"runtime": "host_build_graph", "aicpu_thread_num": 4}


def test_another_kind_of_runtime_is_refused(tmp_path: Path) -> None:
    known = r"runtime must be a RuntimeKind or one of 'tensormap_and_ringbuffer', 'host_build_graph', got 'x'"
    with pytest.raises(ValueError, match=known):
        ir.compile(Double, tmp_path, runtime="x")


def test_an_artifact_without_its_kernel_config_can_be_looked_at_and_says_what_to_do_when_executed(
    tmp_path: Path,
) -> None:
    whole = ir.compile(Double, tmp_path)
    (tmp_path / "kernel_config.py").unlink()
    compiled = ir.CompiledProgram.from_dir(tmp_path)
    assert compiled.param_names == whole.param_names
    args = [torch.ones([abs(dim) for dim in param.shape or ()]) for param in compiled.params]
    with ChipWorker() as worker:
        for execute in (
            lambda: compiled(*args),
            lambda: worker.run(compiled, *args),
            lambda: worker.register(compiled),
            compiled.load,
        ):
            with pytest.raises(
                FileNotFoundError, match=r"kernel_config\.py does not exist: .*incomplete.*Recompile with ir\.comp"
            ):
                execute()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RUNTIME_CONFIG = {", "is not Python of constants"),
        ("import os\nRUNTIME_CONFIG = os.environ", "is not Python of constants"),
        ("", "has no proper RUNTIME_CONFIG: None"),
        ("RUNTIME_CONFIG = {'runtime': 'x', 'aicpu_thread_num': True}", "has no proper RUNTIME_CONFIG"),
    ],
)
def test_a_malformed_kernel_config_is_a_value_error_that_names_the_file(text: str, said: str, tmp_path: Path) -> None:
    ir.compile(Double, tmp_path)
    (tmp_path / "kernel_config.py").write_text(text)
    with pytest.raises(ValueError, match=rf"kernel_config\.py {said}.*Recompile with ir\.compile"):
        ir.CompiledProgram.from_dir(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("num_return_types", -1, "has no proper 'num_return_types'"),
        ("num_return_types", True, "has no proper 'num_return_types'"),
        ("params", None, "has no proper 'params'"),
        ("schema", True, "has another schema than 1"),
        ("platform", "cuda", "has an unknown platform: 'cuda'"),
        ("backend_type", "Ascend", "has backend_type 'Ascend', and 'a2a3sim' is 'Ascend910B'"),
        ("backend_type", "Ascend950", "has backend_type 'Ascend950', and 'a2a3sim' is 'Ascend910B'"),
    ],
)
def test_a_field_that_cannot_be_is_a_value_error_that_names_the_file(
    field: str, value: object, said: str, tmp_path: Path
) -> None:
    ir.compile(Double, tmp_path)
    path = tmp_path / "compiled_meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(ValueError, match=rf"compiled_meta\.json {said}.*Recompile with ir\.compile\(\)"):
        ir.CompiledProgram.from_dir(tmp_path)


def test_several_entries_are_programs_by_name(tmp_path: Path) -> None:
    ir.compile(Two, tmp_path, platform="a2a3sim")
    for compiled in (ir.compile(Two, tmp_path), ir.CompiledProgram.from_dir(tmp_path)):
        assert compiled.orchestration_names == ["prefill", "decode"]
        assert compiled.prefill is compiled["prefill"]
        assert compiled.decode.param_names == ["x", "out"]
        with pytest.raises(KeyError, match="'other' is no entry of this program; it has prefill, decode"):
            compiled["other"]
        with pytest.raises(AttributeError, match="no attribute 'other'; its entries are prefill, decode"):
            compiled.other  # noqa: B018
        with pytest.raises(TypeError, match="has several entries: 'prefill', 'decode'; choose one"):
            compiled()


def test_a_program_with_one_entry_has_no_made_up_attributes(tmp_path: Path) -> None:
    compiled = ir.compile(Double, tmp_path)
    assert not hasattr(compiled, "main")
    with pytest.raises(AttributeError, match=r"CompiledProgram has no attribute 'nothing'$"):
        compiled.nothing  # noqa: B018


def test_a_directory_holds_the_program_that_was_compiled_last(tmp_path: Path) -> None:
    (tmp_path / "distributed_meta.json").write_text("{}")
    ir.compile(Two, tmp_path)
    assert not (tmp_path / "distributed_meta.json").exists()
    ir.compile(Double, tmp_path)
    assert ir.CompiledProgram.from_dir(tmp_path).param_names == ["x", "out", "n"]
    ir.compile(Two, tmp_path)
    assert ir.CompiledProgram.from_dir(tmp_path).orchestration_names == ["prefill", "decode"]
    assert not (tmp_path / "compiled_meta.json").exists()


def test_loading_writes_nothing(tmp_path: Path) -> None:
    ir.compile(Double, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    ir.CompiledProgram.from_dir(tmp_path).load()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_environment_decides_whether_the_ir_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr(importlib.import_module("pypto.ir.compile"), "verify", checked.append)
    for level, times in (("none", 0), ("BASIC", 1), ("", 1)):
        monkeypatch.setenv("PYPTO_VERIFY_LEVEL", level)
        ir.compile(Double, tmp_path)
        assert len(checked) == times
        checked.clear()
    ir.compile(Double, tmp_path, verification_level=ir.VerificationLevel.NONE)
    assert checked == []
    monkeypatch.setenv("PYPTO_VERIFY_LEVEL", "most")
    with pytest.raises(ValueError, match="PYPTO_VERIFY_LEVEL='most' is none of none, basic, roundtrip"):
        ir.compile(Double, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda params: params[0].pop("shape"), "has no shape for 'x'"),
        (lambda params: params[0].update(name=""), "has a name that is empty or there twice: ''"),
        (lambda params: params.append(params[0]), "has a name that is empty or there twice: 'x'"),
    ],
)
def test_a_parameter_that_cannot_be_is_a_value_error_that_names_the_file(
    change: Callable[[list[dict[str, object]]], object], said: str, tmp_path: Path
) -> None:
    ir.compile(Double, tmp_path)
    path = tmp_path / "compiled_meta.json"
    meta = json.loads(path.read_text())
    change(meta["params"])
    path.write_text(json.dumps(meta))
    with pytest.raises(ValueError, match=rf"compiled_meta\.json {said}.*Recompile with ir\.compile\(\)"):
        ir.CompiledProgram.from_dir(tmp_path)
