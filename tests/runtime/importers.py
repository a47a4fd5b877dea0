"""The rules of those that import timelines: what they drop, count as an error, or show in the wrong place.

Both functions give complaints, one for each rule that is broken; `test_importer_rules.py` breaks each.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

Event = dict[str, Any]

PHASES = {"M": "metadata", "X": "slice", "C": "counter", "s": "begin of a flow", "f": "end of a flow"}
METADATA = {"process_name": "name", "process_sort_index": "sort_index", "thread_name": "name", "thread_sort_index": "sort_index"}  # fmt: skip  # noqa: E501


def nest(slices: Iterable[tuple[float, float]]) -> bool:
    """Whether intervals `(begin, end)` of one thread lie inside each other or apart."""
    open_ends: list[float] = []
    for begin, end in sorted(slices, key=lambda one: (one[0], -one[1])):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            return False
        open_ends.append(end)
    return True


def nanoseconds(micros: float) -> int:
    return round(micros * 1000)


def chrome_complaints(document: dict[str, Any]) -> set[str]:
    """Of a document in Chrome's JSON format, as Perfetto and `chrome://tracing` read it."""
    found: set[str] = set()
    events: list[Event] = document["traceEvents"]
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    names: dict[tuple[int, int | None], str] = {}
    values: dict[tuple[int, str], list[float]] = defaultdict(list)
    for event in events:
        phase = event.get("ph")
        if phase not in PHASES:
            found.add("an event of an unknown phase is dropped")
            continue
        if not isinstance(event.get("name"), str) or not isinstance(event.get("pid"), int):
            found.add("an event has a name and the number of its process")
            continue
        if phase not in "MC" and not isinstance(event.get("tid"), int):
            found.add("what happens in a thread has its number")
            continue
        ts = event.get("ts")
        if phase != "M" and not (isinstance(ts, (int, float)) and math.isfinite(ts) and ts >= 0):
            found.add("a time stamp is a number of microseconds")
            continue
        if phase == "M":
            if list(event["args"]) != [METADATA.get(event["name"])]:
                found.add("metadata has the one argument that its name asks for")
            elif METADATA[event["name"]] == "name":
                names[event["pid"], event.get("tid")] = event["args"]["name"]
        elif phase == "X":
            duration = event.get("dur")
            if not (isinstance(duration, (int, float)) and duration >= 0):
                found.add("a slice has a length, which is not negative")
                continue
            begin = nanoseconds(event["ts"])
            slices[event["pid"], event["tid"]].append((begin, begin + nanoseconds(duration)))
        elif phase == "C":
            if [type(value) for value in event["args"].values()] != [int]:
                found.add("a counter has one number")
            values[event["pid"], event["name"]].append(event["ts"])
    if not all((pid, None) in names for pid in {event.get("pid") for event in events}):
        found.add("each process has a name")
    if not all(track in names for track in slices):
        found.add("each thread has a name")
    if any(count > 1 for count in Counter(tid for _, tid in slices).values()):
        found.add("a thread number in two processes is one thread to the importer")
    if not all(nest(intervals) for intervals in slices.values()):
        found.add("slices that overlap without nesting are dropped")
    if any(times != sorted(times) for times in values.values()):
        found.add("a counter goes forward in time")
    return found | flow_complaints(events, slices)


def flow_complaints(events: list[Event], slices: dict[tuple[int, int], list[tuple[int, int]]]) -> set[str]:
    found: set[str] = set()
    flows = [event for event in events if event.get("ph") in ("s", "f")]
    starts, ends = ([one for one in flows if one["ph"] == phase] for phase in "sf")
    begins = {one.get("id"): one for one in starts}
    if not all(isinstance(one.get("id"), int) for one in flows):
        found.add("a flow has a number")
    elif sorted(one["id"] for one in starts) != sorted(one["id"] for one in ends):
        found.add("a flow has two ends")
    elif any(end["ts"] < begins[end["id"]]["ts"] for end in ends):
        found.add("a flow goes forward in time")
    if len({(one.get("cat"), one["name"]) for one in flows}) > 1:
        found.add("both ends of a flow have one category and one name")
    if not all(one.get("bp") == "e" for one in ends):
        found.add("a flow ends at the slice around its end, not at the next")
    for one in flows:
        around = slices.get((one["pid"], one.get("tid", 0)), [])
        if not any(begin <= nanoseconds(one["ts"]) <= end for begin, end in around):
            found.add("an end of a flow lies in a slice")
    return found


def perfetto_complaints(trace: Any) -> set[str]:
    """Of a `perfetto.protos.Trace`, as Perfetto reads it: events in the order of their time, those of one moment as in
    the file."""
    found: set[str] = set()
    tracks: dict[int, Any] = {}
    for packet in trace.packet:
        if packet.trusted_packet_sequence_id == 0:
            found.add("a packet has the number of its sequence")
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            if descriptor.uuid == 0 or descriptor.uuid in tracks:
                found.add("a track has a number of its own")
            if not descriptor.name:
                found.add("a track has a name")
            if descriptor.HasField("parent_uuid") and descriptor.parent_uuid not in tracks:
                found.add("the group of a track stands before it")
            tracks[descriptor.uuid] = descriptor
        elif not packet.HasField("track_event"):
            found.add("a packet holds a track or an event")
        elif packet.track_event.track_uuid not in tracks:
            found.add("a track stands before its events")
        elif not packet.timestamp:
            found.add("an event has a time")
    stacks: dict[int, int] = Counter()
    out: list[int] = []
    arrived: list[int] = []
    packets = [packet for packet in trace.packet if packet.HasField("track_event")]
    for packet in sorted(packets, key=lambda packet: packet.timestamp):
        event = packet.track_event
        counts = tracks[event.track_uuid].HasField("counter") if event.track_uuid in tracks else False
        if (event.type == event.TYPE_COUNTER) != counts or counts != event.HasField("counter_value"):
            found.add("values stand on tracks of counters, and slices on others")
        elif event.type == event.TYPE_SLICE_BEGIN:
            if not event.name:
                found.add("a slice has a name")
            stacks[event.track_uuid] += 1
            out += event.flow_ids
            arrived += event.terminating_flow_ids
        elif event.type == event.TYPE_SLICE_END:
            stacks[event.track_uuid] -= 1
            if stacks[event.track_uuid] < 0:
                found.add("each end of a slice has its begin")
    if any(depth > 0 for depth in stacks.values()):
        found.add("each begin of a slice has its end")
    if sorted(out) != sorted(arrived):
        found.add("a flow has two ends")
    return found
