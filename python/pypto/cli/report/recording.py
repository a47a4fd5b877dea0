"""A few launches on one clock, host and device: the timeline and the memory of a report."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from pypto.cli.session import Request, Session, session
from pypto.runtime.trace_file import trace

_LAUNCHES = 4
"""The first, which is cold, and three as they go on."""

_SLICES = 20_000
"""Slices that a page holds at most; two megabytes, and more than a browser draws smoothly at once."""

_SIZES = ("live", "peak", "staging", "scratch", "packed", "committed", "reserved", "capacity")


def record(request: Request) -> dict[str, Any]:
    """Opens a worker, allocates, launches and frees, all recorded."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "recording.json")
        with trace(path), session(request) as opened:
            handle = opened.worker.register(opened.compiled)
            for _ in range(_LAUNCHES):
                handle(*opened.arguments)
            memory = opened.worker.memory_stats()
            arguments = _arguments(opened)
            own = f" of worker {opened.worker._ready('record', 0).id}"
        events = json.loads(path.read_text())["traceEvents"]
        events = [event for event in events if event["ph"] != "C" or event["name"].endswith(own)]
    return {"arguments": arguments, "memory": {name: memory[name] for name in _SIZES}, **timeline(events)}


def timeline(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Events of Chrome's format as tracks with slices in levels, and counters; microseconds since the first of them."""
    tracks: dict[tuple[int, int], dict[str, Any]] = {}
    groups: dict[int, str] = {}
    for event in events:
        if event["name"] == "process_name":
            groups[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            tracks[event["pid"], event["tid"]] = {"name": event["args"]["name"], "slices": []}
    timed = [event for event in events if event["ph"] in ("X", "C")]
    origin = min((event["ts"] for event in timed), default=0.0)
    slices = sorted((event for event in timed if event["ph"] == "X"), key=lambda one: (one["ts"], -one["dur"]))
    counters: dict[str, list[tuple[float, int]]] = {}
    for event in sorted((event for event in timed if event["ph"] == "C"), key=lambda one: one["ts"]):
        counters.setdefault(event["name"], []).append((round(event["ts"] - origin, 3), event["args"]["value"]))
    shown = slices[-_SLICES:]
    for event, level in _levels(shown):
        where = tracks[event["pid"], event["tid"]]["slices"]
        where.append((level, event["name"], round(event["ts"] - origin, 3), event["dur"], event.get("args", {})))
    return {
        "tracks": [{"group": groups[pid], **track} for (pid, _), track in sorted(tracks.items()) if track["slices"]],
        "launches": [(round(one["ts"] - origin, 3), one["dur"]) for one in slices if one["name"] == "chip.run"],
        "counters": counters,
        "left_out": len(slices) - len(shown),
        "shown_from": round(shown[0]["ts"] - origin, 3) if shown else 0.0,
    }


def _levels(slices: Iterable[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], int]]:
    """Each slice with the number of slices of its track around it."""
    open_until: dict[tuple[int, int], list[float]] = {}
    for event in slices:
        around = open_until.setdefault((event["pid"], event["tid"]), [])
        # Ends are sums of rounded numbers: a nanosecond is no overlap.
        while around and around[-1] <= event["ts"] + 5e-4:
            around.pop()
        yield event, len(around)
        around.append(event["ts"] + event["dur"])


def _arguments(opened: Session) -> list[dict[str, Any]]:
    found = []
    for parameter, argument in zip(opened.kernel.parameters, opened.arguments, strict=True):
        value = opened.host[parameter.name]
        tensor = isinstance(value, torch.Tensor)
        found.append(
            {
                "name": parameter.name,
                "direction": parameter.direction,
                "what": f"{'x'.join(map(str, value.shape))} {str(value.dtype)[6:]}" if tensor else str(value),
                "where": "" if not tensor else "on the host" if argument is value else "resident",
            }
        )
    return found
