"""Each rule of the importers, broken: the check that real timelines pass must say so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from importers import chrome_complaints, perfetto_complaints
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

import pypto
import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig


@pl.jit
def two_tasks(x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]):
    for row in pl.range(0, 32, 16):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="half"):
            out[row : row + 16, :] = pl.mul(x[row : row + 16, :], 0.5)
    return out


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """A timeline with copies, tasks, allocations and a counter, in both formats."""
    directory = tmp_path_factory.mktemp("timeline")
    chrome, perfetto = directory / "run.json", directory / "run.pftrace"
    x, out = torch.ones(32, 64), torch.empty(32, 64)
    with ChipWorker(RunConfig(cores=1)) as worker, pypto.trace(chrome), pypto.trace(perfetto):
        handle = worker.register(two_tasks.compile(x, out))
        resident = worker.from_host(x)
        handle(resident, out)
        worker.free_tensor(resident)
    return chrome.read_text(), perfetto.read_bytes()


def first(document: dict[str, Any], phase: str, name: str = "") -> dict[str, Any]:
    """The first event of a phase, and of a name where one is given."""
    events = document["traceEvents"]
    return next(one for one in events if one["ph"] == phase and name in ("", one["name"]))


def last(document: dict[str, Any], phase: str) -> dict[str, Any]:
    return [one for one in document["traceEvents"] if one["ph"] == phase][-1]


def without(document: dict[str, Any], event: dict[str, Any]) -> None:
    document["traceEvents"].remove(event)


def same_thread_in_both_processes(document: dict[str, Any]) -> None:
    host = first(document, "X", "chip.run")
    for event in document["traceEvents"]:
        if event["ph"] == "M" and event["pid"] == host["pid"] and event.get("tid") == host["tid"]:
            event["tid"] = 2
    for event in document["traceEvents"]:
        if event["ph"] in "Xs" and event["pid"] == host["pid"]:
            event["tid"] = 2
    assert any(one["pid"] != host["pid"] and one.get("tid") == 2 for one in document["traceEvents"])


CHROME: dict[str, Callable[[dict[str, Any]], object]] = {
    "an event of an unknown phase is dropped": lambda d: first(d, "X", "chip.run").update(ph="Q"),
    "an event has a name and the number of its process": lambda d: first(d, "C").pop("name"),
    "what happens in a thread has its number": lambda d: first(d, "X", "chip.arena.free").pop("tid"),
    "a time stamp is a number of microseconds": lambda d: first(d, "C").update(ts="1.0"),
    "metadata has the one argument that its name asks for": lambda d: first(d, "M", "process_sort_index").update(
        args={}
    ),
    "a slice has a length, which is not negative": lambda d: first(d, "X", "chip.arena.free").update(dur=-1.0),
    "a counter has one number": lambda d: first(d, "C")["args"].update(value="0"),
    "each process has a name": lambda d: without(d, first(d, "M", "process_name")),
    "each thread has a name": lambda d: without(d, first(d, "M", "thread_name")),
    "a thread number in two processes is one thread to the importer": same_thread_in_both_processes,
    "slices that overlap without nesting are dropped": lambda d: first(d, "X", "runner_run").update(dur=1e9),
    "a counter goes forward in time": lambda d: last(d, "C").update(ts=0.0),
    "a flow has a number": lambda d: first(d, "s").update(id="1"),
    "a flow has two ends": lambda d: without(d, first(d, "f")),
    "a flow goes forward in time": lambda d: first(d, "f").update(ts=first(d, "s")["ts"] - 1.0),
    "both ends of a flow have one category and one name": lambda d: first(d, "f").update(cat="other"),
    "a flow ends at the slice around its end, not at the next": lambda d: first(d, "f").pop("bp"),
    "an end of a flow lies in a slice": lambda d: first(d, "s").update(ts=0.0),
}
ALSO = {
    # What one of these breaks stands in the way of others.
    "an event of an unknown phase is dropped": {"an end of a flow lies in a slice"},
    "a flow goes forward in time": {"an end of a flow lies in a slice"},
}


def test_a_timeline_breaks_no_rule(texts: tuple[str, bytes]) -> None:
    assert chrome_complaints(json.loads(texts[0])) == set()
    assert perfetto_complaints(perfetto_trace_pb2.Trace.FromString(texts[1])) == set()


@pytest.mark.parametrize("rule", CHROME)
def test_a_broken_rule_of_chrome_s_format_is_noticed(texts: tuple[str, bytes], rule: str) -> None:
    document = json.loads(texts[0])
    CHROME[rule](document)
    found = chrome_complaints(document)
    assert rule in found
    assert found <= {rule} | ALSO.get(rule, set()), "and no other"


def descriptor(trace: Any, index: int = 0) -> Any:
    return [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")][index]


def event(trace: Any, kind: str) -> Any:
    """The first packet with such an event."""
    return next(
        packet
        for packet in trace.packet
        if packet.HasField("track_event") and packet.track_event.type == getattr(packet.track_event, f"TYPE_{kind}")
    )


PERFETTO: dict[str, Callable[[Any], object]] = {
    "a packet has the number of its sequence": lambda t: event(t, "COUNTER").ClearField("trusted_packet_sequence_id"),
    "a track has a number of its own": lambda t: t.packet.insert(0, t.packet[0]),
    "a track has a name": lambda t: descriptor(t).ClearField("name"),
    "the group of a track stands before it": lambda t: setattr(descriptor(t, -1), "parent_uuid", 12345),
    "a packet holds a track or an event": lambda t: t.packet.add(trusted_packet_sequence_id=1),
    "a track stands before its events": lambda t: setattr(event(t, "SLICE_END").track_event, "track_uuid", 12345),
    "an event has a time": lambda t: event(t, "COUNTER").ClearField("timestamp"),
    "values stand on tracks of counters, and slices on others": lambda t: event(t, "COUNTER").track_event.ClearField(
        "counter_value"
    ),
    "a slice has a name": lambda t: event(t, "SLICE_BEGIN").track_event.ClearField("name"),
    "each end of a slice has its begin": lambda t: t.packet.remove(event(t, "SLICE_BEGIN")),
    "each begin of a slice has its end": lambda t: t.packet.remove(event(t, "SLICE_END")),
    "a flow has two ends": lambda t: next(
        p for p in t.packet if p.track_event.terminating_flow_ids
    ).track_event.ClearField("terminating_flow_ids"),
}


@pytest.mark.parametrize("rule", PERFETTO)
def test_a_broken_rule_of_perfetto_s_format_is_noticed(texts: tuple[str, bytes], rule: str) -> None:
    trace = perfetto_trace_pb2.Trace.FromString(texts[1])
    PERFETTO[rule](trace)
    assert rule in perfetto_complaints(trace)


def test_every_rule_is_broken_once() -> None:
    source = Path(__file__).with_name("importers.py").read_text()
    rules = {line.split('"')[1] for line in source.splitlines() if "found.add(" in line}
    assert rules == {*CHROME, *PERFETTO}
