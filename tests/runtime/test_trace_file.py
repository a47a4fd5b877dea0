"""`pypto.trace`: files that importers take without a complaint, and what stands in them."""

import json
import re
import threading
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from importers import Event, chrome_complaints, nanoseconds, perfetto_complaints
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

import pypto
import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, RunConfig

ROWS, COLS, BLOCK = 512, 1024, 16
NBYTES = ROWS * COLS * 4
STRACE = re.compile(
    r"\[mono_ns=\d+\]\[T0x[0-9a-f]+\]\[TIMING\] \w+: (?:\[CLOCK_ANCHOR\] v=1 pid=\d+ mono_ns=\d+ wall_ns=\d+"
    r"|\[STRACE\] v=1 pid=\d+ tid=\d+ inv=\d+ hid=[0-9a-f]+ depth=\d+ name=[\w.%]+ ts=\d+ dur=\d+(?: \w+=\S+)*)"
)


@pl.jit
def halves(
    x: pl.Tensor[[ROWS, COLS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]]
) -> pl.Tensor[[ROWS, COLS], pl.FP32]:
    for row in pl.parallel(0, ROWS, BLOCK):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="half"):
            out[row : row + BLOCK, :] = pl.mul(x[row : row + BLOCK, :], 0.5)
    return out


@pytest.fixture(scope="module")
def program() -> ir.CompiledProgram:
    x = torch.empty(ROWS, COLS)
    return halves.compile(x, x.clone())


def events_of(path: Path) -> list[Event]:
    document = json.loads(path.read_text())
    assert document["displayTimeUnit"] == "ns"
    events: list[Event] = document["traceEvents"]
    return events


def check_rules_of_the_importers(events: list[Event]) -> None:
    assert chrome_complaints({"traceEvents": events}) == set()


def counted(events: list[Event], counter: str) -> list[Event]:
    """The values of a counter, in order; of the newest worker for which it is not 0 all the time.

    Workers of other tests may still be open: theirs are in every recording too.
    """
    found: dict[int, list[Event]] = defaultdict(list)
    for event in sorted((event for event in events if event["ph"] == "C"), key=lambda event: event["ts"]):
        name, _, worker = event["name"].rpartition(" of worker ")
        if name == counter:
            found[int(worker)].append(event)
    return found[max(worker for worker, values in found.items() if any(e["args"]["value"] for e in values))]


def values_of(events: list[Event], counter: str) -> list[int]:
    """What a counter shows, in order."""
    return [event["args"]["value"] for event in counted(events, counter)]


def tracks_of(events: list[Event]) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


@pytest.mark.parametrize("cores", [1, 2])
def test_a_timeline_shows_launches_tasks_copies_and_memory(
    program: ir.CompiledProgram, tmp_path: Path, cores: int
) -> None:
    path = tmp_path / "run.json"
    out = torch.empty(ROWS, COLS)
    with ChipWorker(RunConfig(cores=cores)) as worker:
        handle = worker.register(program)
        with pypto.trace(path) as trace:
            assert repr(trace) == f"pypto.trace({str(path)!r})"
            x = worker.alloc_tensor((ROWS, COLS), torch.float32, init=torch.ones(ROWS, COLS))
            for _ in range(3):
                handle(x, out)
            worker.free_tensor(x)
    events = events_of(path)
    check_rules_of_the_importers(events)
    tracks = tracks_of(events)
    slices = [event for event in events if event["ph"] == "X"]
    places = {event["name"]: tracks[event["pid"], event["tid"]] for event in slices}
    assert places["chip.run"] == "main thread"
    assert places["chip.copy.h2d"] == places["d2h.out"] == "copies"
    assert places["chip.arena.alloc"] == places["chip.arena.reserve"] == places["chip.arena.free"] == "arena"
    assert [e["args"]["bytes"] for e in slices if e["name"] == "chip.arena.alloc"] == [NBYTES]
    tasks = [event for event in slices if event["name"] == "half"]
    assert len(tasks) == 3 * ROWS // BLOCK
    assert {tracks[task["pid"], task["tid"]] for task in tasks} <= {f"core {core}" for core in range(cores)}
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "with pl.at(" in text)
    assert {task["args"]["source"] for task in tasks} == {f"{__file__}:{line}"}
    assert {task["args"]["program"] for task in tasks} == {"halves"}
    assert [e["args"]["bytes"] for e in slices if e["name"] == "chip.copy.h2d"] == [NBYTES]
    assert values_of(events, "live_bytes") == [0, NBYTES, 0], "from the begin of the recording on"
    assert len([e for e in events if e["ph"] == "s"]) == len(tasks), "an arrow leads to each task"


def test_what_lies_on_the_device_before_a_recording_is_in_it_from_its_first_moment(
    program: ir.CompiledProgram, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    with ChipWorker() as worker:
        handle = worker.register(program)
        resident = [worker.zeros((ROWS, COLS), torch.float32) for _ in range(2)]
        with pypto.trace(path):
            handle(*resident)
    events = events_of(path)
    check_rules_of_the_importers(events)
    assert values_of(events, "live_bytes") == [2 * NBYTES]
    (first,) = (event["ts"] for event in counted(events, "live_bytes"))
    assert first <= min(e["ts"] for e in events if e["ph"] == "X")


def test_the_end_of_a_worker_ends_its_live_bytes(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with pypto.trace(path), ChipWorker() as worker:
        worker.zeros((ROWS, COLS), torch.float32)
    assert values_of(events_of(path), "live_bytes") == [0, NBYTES, 0]


def test_a_timeline_counts_the_launches_that_are_queued(program: ir.CompiledProgram, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    x, out = torch.ones(ROWS, COLS), torch.empty(ROWS, COLS)
    with ChipWorker(RunConfig(queue_depth=8)) as worker:
        handle = worker.register(program)
        with pypto.trace(path):
            handle(x, out)
            for future in [handle.submit(x, out) for _ in range(5)]:
                future.result()
            worker.synchronize()
    events = events_of(path)
    check_rules_of_the_importers(events)
    values = values_of(events, "queue_depth")
    assert len(values) == 10, "each launch comes and goes, that of the call is in no queue"
    assert all(abs(later - earlier) == 1 for earlier, later in pairwise(values))
    assert (values[0], values[-1]) == (1, 0)
    assert max(values) <= 5


def test_launches_of_several_threads_and_workers_do_not_mix(program: ir.CompiledProgram, tmp_path: Path) -> None:
    path = tmp_path / "run.json"

    def launch() -> None:
        out = torch.empty(ROWS, COLS)
        with ChipWorker(RunConfig(cores=2)) as worker:
            handle = worker.register(program)
            for _ in range(20):
                handle(out, torch.empty_like(out))

    with pypto.trace(path):
        threads = [threading.Thread(target=launch) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = events_of(path)
    check_rules_of_the_importers(events)
    runs = [event for event in events if event["ph"] == "X" and event["name"] == "chip.run"]
    assert sorted(Counter(event["tid"] for event in runs).values()) == [20, 20, 20]
    names = list(tracks_of(events).values())
    assert len(names) == len(set(names)), "no two tracks look the same"


def test_all_formats_tell_the_same_story(program: ir.CompiledProgram, tmp_path: Path, worker: ChipWorker) -> None:
    chrome, perfetto, strace = (tmp_path / name for name in ("a.json", "a.pftrace", "a.strace"))
    handle = worker.register(program)
    x, out = torch.empty(ROWS, COLS), torch.empty(ROWS, COLS)
    with pypto.trace(chrome), pypto.trace(perfetto), pypto.trace(strace):
        for _ in range(5):
            handle(x, out)
    events = events_of(chrome)
    tracks = tracks_of(events)
    expected = {
        (tracks[e["pid"], e["tid"]], e["name"], nanoseconds(e["ts"]), nanoseconds(e["dur"]), e["args"].get("launch"))
        for e in events
        if e["ph"] == "X"
    }
    assert slices_of(perfetto) == expected
    lines = strace.read_text().splitlines()
    assert [line for line in lines if not STRACE.fullmatch(line)] == []
    assert sum("[STRACE]" in line for line in lines) == len(expected)


def slices_of(path: Path) -> set[tuple[str, str, int, int, int | None]]:
    """The slices of a file in Perfetto's format, read with Perfetto's own schema."""
    document = perfetto_trace_pb2.Trace.FromString(path.read_bytes())
    assert perfetto_complaints(document) == set()
    names: dict[int, str] = {}
    stacks: dict[int, list[Any]] = defaultdict(list)
    found = set()
    packets = [packet for packet in document.packet if packet.HasField("track_event")]
    for packet in document.packet:
        if packet.HasField("track_descriptor"):
            names[packet.track_descriptor.uuid] = packet.track_descriptor.name
    for packet in sorted(packets, key=lambda packet: packet.timestamp):
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            stacks[event.track_uuid].append(packet)
        elif event.type == event.TYPE_SLICE_END:
            begin = stacks[event.track_uuid].pop()
            annotations = begin.track_event.debug_annotations
            launch = next((one.uint_value for one in annotations if one.name == "launch"), None)
            name = begin.track_event.name
            found.add((names[event.track_uuid], name, begin.timestamp, packet.timestamp - begin.timestamp, launch))
    assert any(packet.track_event.flow_ids for packet in packets)
    return found


@pytest.mark.parametrize("name", ["run.svg", "run", "run.json.gz"])
def test_an_unknown_ending_is_refused_with_those_that_are_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"no trace format belongs to the ending of .*; use one of \.json,") as raised:
        pypto.trace(tmp_path / name)
    assert raised.value.code == "trace_format"
    assert not (tmp_path / name).exists()


def test_a_file_that_cannot_be_written_is_an_os_error_with_its_name(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "run.json"
    with pytest.raises(FileNotFoundError, match=r"missing/run\.json") as raised:
        pypto.trace(missing)
    assert raised.value.filename == str(missing)
    full = tmp_path / "full.json"
    full.symlink_to("/dev/full")
    trace = pypto.trace(full)
    with pytest.raises(OSError, match=r"full\.json' could not be written: No space left"):
        trace.close()


def test_a_trace_is_whole_after_an_error_and_closes_once(program: ir.CompiledProgram, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    out = torch.empty(ROWS, COLS)
    with ChipWorker() as worker:
        handle = worker.register(program)
        with pytest.raises(ZeroDivisionError), pypto.trace(path) as trace:  # noqa: PT012
            handle(out, torch.empty_like(out))
            raise ZeroDivisionError
        handle(out, torch.empty_like(out))
        trace.close()
    runs = [event for event in events_of(path) if event["name"] == "chip.run"]
    assert len(runs) == 1, "what happens after the end is not in it"


def test_a_trace_in_which_nothing_happens_is_a_document(tmp_path: Path) -> None:
    with ChipWorker(), pypto.trace(tmp_path / "run.json"):
        pass
    events = events_of(tmp_path / "run.json")
    check_rules_of_the_importers(events)
    assert {event["ph"] for event in events} == {"M", "C"}


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("way", ["implicit", "handle", "run"])
def test_a_swimlane_is_written_beside_the_program(
    program: ir.CompiledProgram, worker: ChipWorker, level: int, way: str
) -> None:
    directory = Path(program.output_dir) / "dfx_outputs"
    before = set(directory.glob("merged_swimlane_*.json"))
    x, out = torch.ones(ROWS, COLS), torch.empty(ROWS, COLS)
    config = RunConfig(enable_chip_swimlane=level)
    call = {"implicit": program, "handle": worker.register(program), "run": partial(worker.run, program)}[way]
    assert call(x, out, config=config) is None
    assert torch.equal(out, x / 2)
    (path,) = set(directory.glob("merged_swimlane_*.json")) - before
    events = events_of(path)
    check_rules_of_the_importers(events)
    names = {event["name"] for event in events if event["ph"] == "X"}
    assert {"half"} <= names
    assert ("device_wall" in names, "sched" in names, "chip.run" in names) == (level >= 2, level >= 3, level >= 4)
    records = json.loads((directory / "chip_swimlane_records.json").read_text())
    assert (records["level"], records["program"], len(records["tasks"])) == (level, "halves", ROWS // BLOCK)
    task = records["tasks"][0]
    assert (task["name"], task["kernel"]) == ("half", 0)
    assert task["duration_ns"] > 0
    assert 1 <= task["timed_with"] <= len(records["tasks"])


def test_a_swimlane_of_a_return_style_call_gives_its_result(program: ir.CompiledProgram) -> None:
    x = torch.ones(ROWS, COLS)
    assert torch.equal(program(x, config=RunConfig(enable_chip_swimlane=1)), x / 2)
