"""The past of device memory as a timeline that PyTorch's memory visualiser and Perfetto show."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Frame = dict[str, Any]
Event = dict[str, Any]
_Piece = tuple[int, int, int, str, "tuple[str, int] | None", "str | None"]
"""Offset, bytes taken, bytes asked for, description, the user's line, tag."""

_BASE = 1 << 48
"""Shown address of the first byte of device memory. The visualiser takes address 0 for none."""


def snapshot(timeline: dict[str, Any], worker: str) -> dict[str, Any]:
    """The snapshot as PyTorch structures it (`segments`, `device_traces`), with `traceEvents` for Perfetto beside.

    Args:
        timeline: What the extension recorded.
        worker: What to call the worker.
    """
    now = time.monotonic_ns()
    events = [(now - age, taken, piece) for age, taken, piece in timeline["events"]]
    total = timeline["touched"]
    trace = [_segment_alloc(total, events[0][0] if events else now)]
    for at, taken, piece in events:
        actions = ("alloc",) if taken else ("free_requested", "free_completed")
        trace += [_event(action, at, piece) for action in actions]
    live = sum(size for _, size, *_ in timeline["live"])
    return {
        "segments": [_segment(total, live, timeline["live"])] if total else [],
        "device_traces": [trace],
        "allocator_settings": {},
        "pypto": {"worker": worker, "lost_events": timeline["lost"], "clock": "CLOCK_MONOTONIC"},
        "traceEvents": list(_perfetto(events, timeline["live"], worker)),
    }


def save(data: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes a snapshot: as a pickle where the name ends so, else as JSON."""
    target = Path(path)
    if target.suffix in (".pickle", ".pkl"):
        # What the page of the visualiser reads; it knows plain containers only, and no Perfetto.
        target.write_bytes(pickle.dumps({key: value for key, value in data.items() if key != "traceEvents"}, 2))
    else:
        target.write_text(json.dumps(data))


def _frames(piece: _Piece) -> list[Frame]:
    _, _, _, what, site, tag = piece
    frames = [{"name": what.split(", allocated at ")[0], "filename": "device memory", "line": 0}]
    if site is not None:
        frames.append({"name": f"[{tag}]" if tag else Path(site[0]).stem, "filename": site[0], "line": site[1]})
    return frames


def _event(action: str, at: int, piece: _Piece) -> Event:
    offset, size, *_ = piece
    addr = _BASE + offset
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": at // 1000, "frames": _frames(piece)}


def _segment_alloc(total: int, at: int) -> Event:
    """Device memory as one segment, there before everything else."""
    segment = {"action": "segment_alloc", "addr": _BASE, "size": total, "stream": 0, "frames": []}
    return {**segment, "time_us": at // 1000}


def _segment(total: int, live: int, pieces: list[_Piece]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    end = 0
    for piece in [*pieces, None]:
        begin = total if piece is None else piece[0]
        if begin > end:
            gap = begin - end
            blocks.append(
                {"address": _BASE + end, "size": gap, "requested_size": gap, "state": "inactive", "frames": []}
            )
        if piece is not None:
            offset, size, requested, *_ = piece
            block = {"address": _BASE + offset, "size": size, "requested_size": requested}
            blocks.append({**block, "state": "active_allocated", "frames": _frames(piece)})
            end = offset + size
    return {
        "device": 0,
        "address": _BASE,
        "total_size": total,
        "allocated_size": live,
        "active_size": live,
        "requested_size": sum(piece[2] for piece in pieces),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _perfetto(events: list[tuple[int, bool, _Piece]], live: list[_Piece], worker: str) -> Iterator[Event]:
    """A counter for all memory and one for each tag, and an instant with the line for each event."""
    pid = os.getpid()
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"device memory of {worker}"}}
    # Backwards from what is live now: what lies before the oldest event is not known.
    totals: dict[str, int] = {"device memory": 0}
    for piece in live:
        _count(totals, piece, 1)
    points = []
    for at, taken, piece in reversed(events):
        points.append((at, taken, piece, {name: totals.get(name, 0) for name in _counters(piece)}))
        _count(totals, piece, -1 if taken else 1)
    for at, taken, piece, counts in reversed(points):
        ts = at / 1000
        for name, count in counts.items():
            yield {"ph": "C", "name": name, "ts": ts, "pid": pid, "tid": 0, "args": {"bytes": count}}
        _, size, _, what, _, tag = piece
        args = {"bytes": size, "what": what, **({"tag": tag} if tag else {})}
        name = "take" if taken else "free"
        yield {"ph": "i", "s": "p", "name": name, "ts": ts, "pid": pid, "tid": 0, "args": args}


def _counters(piece: _Piece) -> list[str]:
    tag = piece[5]
    return ["device memory", f"tag {tag}"] if tag else ["device memory"]


def _count(totals: dict[str, int], piece: _Piece, sign: int) -> None:
    for name in _counters(piece):
        totals[name] = totals.get(name, 0) + sign * piece[1]
