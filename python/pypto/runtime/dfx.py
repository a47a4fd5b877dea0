"""What `RunConfig`'s switches for diagnostics write about a launch: `dfx_outputs/`, below the program's directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.runtime import dep_gen, dump_args, programs
from pypto.runtime.trace_file import trace

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram
    from pypto.runtime.run_config import RunConfig

RECORDS = "chip_swimlane_records.json"
"""Tasks of the last launch, as data."""

_PHASES = {"device_wall": 2, "sched": 3}
"""Phases of the device, and the level from which on they are in the timeline."""
_EVERYTHING = 4


def wanted(config: RunConfig) -> bool:
    """Whether a launch with these settings writes something. A field may have been assigned anything."""
    asked = (
        config.enable_chip_swimlane, config.enable_dump_args, config.enable_dep_gen, config.enable_scope_stats
    )  # fmt: skip
    return any(isinstance(level, int) and 0 < level <= _EVERYTHING for level in asked)


def launch(compiled: CompiledProgram, config: RunConfig, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
    """Launches with `run`, and writes what `config` asks for.

    * `enable_chip_swimlane`: `merged_swimlane_<time>.json` opens in Perfetto. Level 1 shows the tasks on their cores, 2
      also the device's whole work, 3 also the time from the first task to the last, 4 everything, the host's part
      included. `RECORDS` lists the tasks of the launch as data: core, kernel, name, source line, begin and length in
      nanoseconds, and how many tasks share the two readings of the clock behind these (1 where they are its own).
    * `enable_scope_stats`: `scope_stats/scope_stats.jsonl` has a line for each kernel or scope: tasks, cores, times in
      nanoseconds, and how many tasks shared two readings of the clock at most. Above 1 the times are shares of a group
      that may have had tasks of other kernels; `pypto.runtime.profile` times each step.
    * Both: `name_map_<program>.json`, the names of the kernels by their numbers.
    * `enable_dump_args`: see `dump_args`.
    * `enable_dep_gen`: `deps.json`; see `dep_gen`.

    Files without a time in their name are those of the last launch.
    """
    directory = Path(compiled.output_dir) / "dfx_outputs"
    directory.mkdir(parents=True, exist_ok=True)
    stamp = f"{datetime.now():%Y%m%d_%H%M%S_%f}"
    timed = config.enable_chip_swimlane or config.enable_scope_stats

    def whole() -> Any:
        return _record(compiled, config, directory, stamp, run) if timed else run()

    def with_deps() -> Any:
        return dep_gen.launch(compiled, args, directory / "deps.json", whole) if config.enable_dep_gen else whole()

    if not config.enable_dump_args:
        return with_deps()
    level = int(config.enable_dump_args)
    return dump_args.launch(compiled, args, level, directory / "args_dump" / stamp, with_deps)


def _record(compiled: CompiledProgram, config: RunConfig, directory: Path, stamp: str, run: Callable[[], Any]) -> Any:
    path = directory / f"merged_swimlane_{stamp}.json"
    with trace(path):
        result = run()
    document = json.loads(path.read_text())
    path.unlink()
    events = document["traceEvents"]
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tasks = list(_tasks(events, tracks))
    program = programs.core_program(compiled).name
    level = config.enable_chip_swimlane
    if level:
        (directory / RECORDS).write_text(json.dumps({"level": level, "program": program, "tasks": tasks}, indent=1))
        document["traceEvents"] = [event for event in events if _is_shown(event, tracks, level)]
        path.write_text(json.dumps(document))
    if config.enable_scope_stats:
        folder = directory / "scope_stats"
        folder.mkdir(exist_ok=True)
        lines = [json.dumps(line) + "\n" for line in _statistics(tasks)]
        (folder / "scope_stats.jsonl").write_text("".join(lines))
    kernels = {task["kernel"]: task["name"] for task in sorted(tasks, key=lambda task: task["kernel"])}
    (directory / f"name_map_{program}.json").write_text(json.dumps({"program": program, "kernels": kernels}, indent=1))
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
            "timed_with": arguments.get("timed_with", 1),
        }


def _statistics(tasks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    scopes: dict[int, list[dict[str, Any]]] = {}
    for task in tasks:
        scopes.setdefault(task["kernel"], []).append(task)
    for kernel, group in sorted(scopes.items()):
        times = [task["duration_ns"] for task in group]
        yield {
            "kernel": kernel,
            "scope": group[0]["name"],
            "source": group[0]["source"],
            "tasks": len(group),
            "cores": len({task["core"] for task in group}),
            "total_ns": sum(times),
            "min_ns": min(times),
            "mean_ns": round(sum(times) / len(times)),
            "max_ns": max(times),
            "timed_with": max(task["timed_with"] for task in group),
        }


def _is_shown(event: dict[str, Any], tracks: dict[tuple[int, int], str], level: int) -> bool:
    if level >= _EVERYTHING or event["ph"] == "M":
        return True
    if event["ph"] != "X":
        return False
    on_core = tracks[event["pid"], event["tid"]].startswith("core")
    return on_core or level >= _PHASES.get(event["name"], _EVERYTHING)
