"""A compiled directory that is run again by itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import TensorSpec
from pypto.runtime.debug import replay
from pypto.runtime.debug.run_script_writer import write_run_script
from pypto.runtime.golden_writer import write_golden


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    directory = tmp_path / "add"
    shutil.copytree(sample_kernels.compile_add(), directory)
    return directory


def with_golden(artifact: Path, right: bool = True) -> Path:
    specs = [
        TensorSpec("a", (128, 128), torch.float32, torch.randn),
        TensorSpec("b", (128, 128), torch.float32, 2.0),
        TensorSpec("c", (128, 128), torch.float32, is_output=True),
    ]
    write_golden(specs, lambda t: t["a"] + (t["b"] if right else 1.0), artifact / "golden.py")
    return artifact


def test_each_compiled_directory_has_a_script_that_runs_it(artifact: Path) -> None:
    command = [sys.executable, str(artifact / "debug" / "run.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"ran {artifact} with made-up inputs\n"


def test_the_script_can_be_left_out_and_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_EMIT_DEBUG_RUNNER", "no")
    program = sample_kernels.RepeatedMatmul
    compiled = ir.compile(program, tmp_path)
    assert not (tmp_path / "debug").exists()
    assert write_run_script(compiled) == tmp_path / "debug" / "run.py"
    monkeypatch.setenv("PYPTO_EMIT_DEBUG_RUNNER", "perhaps")
    with pytest.raises(ValueError, match="PYPTO_EMIT_DEBUG_RUNNER='perhaps' is no switch"):
        ir.compile(program, tmp_path)


def test_golden_inputs_are_used_and_compared_where_asked(artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_golden(artifact)
    assert replay.main(["--work-dir", str(artifact), "--validate"]) == 0
    assert capsys.readouterr().out == f"ran {artifact} with its golden inputs: outputs match\n"
    with_golden(artifact, right=False)
    assert replay.main(["--work-dir", str(artifact)]) == 0
    assert replay.main(["--work-dir", str(artifact), "--validate"]) == 1
    assert "output 'c' differs from golden" in capsys.readouterr().err


def test_there_is_nothing_to_compare_with_made_up_inputs(artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main(["--work-dir", str(artifact), "--validate"]) == 1
    assert "has no golden.py: there is nothing to compare with" in capsys.readouterr().err


def test_inputs_are_made_up_for_every_kind_of_parameter(tmp_path: Path) -> None:
    compiled = ir.compile(sample_kernels.RepeatedMatmul, tmp_path)
    a, b, out, n = replay.made_up(compiled)
    assert a.shape == b.shape == out.shape == (128, 128)
    assert n == 1
    assert (
        replay.main(["--work-dir", str(tmp_path), "--swimlane", "--pmu", "--no-recompile", "--log-level", "warn"]) == 0
    )
