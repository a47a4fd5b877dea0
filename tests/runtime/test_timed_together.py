"""Short tasks share readings of the clock; what a recording says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from importers import chrome_complaints, perfetto_complaints
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

import pypto
import pypto.language as pl
from pypto import _pypto, ir
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig
from pypto.runtime.spans import Recorder

TASKS = 400
MOST = 14
"""Tasks that share two readings at most."""
Tile = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def plus(a: pl.InOut[Tile], b: Tile):
    return pl.store(pl.add(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16])), [0, 0], a)


@pl.jit.incore
def minus(a: pl.InOut[Tile], b: Tile):
    return pl.store(pl.sub(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16])), [0, 0], a)


@pl.jit
def there_and_back(a: pl.InOut[Tile], b: Tile):
    for _ in pl.range(TASKS // 2):
        a = plus(a, b)
        a = minus(a, b)
    return a


@pl.jit
def with_fresh_memory(a: pl.InOut[Tile], b: Tile):
    for _ in pl.range(8):
        a = plus(a, b)
        a = plus(a, b)
        between = pl.create_tensor([2048, 2048], dtype=pl.FP32, init_value=1.0)
        a = plus(a, between[0:16, 0:16])
    return a


@pytest.fixture
def resident(worker: ChipWorker) -> Iterator[list[DeviceTensor]]:
    tensors = [worker.from_host(torch.zeros(16, 16)), worker.from_host(torch.ones(16, 16))]
    yield tensors
    for tensor in tensors:
        worker.free_tensor(tensor)


@pytest.fixture(scope="module")
def program() -> ir.CompiledProgram:
    return there_and_back.compile(torch.empty(16, 16), torch.empty(16, 16))


def tasks_of(spans: list[_pypto._Span]) -> list[tuple[int, int, int, int]]:
    """Begin, end, kernel and `timed_with` of each task."""
    return [(ts, ts + dur, arg, with_) for *_, name, ts, dur, arg, _, _, with_, _ in spans if name.endswith(".task")]


def groups_of(tasks: list[tuple[int, int, int, int]]) -> Iterator[list[tuple[int, int, int, int]]]:
    at = 0
    while at < len(tasks):
        yield tasks[at : at + tasks[at][3]]
        at += tasks[at][3]


@pytest.mark.parametrize("launches_before", [0, 3], ids=["interpreted", "repeated"])
@pytest.mark.parametrize("cores", [1, 2])
def test_each_short_task_has_a_record_and_shares_the_time_of_its_group(
    program: ir.CompiledProgram, cores: int, launches_before: int
) -> None:
    with ChipWorker(config=RunConfig(cores=cores)) as worker:
        handle = worker.register(program)
        tensors = [worker.from_host(torch.zeros(16, 16)), worker.from_host(torch.ones(16, 16))]
        for _ in range(launches_before):
            handle(*tensors)
        with _pypto.Recording() as recording:
            handle(*tensors)
            _, spans, dropped = recording.drain()
        for tensor in tensors:
            worker.free_tensor(tensor)
    tasks = tasks_of(spans)
    kernels = [kernel for _, _, kernel, _ in tasks]
    assert dropped == 0
    assert kernels == [kernels[0], kernels[1]] * (TASKS // 2)
    assert kernels[0] != kernels[1]
    assert all(end <= begin for (_, end, *_), (begin, *_) in pairwise(tasks))
    walls = [(ts, ts + dur) for *_, name, ts, dur, _, _, _, _, _ in spans if name.endswith(".device_wall")]
    assert walls[0][0] <= tasks[0][0]
    assert tasks[-1][1] <= walls[0][1]
    for group in groups_of(tasks):
        assert {with_ for *_, with_ in group} == {len(group)}
        assert len(group) <= MOST
        # Even shares; each end is rounded to a nanosecond of its own.
        lengths = [end - begin for begin, end, *_ in group]
        assert max(lengths) - min(lengths) <= 2


def test_tasks_of_some_hundred_nanoseconds_or_less_share_readings(
    worker: ChipWorker, program: ir.CompiledProgram, resident: list[DeviceTensor]
) -> None:
    handle = worker.register(program)
    for _ in range(3):
        handle(*resident)
    with _pypto.Recording() as recording:
        # A machine that is busy elsewhere makes tasks slow; not all of twenty launches.
        for _ in range(20):
            handle(*resident)
        tasks = tasks_of(recording.drain()[1])
    assert len(tasks) == 20 * TASKS
    assert max(with_ for *_, with_ in tasks) > 1


def test_no_group_reaches_over_what_is_no_task(worker: ChipWorker, resident: list[DeviceTensor]) -> None:
    handle = worker.register(with_fresh_memory.compile(torch.empty(16, 16), torch.empty(16, 16)))
    with _pypto.Recording() as recording:
        for _ in range(3):
            handle(*resident)
        tasks = tasks_of(recording.drain()[1])
    assert len(tasks) == 3 * 24
    # Two tasks, then memory is made, which ends a group: none has more than the three between two of these.
    ends, at = set(), 0
    for group in groups_of(tasks):
        at += len(group)
        ends.add(at)
    assert {launch * 24 + round_ * 3 + 2 for launch in range(3) for round_ in range(8)} <= ends
    assert {24, 48, 72} <= ends


def test_exports_say_with_how_many_a_task_was_timed(
    worker: ChipWorker, program: ir.CompiledProgram, resident: list[DeviceTensor], tmp_path: Path
) -> None:
    handle = worker.register(program)
    for _ in range(3):
        handle(*resident)
    names = ["run.json", "run.pftrace", "run.strace"]
    files = [pypto.trace(tmp_path / name) for name in names]
    with files[0], files[1], files[2], Recorder() as recorder:
        for _ in range(20):
            handle(*resident)
        launches = recorder.take()
    by_spans = sorted(
        int(span.attribute("timed_with") or 1)
        for launch in launches
        for span in launch.spans
        if span.name.endswith(".task")
    )
    assert len(by_spans) == 20 * TASKS
    assert by_spans[-1] > 1

    document = json.loads((tmp_path / names[0]).read_text())
    assert chrome_complaints(document) == set()
    slices = [event for event in document["traceEvents"] if event["ph"] == "X" and "kernel" in event["args"]]
    assert sorted(event["args"].get("timed_with", 1) for event in slices) == by_spans
    assert {event["name"] for event in slices} == {"plus", "minus"}
    assert all(f"{Path(__file__).name}:" in event["args"]["source"] for event in slices)

    trace = perfetto_trace_pb2.Trace.FromString((tmp_path / names[1]).read_bytes())
    assert perfetto_complaints(trace) == set()
    assert sorted(_notes(trace)) == by_spans

    lines = [line for line in (tmp_path / names[2]).read_text().splitlines() if "device_wall.task " in line]
    found = [re.search(r" core=0 timed_with=(\d+) clk=dev$", line) for line in lines]
    assert sorted(int(match[1]) if match else 1 for match in found) == by_spans


def test_scope_statistics_say_that_their_times_are_shares(
    program: ir.CompiledProgram, worker: ChipWorker, resident: list[DeviceTensor]
) -> None:
    handle = worker.register(program)
    config = RunConfig(enable_chip_swimlane=1, enable_scope_stats=True)
    most = []
    for _ in range(20):
        handle(*resident, config=config)
        directory = Path(program.output_dir) / "dfx_outputs"
        tasks = json.loads((directory / "chip_swimlane_records.json").read_text())["tasks"]
        lines = (directory / "scope_stats" / "scope_stats.jsonl").read_text().splitlines()
        found = {line["scope"]: line["timed_with"] for line in map(json.loads, lines)}
        assert found == {
            name: max(task["timed_with"] for task in tasks if task["name"] == name) for name in ("plus", "minus")
        }
        most += found.values()
    assert max(most) > 1


def _notes(trace: Any) -> Iterator[int]:
    for packet in trace.packet:
        notes = {note.name: note.uint_value for note in packet.track_event.debug_annotations}
        if "kernel" in notes:
            yield notes.get("timed_with", 1)
