"""Files that the switches for diagnostics write about a launch."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_kernels
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, DeviceTensor, RegistrationHandle, RunConfig

Square = pl.Tensor[[16, 16], pl.FP32]


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


def submitted(handle: RegistrationHandle, *args: Any, config: RunConfig) -> Any:
    return handle.submit(*args, config=config).result()


def bound(handle: RegistrationHandle, *args: Any, config: RunConfig) -> Any:
    return handle.bind(*args)(config=config)


def bound_submitted(handle: RegistrationHandle, *args: Any, config: RunConfig) -> Any:
    return handle.bind(*args).submit(config=config).result()


@pytest.mark.parametrize("way", ["implicit", "handle", "run", "submit", "bind", "bind, submit"])
def test_arguments_are_kept_as_the_launch_found_and_left_them(
    compiled: ir.CompiledProgram, worker: ChipWorker, way: str
) -> None:
    handle = worker.register(compiled)
    call: Callable[..., Any] = {
        "implicit": compiled,
        "handle": handle,
        "run": partial(worker.run, compiled),
        "submit": partial(submitted, handle),
        "bind": partial(bound, handle),
        "bind, submit": partial(bound_submitted, handle),
    }[way]
    x, y = worker.alloc_tensor((16, 16), torch.float32, init=full(2)), full(1).numpy()
    assert call(x, y, 3.0, config=RunConfig(enable_dump_args=2)) == ()
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


@pl.jit.incore
def tagging(a: Square, o: pl.Out[Square]):
    pl.dump_tag(a)
    o = pl.store(pl.load(a, [0, 0], [16, 16]), [0, 0], o)
    return o


@pl.jit
def tagged(a: Square, b: Square, c: Square, d: Square, o: pl.Out[Square], p: pl.Out[Square]):
    o = tagging(a, o)
    pl.dump_tag(d[0:8, :])
    with pl.at(level=pl.Level.CORE_GROUP, dumps=[o, b]):
        p[:] = pl.add(pl.add(b, c), o)
    return p


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("level", [1, True])
def test_level_1_keeps_the_tensors_that_the_source_tags(level: int, loaded: bool, tmp_path: Path) -> None:
    compiled = ir.compile(tagged, tmp_path)
    if loaded:
        compiled = ir.CompiledProgram.from_dir(tmp_path)
    compiled(*(full(value) for value in range(6)), config=RunConfig(enable_dump_args=level))
    folder, index = dumped(compiled)
    assert {path.name for path in folder.glob("*.pt")} == {
        "0_a_before.pt", "1_b_before.pt", "3_d_before.pt", "4_o_after.pt"
    }  # fmt: skip
    assert [entry["name"] for entry in index["params"]] == ["a", "b", "c", "d", "o", "p"]


def test_level_1_of_a_program_without_tags_writes_its_parameters_and_no_tensor(compiled: ir.CompiledProgram) -> None:
    compiled(full(0), full(0), 2.0, config=RunConfig(enable_dump_args=1))
    folder, index = dumped(compiled)
    assert [path.name for path in folder.iterdir()] == ["index.json"]
    assert index["params"][2]["value"] == 2.0


def test_a_sidecar_with_a_bad_tag_is_malformed(compiled: ir.CompiledProgram) -> None:
    sidecar = Path(compiled.output_dir) / "compiled_meta.json"
    sidecar.write_text(sidecar.read_text().replace('"direction":"In"', '"direction":"In","dump_tag":"yes"', 1))
    with pytest.raises(ValueError, match=r"compiled_meta\.json has a bad dump_tag for 'x': 'yes'\. Recompile"):
        _ = ir.CompiledProgram.from_dir(compiled.output_dir).params


@pytest.mark.parametrize("resident", [False, True])
def test_tasks_and_what_they_wait_for_are_written(
    compiled: ir.CompiledProgram, worker: ChipWorker, resident: bool
) -> None:
    x, y = full(1), full(1)
    arg = worker.alloc_tensor((16, 16), torch.float32, init=y) if resident else y
    compiled(x, arg, 1.0, config=RunConfig(enable_dep_gen=True))
    assert torch.equal(arg.to_host() if isinstance(arg, DeviceTensor) else arg, full(3)), "launched once"
    deps = json.loads((outputs_of(compiled) / "deps.json").read_text())
    sources = [task.pop("source") for task in deps["tasks"]]
    assert deps == {
        "program": "add_scaled",
        "tasks": [
            {"task": 0, "kernel": "scaled", "blocks": 1, "waits": []},
            {"task": 1, "kernel": "scaled", "blocks": 1, "waits": [0]},
        ],
    }
    assert [Path(source.rpartition(":")[0]).name for source in sources] == [Path(__file__).name] * 2
    if isinstance(arg, DeviceTensor):
        worker.free_tensor(arg)


def test_a_queued_launch_with_files_waits_for_those_before_it_and_is_done(
    compiled: ir.CompiledProgram, worker: ChipWorker
) -> None:
    handle, y = worker.register(compiled), full(0)
    for _ in range(5):
        handle.submit(full(1), y, 1.0)
    future = handle.submit(full(1), y, 1.0, config=RunConfig(enable_dump_args=2))
    assert (future.done(), future.running(), future.cancel(), future.result()) == (True, False, False, ())
    folder, _ = dumped(compiled)
    assert torch.equal(torch.load(folder / "1_y_before.pt"), full(10))


def test_errors_of_a_queued_launch_with_files_are_where_they_are_without(
    compiled: ir.CompiledProgram, worker: ChipWorker
) -> None:
    handle, config = worker.register(compiled), RunConfig(enable_dump_args=2)
    with pytest.raises(TypeError, match="arguments, got 1"):
        handle.submit(full(0), config=config)
    with pytest.raises(TypeError, match="Argument at position 0 must be a torch"):
        handle.submit("x", full(0), 1.0, config=config)
    freed = worker.alloc_tensor((16, 16), torch.float32)
    worker.free_tensor(freed)
    future = handle.submit(freed, full(0), 1.0, config=config)
    with pytest.raises(ValueError, match=r"At position 0: .*freed"):
        future.result()
    bound = handle.bind(full(0), full(0), 1.0)
    handle.unregister()
    for call in (partial(bound, config=config), partial(bound.submit, config=config)):
        with pytest.raises(RuntimeError, match="unregistered"):
            call()


def test_a_bound_launch_that_makes_its_outputs_returns_them_with_files_too(tmp_path: Path, worker: ChipWorker) -> None:
    compiled = ir.compile(sample_kernels.compile_add(16, 16).program, tmp_path)
    bound = worker.register(compiled).bind(full(1), full(2))
    config = RunConfig(enable_dep_gen=True)
    assert torch.equal(bound(config=config), full(3))
    assert torch.equal(bound.submit(config=config).result(), full(3))
    assert (outputs_of(compiled) / "deps.json").exists()


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
    compiled(full(0), full(0), 1.0, config=RunConfig(enable_pmu=2))
    assert not outputs_of(compiled).exists()
