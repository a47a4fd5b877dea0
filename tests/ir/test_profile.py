"""How long each step of a compilation took."""

import json
from pathlib import Path

import pytest
import sample_kernels
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import RunConfig, run

STEPS = ["verify", "outline", "on-chip memory", "lower and write"]


@pl.jit
def annotated(x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 1.0)
    return out


def steps(directory: Path, expected: list[str]) -> None:
    report = json.loads((directory / "report" / "pipeline_profile.json").read_text())
    assert [step["name"] for step in report["steps"]] == expected
    assert all(step["ms"] > 0 for step in report["steps"])
    assert report["total_ms"] == pytest.approx(sum(step["ms"] for step in report["steps"]))
    lines = (directory / "report" / "pipeline_profile.txt").read_text().splitlines()
    assert [line.rsplit(None, 2)[0] for line in lines] == [*expected, "total"]
    assert all(line.endswith(" ms") for line in lines)


def test_the_argument_the_environment_and_the_config_each_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = sample_kernels.RepeatedMatmul
    ir.compile(program, tmp_path / "none")
    assert not list((tmp_path / "none" / "report").glob("pipeline_profile.*"))
    ir.compile(program, tmp_path / "argument", profiling=True)
    steps(tmp_path / "argument", STEPS)  # a @pl.program class was read when it was made
    ir.compile(annotated, tmp_path / "read", profiling=True)
    steps(tmp_path / "read", ["read source", *STEPS])
    run(program, config=RunConfig(save_kernels_dir=str(tmp_path / "config"), compile_profiling=True))
    steps(tmp_path / "config", STEPS)
    args = [torch.empty(8, 40) for _ in range(3)]
    config = RunConfig(save_kernels_dir=str(tmp_path / "jit"), compile_profiling=True)
    sample_kernels.add.compile(*args, config=config)
    steps(tmp_path / "jit", STEPS)
    monkeypatch.setenv("PYPTO_COMPILE_PROFILING", "1")
    ir.compile(program, tmp_path / "environment")
    steps(tmp_path / "environment", STEPS)


def test_the_verification_is_no_step_where_it_is_left_out(tmp_path: Path) -> None:
    level = ir.VerificationLevel.NONE
    ir.compile(sample_kernels.RepeatedMatmul, tmp_path, verification_level=level, profiling=True)
    steps(tmp_path, ["outline", "on-chip memory", "lower and write"])
