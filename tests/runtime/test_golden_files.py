"""Golden files: written once, run and compared from the command line or by `run`."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import RunConfig, ScalarSpec, TensorSpec, execute_artifact, golden_files, run
from pypto.runtime.golden_writer import write_golden

SHAPE = (16, 16)


@pl.jit
def scaled_sum(
    a: pl.Tensor[[16, 16], pl.FP32],
    b: pl.Tensor[[16, 16], pl.FP32],
    c: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
    factor: pl.Scalar[pl.FP32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.add(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16]))
        c = pl.store(pl.mul(total, factor), [0, 0], c)
    return c


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("a", SHAPE, torch.float32, torch.randn),
        TensorSpec("b", SHAPE, torch.float32, 2.0),
        TensorSpec("c", SHAPE, torch.float32, is_output=True),
    ]


SCALARS = [ScalarSpec("factor", 3.0, "float")]


def expected(tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> None:
    tensors["c"][:] = (tensors["a"] + tensors["b"]) * scalars["factor"]


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A compiled directory with its golden files."""
    directory = tmp_path / "scaled_sum"
    shutil.copytree(scaled_sum.compile(factor=pl.RUNTIME), directory)
    write_golden(specs(), expected, directory / "golden.py", scalar_specs=SCALARS)
    return directory


def test_golden_files_hold_the_arguments_and_what_should_come_out(artifact: Path) -> None:
    inputs, outputs = (golden_files.load(artifact / "data", kind) for kind in ("in", "out"))
    assert sorted(inputs) == ["a", "b", "c"]
    assert not inputs["c"].any(), "golden_fn works on copies"
    assert torch.equal(outputs["c"], (inputs["a"] + inputs["b"]) * 3.0)
    module = runpy.run_path(str(artifact / "golden.py"))
    assert (module["RTOL"], module["ATOL"], module["__outputs__"]) == (1e-5, 1e-5, ["c"])
    tensors = module["generate_inputs"]()
    module["compute_golden"](tensors)
    assert torch.equal(tensors["c"], outputs["c"])


@pytest.mark.parametrize(
    "golden_fn",
    [
        lambda tensors: {"c": tensors["a"] + tensors["b"]},
        lambda tensors: [tensors["a"] + tensors["b"]],
        lambda tensors: tensors["a"] + tensors["b"],
    ],
    ids=["by name", "in order", "one tensor"],
)
def test_golden_outputs_may_be_returned(golden_fn: Any, tmp_path: Path) -> None:
    write_golden(specs(), golden_fn, tmp_path / "golden.py", rtol=1e-3, atol=1e-4, data_dir=tmp_path / "elsewhere")
    data = {kind: golden_files.load(tmp_path / "elsewhere", kind) for kind in ("in", "out")}
    assert torch.equal(data["out"]["c"], data["in"]["a"] + 2.0)
    assert golden_files.tolerances(tmp_path) == (1e-3, 1e-4)


def test_golden_files_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "golden.py"
    with pytest.raises(ValueError, match="no TensorSpec has is_output=True"):
        write_golden(specs()[:2], expected, path)
    with pytest.raises(ValueError, match="two arguments are called a"):
        write_golden([*specs(), specs()[0]], expected, path)
    with pytest.raises(ValueError, match="golden has 2 outputs, the program writes 1: c"):
        write_golden(specs(), lambda tensors: [tensors["a"]] * 2, path)
    assert not path.exists()


def result_of(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = execute_artifact.main(arguments)
    out, err = capfd.readouterr()
    return code, [line for line in out.splitlines() if line.startswith("PYPTO_EXEC_RESULT=")], err


def test_an_artifact_passes_or_fails(artifact: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert result_of(capfd, "--work-dir", str(artifact)) == (0, ["PYPTO_EXEC_RESULT=PASS"], "")
    actual = golden_files.load(artifact / "data", "actual")
    assert torch.allclose(actual["c"], golden_files.load(artifact / "data", "out")["c"])
    golden_files.save(artifact / "data", "out", {"c": torch.zeros(SHAPE)})
    code, results, err = result_of(capfd, "--work-dir", str(artifact))
    assert (code, results) == (1, ["PYPTO_EXEC_RESULT=FAIL"])
    assert "output 'c' differs from golden in 256/256 elements (rtol=1e-05, atol=1e-05)" in err
    assert result_of(capfd, "--work-dir", str(artifact), "--no-validate")[:2] == (0, ["PYPTO_EXEC_RESULT=PASS"])


def test_what_cannot_run_is_no_failure_of_the_program(
    artifact: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, results, err = result_of(capfd, "--work-dir", str(tmp_path / "nothing"))
    assert (code, results) == (2, ["PYPTO_EXEC_RESULT=INFRA"])
    assert "compiled_meta.json does not exist" in err
    (artifact / "data" / "in" / "b.pt").unlink()
    code, _, err = result_of(capfd, "--work-dir", str(artifact))
    assert code == 2
    assert "has no b.pt" in err


def test_a_manifest_runs_many(artifact: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps([str(artifact), {"work_dir": str(artifact), "platform": "a2a3"}]))
    code, results, err = result_of(capfd, "--batch-manifest", str(manifest))
    assert code == 2
    assert results == ["PYPTO_EXEC_RESULT=PASS", "PYPTO_EXEC_RESULT=INFRA"]
    assert "real Ascend chip" in err


def test_it_is_a_command(artifact: Path) -> None:
    command = [sys.executable, "-m", "pypto.runtime.execute_artifact", "--work-dir", str(artifact)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "PYPTO_EXEC_RESULT=PASS\n"


def test_run_compares_with_a_directory_of_golden_data(artifact: Path) -> None:
    compiled = ir.CompiledProgram.from_dir(artifact)
    inputs = golden_files.load(artifact / "data", "in")
    arguments = (inputs["a"], inputs["b"], inputs["c"])
    config = RunConfig(golden_data_dir=str(artifact / "data"))
    assert run(compiled, *arguments, 3.0, config=config).passed
    result = run(compiled, *arguments, 4.0, config=config)
    assert not result.passed
    assert "output 'c' differs from golden" in str(result.error)
    with pytest.raises(FileNotFoundError, match="golden data is written by golden_writer"):
        run(compiled, *arguments, 3.0, config=RunConfig(golden_data_dir=str(artifact / "none")))
