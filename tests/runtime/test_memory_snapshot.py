"""The past of device memory, as PyTorch's visualiser and Perfetto read it; budgets and tags."""

from __future__ import annotations

import contextvars
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig

KIB = 1 << 10


def busy(worker: ChipWorker, program: ir.CompiledProgram) -> None:
    """Tensors that live and die, and a launch that keeps staging memory."""
    first = worker.zeros((64, KIB), torch.float32)
    with worker.memory_budget(None, tag="cache"):
        cache = worker.zeros((16, KIB), torch.float32)
    worker.free_tensor(first)
    worker.zeros((8, KIB), torch.float32)
    a, b, c = torch.ones(128, 128), torch.ones(128, 128), torch.empty(128, 128)
    worker.run(program, a, b, c)
    assert cache.is_live


def name_of(item: dict[str, Any]) -> str:
    """The description of the memory, without its address."""
    return str(item["frames"][0]["name"]).split(" at ")[0]


def test_functions_of_torch_s_visualiser_read_the_snapshot(
    worker: ChipWorker, K_add: ir.CompiledProgram, tmp_path: Path
) -> None:
    busy(worker, K_add)
    path = tmp_path / "memory.json"
    worker.memory_snapshot(path)
    data = json.loads(path.read_text())
    # `segsum` itself checks that blocks and gaps make up the segment.
    assert "segments: 1" in _memory_viz.segsum(data)
    trace = _memory_viz.trace(data)
    assert "cudaMalloc(" in trace
    assert trace.count("free completed") == 1
    lines = _memory_viz.memory(data, format_flamegraph=lambda text: text).splitlines()
    assert [line for line in lines if "test_memory_snapshot.py" in line and "FP32 (16, 1024)" in line]
    assert [line for line in lines if "staging of host arguments" in line]
    assert "MemoryViz.js" in _memory_viz.trace_plot(data)


def test_the_pickle_is_the_snapshot_in_a_protocol_that_the_page_reads(
    worker: ChipWorker, K_add: ir.CompiledProgram, tmp_path: Path
) -> None:
    busy(worker, K_add)
    data = worker.memory_snapshot(tmp_path / "memory.pickle")
    raw = (tmp_path / "memory.pickle").read_bytes()
    assert raw[:2] == b"\x80\x02"
    assert pickle.loads(raw)["segments"] == data["segments"]
    assert b"traceEvents" not in raw


def test_the_trace_tells_who_took_what_and_in_which_order(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    busy(worker, K_add)
    data = worker.memory_snapshot()
    events = data["device_traces"][0]
    assert events[0]["action"] == "segment_alloc"
    named = [(event["action"], event["size"] // KIB, name_of(event)) for event in events[1:]]
    assert named[:5] == [
        ("alloc", 256, "FP32 (64, 1024)"),
        ("alloc", 64, "FP32 (16, 1024)"),
        ("free_requested", 256, "FP32 (64, 1024)"),
        ("free_completed", 256, "FP32 (64, 1024)"),
        ("alloc", 32, "FP32 (8, 1024)"),
    ]
    assert ("alloc", 240, "staging of host arguments") in named[5:], "a quarter more than three arguments of 64 KiB"
    user = events[2]["frames"][1]
    assert (user["filename"], user["name"]) == (__file__, "[cache]")
    times = [event["time_us"] for event in events]
    assert times == sorted(times)
    by_name = {name_of(block) for block in data["segments"][0]["blocks"] if block["frames"]}
    assert {"FP32 (16, 1024)", "FP32 (8, 1024)", "staging of host arguments"} <= by_name


def test_perfetto_gets_counters_that_end_at_what_is_live(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    busy(worker, K_add)
    events: list[dict[str, Any]] = worker.memory_snapshot()["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "C", "i"}
    assert all({"ph", "name", "pid", "tid", "args"} <= set(event) for event in events)
    counts = [event["args"]["bytes"] for event in events if event["name"] == "device memory"]
    report = worker.memory_report()
    assert counts[0] == 256 * KIB
    assert counts[-1] == report.live + report.staging + report.scratch + report.packed
    assert [event["args"]["bytes"] for event in events if event["name"] == "tag cache"] == [64 * KIB]
    assert [event["name"] for event in events if event["ph"] == "i"][:4] == ["take", "take", "free", "take"]


def test_launches_in_the_steady_state_record_nothing(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    arguments = [torch.ones(128, 128), torch.ones(128, 128), torch.empty(128, 128)]
    worker.run(K_add, *arguments)
    before = len(worker.memory_snapshot()["device_traces"][0])
    for _ in range(20):
        worker.run(K_add, *arguments)
    assert len(worker.memory_snapshot()["device_traces"][0]) == before


def test_the_past_is_bounded_and_says_what_was_forgotten(worker: ChipWorker) -> None:
    old = worker.zeros((4,), torch.float32)
    for _ in range(10_000):
        worker.free_tensor(worker.zeros((4,), torch.float32))
    data = worker.memory_snapshot()
    assert data["pypto"]["lost_events"] == 20_001 - (16 << 10)
    assert _memory_viz.segsum(data)
    active = [block for block in data["segments"][0]["blocks"] if block["state"] == "active_allocated"]
    assert [block["requested_size"] for block in active] == [old.nbytes], "what is live is known all the same"


def test_the_snapshot_of_a_new_worker_is_empty_and_readable(worker: ChipWorker) -> None:
    data = worker.memory_snapshot()
    assert data["segments"] == []
    assert "segments: 0" in _memory_viz.segsum(data)


def test_more_than_the_budget_is_refused_with_the_lines(worker: ChipWorker) -> None:
    with worker.memory_budget(100 * KIB, tag="kv cache") as scope:
        worker.zeros((64, 256), torch.float32)
        small = worker.zeros((1, 256), torch.float32)
        with pytest.raises(MemoryError) as raised:
            worker.zeros((64, 256), torch.float32)
        text = str(raised.value)
        assert text.startswith(
            'the memory budget of tag "kv cache" is 102400 bytes (100 KiB): it has 66560 bytes (65 KiB) live in 2 '
            "allocations, and 65536 bytes (64 KiB) more were requested\n  FP32 (64, 256) at "
        )
        assert text.count("test_memory_snapshot.py:") == 2
        assert raised.value.code == "over_memory_budget"  # type: ignore[attr-defined]
        with pytest.raises(MemoryError, match="kv cache"):
            worker.malloc(64 * KIB)
        worker.free_tensor(small)
        worker.malloc(36 * KIB)
        assert (scope.live, scope.peak, scope.budget, scope.tag) == (100 * KIB, 100 * KIB, 100 * KIB, "kv cache")
    worker.zeros((64, 256), torch.float32)  # outside, the budget says nothing
    assert scope.live == 100 * KIB


def test_a_tag_counts_on_and_remembers_its_high_water_mark(worker: ChipWorker) -> None:
    with worker.memory_budget(None, tag="a"):
        first = worker.zeros((KIB,), torch.int8)
        second = worker.zeros((KIB,), torch.int8)
    worker.free_tensor(first)
    with worker.memory_budget(3 * KIB, tag="a") as scope:
        worker.zeros((KIB,), torch.int8)
        with pytest.raises(MemoryError):
            worker.zeros((2 * KIB,), torch.int8)
    assert worker.memory_report().tags == {"a": (2 * KIB, 2 * KIB)}
    assert "tag a" in str(worker.memory_report())
    worker.free_tensor(second)
    assert repr(scope) == 'MemoryScope(tag="a", live 1 KiB of 3 KiB, peak 2 KiB)'
    worker.close()
    assert (scope.live, scope.peak) == (0, 2 * KIB)


def test_scopes_nest_and_all_their_budgets_hold(worker: ChipWorker) -> None:
    with worker.memory_budget(4 * KIB, tag="model") as outer, worker.memory_budget(2 * KIB, tag="cache") as inner:
        worker.zeros((2 * KIB,), torch.int8)
        with pytest.raises(MemoryError, match='"cache"'):
            worker.zeros((1,), torch.int8)
        with worker.memory_budget(None, tag="cache"), pytest.raises(MemoryError, match='"cache"'):
            worker.zeros((1,), torch.int8)
        with worker.memory_budget(None, tag="other"), pytest.raises(MemoryError, match='"cache"'):
            worker.zeros((1,), torch.int8)
        assert (outer.live, inner.live) == (2 * KIB, 2 * KIB)


def test_a_scope_is_that_of_its_context_and_its_worker(worker: ChipWorker) -> None:
    sizes: list[int] = []
    with worker.memory_budget(KIB, tag="mine") as scope:
        thread = threading.Thread(target=lambda: sizes.append(worker.zeros((2 * KIB,), torch.int8).nbytes))
        thread.start()
        thread.join()
        inherits = threading.Thread(target=contextvars.copy_context().run, args=(worker.zeros, (8,), torch.int8))
        inherits.start()
        inherits.join()
        with ChipWorker(RunConfig(device_id=1)) as other:
            other.zeros((2 * KIB,), torch.int8)
    assert sizes == [2 * KIB]
    assert scope.live == 8


@pytest.mark.parametrize(
    ("nbytes", "tag"), [(0, "a"), (-1, "a"), (True, "a"), (1.5, "a"), (2**63, "a"), (1, ""), (1, 3)]
)
def test_a_budget_is_a_number_of_bytes_and_a_tag_a_name(worker: ChipWorker, nbytes: Any, tag: Any) -> None:
    with (
        pytest.raises(ValueError, match=r"memory budget must be a positive|tag must be a name"),
        worker.memory_budget(nbytes, tag=tag),
    ):
        pass


def test_a_report_is_of_its_moment(worker: ChipWorker) -> None:
    with worker.memory_budget(None, tag="kv"):
        tensor = worker.zeros((4, 4), torch.float32)
    report = worker.memory_report()
    worker.free_tensor(tensor)
    assert (report.live, report.tags) == (64, {"kv": (64, 64)})
    assert worker.memory_report().tags == {"kv": (0, 64)}
