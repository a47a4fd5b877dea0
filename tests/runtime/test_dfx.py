"""Files that the switches for diagnostics write about a launch."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_kernels
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, RunConfig


@pl.jit.incore
def scaled(x: pl.Tensor[[16, 16], pl.FP32], y: pl.InOut[pl.Tensor[[16, 16], pl.FP32]], k: pl.FP32):
    a = pl.load(x, [0, 0], [16, 16])
    b = pl.load(y, [0, 0], [16, 16])
    y = pl.store(pl.add(b, pl.mul(a, k)), [0, 0], y)
    return y


@pl.jit
def add_scaled(x: pl.Tensor[[16, 16], pl.FP32], y: pl.InOut[pl.Tensor[[16, 16], pl.FP32]], k: pl.FP32):
    y = scaled(x, y, k)
    y = scaled(x, y, k)
    return y


def full(value: float) -> torch.Tensor:
    return torch.full((16, 16), float(value))


@pytest.fixture
def compiled(tmp_path: Path) -> ir.CompiledProgram:
    return ir.compile(add_scaled.compile(full(0), full(0), pl.RUNTIME).program, tmp_path)


@pytest.fixture
def worker() -> Iterator[ChipWorker]:
    with ChipWorker() as entered:
        yield entered


def outputs_of(compiled: ir.CompiledProgram) -> Path:
    return Path(compiled.output_dir) / "dfx_outputs"


def dumped(compiled: ir.CompiledProgram) -> tuple[Path, dict[str, Any]]:
    (folder,) = (outputs_of(compiled) / "args_dump").iterdir()
    return folder, json.loads((folder / "index.json").read_text())


@pytest.mark.parametrize("way", ["implicit", "handle", "run"])
@pytest.mark.parametrize("level", [1, 2, True])
def test_arguments_are_kept_as_the_launch_found_and_left_them(
    compiled: ir.CompiledProgram, worker: ChipWorker, way: str, level: int
) -> None:
    call = {"implicit": compiled, "handle": worker.register(compiled), "run": partial(worker.run, compiled)}[way]
    x, y = worker.alloc_tensor((16, 16), torch.float32, init=full(2)), full(1).numpy()
    assert call(x, y, 3.0, config=RunConfig(enable_dump_args=level)) == ()
    folder, index = dumped(compiled)
    assert index == {
        "program": "add_scaled",
        "params": [
            {"name": "x", "direction": "In", "resident": True, "before": "0_x_before.pt", "shape": [16, 16],
             "dtype": "float32"},
            {"name": "y", "direction": "InOut", "resident": False, "before": "1_y_before.pt", "shape": [16, 16],
             "dtype": "float32", "after": "1_y_after.pt"},
            {"name": "k", "direction": "In", "value": 3.0},
        ],
    }  # fmt: skip
    assert {path.name for path in folder.glob("*.pt")} == {"0_x_before.pt", "1_y_before.pt", "1_y_after.pt"}
    for name, value in (("0_x_before", 2), ("1_y_before", 1), ("1_y_after", 13)):
        assert torch.equal(torch.load(folder / f"{name}.pt"), full(value))
    assert np.array_equal(y, full(13))
    worker.free_tensor(x)


def test_outputs_that_were_left_out_are_kept_too_and_returned(tmp_path: Path) -> None:
    compiled = ir.compile(sample_kernels.compile_add(16, 16).program, tmp_path)
    assert torch.equal(compiled(full(1), full(2), config=RunConfig(enable_dump_args=2)), full(3))
    folder, index = dumped(compiled)
    assert [entry.get("after") for entry in index["params"]] == [None, None, "2_c_after.pt"]
    assert torch.equal(torch.load(folder / "2_c_after.pt"), full(3))


def test_each_launch_has_its_own_folder(compiled: ir.CompiledProgram) -> None:
    for _ in range(3):
        compiled(full(0), full(0), 1.0, config=RunConfig(enable_dump_args=2))
    assert len(list((outputs_of(compiled) / "args_dump").iterdir())) == 3


def test_a_launch_that_is_refused_says_why_and_dumps_nothing(compiled: ir.CompiledProgram) -> None:
    config = RunConfig(enable_dump_args=2)
    with pytest.raises(TypeError, match="arguments, got 1"):
        compiled(full(0), config=config)
    with pytest.raises(TypeError, match="Argument at position 0 must be a torch"):
        compiled("x", full(0), 1.0, config=config)
    with pytest.raises(ValueError, match="Tensor at position 1 is not contiguous"):
        compiled(full(0), full(0).t(), 1.0, config=config)
    assert not (outputs_of(compiled) / "args_dump").exists()


def test_scopes_are_counted(compiled: ir.CompiledProgram, worker: ChipWorker) -> None:
    worker.run(compiled, full(0), full(0), 1.0, config=RunConfig(enable_scope_stats=True))
    (line,) = map(json.loads, (outputs_of(compiled) / "scope_stats" / "scope_stats.jsonl").read_text().splitlines())
    assert (line["scope"], line["kernel"], line["tasks"], line["cores"]) == ("scaled", 0, 2, 1)
    assert Path(line["source"].rpartition(":")[0]).name == Path(__file__).name
    assert 0 < line["min_ns"] <= line["mean_ns"] <= line["max_ns"] <= line["total_ns"]
    names = json.loads((outputs_of(compiled) / "name_map_add_scaled.json").read_text())
    assert names == {"program": "add_scaled", "kernels": {"0": "scaled"}}
    assert not list(outputs_of(compiled).glob("merged_swimlane_*")), "nobody asked for a timeline"


def test_all_at_once(compiled: ir.CompiledProgram, worker: ChipWorker) -> None:
    handle = worker.register(compiled)
    y = full(1)
    handle(full(1), y, 1.0, config=RunConfig(enable_chip_swimlane=1, enable_scope_stats=True, enable_dump_args=1))
    assert torch.equal(y, full(3))
    assert {path.name.partition("_2")[0] for path in outputs_of(compiled).iterdir()} == {
        "args_dump", "scope_stats", "merged_swimlane", "chip_swimlane_records.json", "name_map_add_scaled.json"
    }  # fmt: skip


def test_switches_without_a_meaning_here_write_nothing(compiled: ir.CompiledProgram) -> None:
    compiled(full(0), full(0), 1.0, config=RunConfig(enable_pmu=2, enable_dep_gen=True))
    assert not outputs_of(compiled).exists()
