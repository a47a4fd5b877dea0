"""`run`: compile, launch, compare."""

from pathlib import Path
from typing import Any

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig, RunResult, benchmark, compile_program, execute_compiled, run


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(128, 128), torch.randn(128, 128), torch.full((128, 128), float("nan"))


def test_a_run_compiles_and_launches_once() -> None:
    a, b, c = tensors()
    with ChipWorker() as worker:
        result = run(sample_kernels.add, a, b, c)
        assert worker.counters()["launches"] == 1
    assert torch.equal(c, a + b)
    assert result.passed
    assert result.error is None
    assert result.execution_time is not None
    assert result.execution_time > 0
    assert isinstance(result.compiled, ir.CompiledProgram)
    assert str(result).startswith("PASS: add (")


def test_a_result_can_be_called_as_the_compiled_program() -> None:
    a, b, c = tensors()
    result = run(sample_kernels.add, a, b, c)
    assert torch.equal(result(b, b), b + b)
    with pytest.raises(TypeError, match="no compiled program"):
        RunResult(True)()


def test_a_result_stands_for_the_compiled_program(worker: ChipWorker) -> None:
    a, b, c = tensors()
    result = run(sample_kernels.add, a, b, c)
    assert result.param_names == ["a", "b", "c"]
    assert Path(result) == result.output_dir
    assert result[result.compiled.name] is result.compiled
    worker.run(result, b, b, c)
    assert torch.equal(c, b + b)
    assert torch.equal(worker.register(result)(a, a), a + a)
    assert benchmark(result, [a, b, c], rounds=2, worker=worker).rounds == 2
    with pytest.raises(AttributeError, match="CompiledProgram has no attribute 'nothing'"):
        result.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="RunResult has no attribute 'param_names'"):
        RunResult(True).param_names  # noqa: B018
    with pytest.raises(TypeError, match="expected a CompiledProgram, got RunResult"):
        worker.run(RunResult(True), a, b, c)


def test_a_program_class_is_compiled_for_the_platform_of_the_config(tmp_path: Path) -> None:
    a, b, out = torch.eye(128), torch.randn(128, 128), torch.empty(128, 128)
    config = RunConfig(save_kernels_dir=str(tmp_path / "kept"), rtol=1e-5)
    result = run(sample_kernels.RepeatedMatmul, a, b, out, 3, config=config, golden={"out": 3 * b})
    assert result.passed, result.error
    assert result.compiled is not None
    assert result.compiled.output_dir == tmp_path / "kept"


def test_without_tensors_it_only_compiles() -> None:
    with ChipWorker() as worker:
        result = run(sample_kernels.RepeatedMatmul)
        only = run(sample_kernels.add, *tensors(), config=RunConfig(codegen_only=True))
        assert worker.counters()["launches"] == 0
    assert result.passed
    assert only.compiled is not None


@pytest.mark.parametrize("kind", ["by name", "in order", "alone", "function", "function by name", "numpy"])
def test_golden_comes_in_every_form(K_add: ir.CompiledProgram, kind: str) -> None:
    a, b, c = tensors()
    right = a + b
    golden = {
        "by name": {"c": right},
        "in order": [right],
        "alone": lambda *_: right,
        "function": lambda a, b, c: a + b,
        "function by name": lambda a, b, c: {"c": a + b},
        "numpy": {"c": right.numpy()},
    }[kind]
    assert run(K_add, a, b, c, golden=golden).passed
    wrong = (lambda *args: golden(*args)) if not callable(golden) else (lambda a, b, c: right + 1)
    result = run(K_add, a, b, c, golden=wrong if callable(golden) else {"c": right + 1})
    assert not result.passed
    assert result.error is not None
    assert "output 'c' differs from golden in 16384/16384 elements" in result.error
    assert str(result).startswith("FAIL: add - output 'c' differs")


@pytest.mark.parametrize(
    ("golden", "kind", "text"),
    [
        (lambda *_: None, TypeError, "golden returned None: it must return the expected outputs"),
        (3, TypeError, r"golden of output 'c' must be a torch\.Tensor or an array, got int"),
        ({"a": torch.ones(1)}, KeyError, "golden has 'a', the program writes c"),
        ({}, ValueError, "golden has 0 outputs, the program writes 1: c"),
    ],
    ids=["nothing returned", "a number", "another name", "no name"],
)
def test_golden_that_compares_nothing_is_refused(K_add: ir.CompiledProgram, golden: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        run(K_add, *tensors(), golden=golden)


def test_golden_sees_the_arguments_as_they_were() -> None:
    a, c = torch.ones(128, 128), torch.full((128, 128), 2.0)
    result = run(sample_kernels.add_into, a, c, golden=lambda a, c: a + c)
    assert result.passed, result.error
    assert torch.equal(c, torch.full((128, 128), 3.0))


def test_outputs_of_a_return_style_call_are_compared_and_kept(K_add: ir.CompiledProgram) -> None:
    a, b, _ = tensors()
    result = run(K_add, a, b, golden=[a + b])
    assert result.passed, result.error
    assert torch.equal(result.outputs, a + b)


def test_resident_outputs_are_compared(K_add: ir.CompiledProgram) -> None:
    a, b, _ = tensors()
    with ChipWorker() as worker:
        out = worker.alloc_tensor((128, 128), torch.float32)
        assert run(K_add, a, b, out, golden={"c": a + b}).passed
        assert not run(K_add, a, b, out, golden=lambda a, b, out: a - b).passed
        worker.free_tensor(out)


def test_a_wrong_number_of_golden_outputs_is_refused(K_add: ir.CompiledProgram) -> None:
    with pytest.raises(ValueError, match="golden has 2 outputs, the program writes 1: c"):
        run(K_add, *tensors(), golden=[torch.zeros(1), torch.zeros(1)])


def test_a_failing_launch_raises(K_add: ir.CompiledProgram) -> None:
    with pytest.raises(TypeError, match="'b'"):
        run(K_add, torch.zeros(128, 128), torch.zeros(1), torch.zeros(128, 128))


def test_an_artifact_is_compiled_and_run(tmp_path: Path) -> None:
    compile_program(sample_kernels.RepeatedMatmul, tmp_path)
    a, b, out = torch.eye(128), torch.randn(128, 128), torch.empty(128, 128)
    execute_compiled(tmp_path, [a, b, out, 2], platform="a2a3sim", device_id=0)
    assert torch.allclose(out, 2 * b)
    with pytest.raises(ValueError, match="level=2"):
        execute_compiled(tmp_path, [], platform="a2a3sim", level=3)


def test_results_say_pass_or_fail() -> None:
    assert str(RunResult(True, "k", execution_time=1.234)) == "PASS: k (1.23s)"
    assert str(RunResult(True)) == "PASS"
    assert str(RunResult(False, "k", "no")) == "FAIL: k - no"
    assert str(RunResult(False, error="no")) == "FAIL: no"
