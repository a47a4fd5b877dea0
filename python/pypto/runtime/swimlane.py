"""`RunConfig(enable_chip_swimlane=...)`: the timeline of one launch, beside the program's other artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.runtime import programs
from pypto.runtime.trace_file import trace

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram
    from pypto.runtime.run_config import RunConfig

RECORDS = "chip_swimlane_records.json"
"""Tasks of the last launch, as data."""

_PHASES = {"device_wall": 2, "sched": 3}
"""Phases of the device, and the level from which on they are in the timeline."""
_EVERYTHING = 4


def launch(compiled: CompiledProgram, config: RunConfig, run: Callable[[], Any]) -> Any:
    """Launches with `run` while a timeline is recorded, and writes `dfx_outputs/` below the program's directory.

    `merged_swimlane_<time>.json` opens in Perfetto. Level 1 shows the tasks on their cores, 2 also the device's whole
    work, 3 also the time from the first task to the last, 4 everything, the host's part included. `RECORDS` lists the
    tasks of the launch as data: core, kernel, name, source line, begin and length in nanoseconds.
    """
    directory = Path(compiled.output_dir) / "dfx_outputs"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"merged_swimlane_{datetime.now():%Y%m%d_%H%M%S_%f}.json"
    with trace(path):
        result = run()
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    level = config.enable_chip_swimlane
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    records = {"level": level, "program": programs.core_program(compiled).name, "tasks": list(_tasks(events, tracks))}
    (directory / RECORDS).write_text(json.dumps(records, indent=1))
    document["traceEvents"] = [event for event in events if _is_shown(event, tracks, level)]
    path.write_text(json.dumps(document))
    return result


def _tasks(events: list[dict[str, Any]], tracks: dict[tuple[int, int], str]) -> Iterator[dict[str, Any]]:
    slices = [event for event in events if event["ph"] == "X" and "kernel" in event["args"]]
    for event in sorted(slices, key=lambda event: float(event["ts"])):
        arguments = event["args"]
        yield {
            "core": int(tracks[event["pid"], event["tid"]].split()[1]),
            "kernel": arguments["kernel"],
            "name": event["name"],
            "source": arguments.get("source", ""),
            "launch": arguments["launch"],
            "begin_ns": round(event["ts"] * 1000),
            "duration_ns": round(event["dur"] * 1000),
        }


def _is_shown(event: dict[str, Any], tracks: dict[tuple[int, int], str], level: int) -> bool:
    if level >= _EVERYTHING or event["ph"] == "M":
        return True
    if event["ph"] != "X":
        return False
    on_core = tracks[event["pid"], event["tid"]].startswith("core")
    return on_core or level >= _PHASES.get(event["name"], _EVERYTHING)
