"""What a report holds, as JSON types: the results as `bench --json` has them, and what is drawn beside them."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import asdict
from datetime import datetime, timezone
from itertools import zip_longest
from typing import Any

from pypto.cli.bench import Outcome
from pypto.cli.profile import profile_kernel
from pypto.cli.report.recording import record
from pypto.cli.session import Request
from pypto.runtime import BenchmarkStats, machine, notices
from pypto.runtime.profiling.show import explanation
from pypto.runtime.span_tree import walk

_PROFILED = 20
"""Launches that are profiled."""

FORMAT = 1
"""Rises when a reader of the embedded data would misunderstand it."""


def content(outcome: Outcome, requests: list[Request]) -> dict[str, Any]:
    """Everything that the page shows."""
    measured = [(outcome.kernel, outcome.stats)]
    if outcome.other is not None:
        measured.append((str(outcome.against), outcome.other))
    recorded = [record(request) for request in requests]
    profiled = [_profile(request) for request in requests]
    found: dict[str, Any] = {
        "pypto_report": FORMAT,
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "note": f"a2a3sim is a simulated device: {notices.SIMULATED}",
        "results": [
            {**_result(name, stats), "recording": recording, "profile": profile}
            for (name, stats), recording, profile in zip_longest(measured, recorded, profiled)
        ],
    }
    if outcome.comparison is not None:
        found["comparison"] = {
            name: {**asdict(ratio), "word": ratio.word}
            for name, ratio in (("host", outcome.comparison.host), ("device", outcome.comparison.device))
        }
    return found


def _result(name: str, stats: BenchmarkStats) -> dict[str, Any]:
    record = stats.to_dict()
    # Spans of hundreds of launches make megabytes; the page shows their mean, and a recording of a few.
    del record["invocations"], record["cold"]
    cold = stats.cold
    return {
        "name": name,
        "stats": record,
        "cold": None if cold is None else {"host_wall_us": cold.host_wall_us, "device_wall_us": cold.device_wall_us},
        "verdict": str(stats.verdict()),
        "split": _split(stats),
        "tree": _tree(stats),
    }


def _profile(request: Request) -> dict[str, Any]:
    """Where the device time of a kernel goes, and what the numbers mean."""
    profile = profile_kernel(request, _PROFILED)
    return {**profile.to_dict(), "notes": explanation(profile)}


def _split(stats: BenchmarkStats) -> list[dict[str, Any]]:
    """A launch in parts by their medians, the device's first."""
    if not stats.invocations:
        return []
    device = {"part": "the device's work", "us": stats.device.median}
    return [device, *({"part": part, "us": us} for part, us in stats.verdict().host_costs.items())]


def _tree(stats: BenchmarkStats) -> list[dict[str, Any]]:
    """The spans of a launch, parents first. Of those with one name, as tasks have, the first stands for all."""
    mean = stats.mean_invocation()
    if mean is None:
        return []
    groups = stats.spans_by_name()
    counts = [Counter(span.name for span in launch.spans) for launch in stats.invocations]
    rows = []
    for ends, leaf, span in walk(mean.spans):
        lengths = [one.dur_us for one in groups[span.name]]
        most = max(count[span.name] for count in counts)
        rows.append(
            {
                "level": len(ends) - 1,
                "name": leaf if most == 1 else f"{leaf}, the first of {most}",
                "device": span.is_device,
                "median_us": statistics.median(lengths),
                "mean_us": span.dur_us,
                "stdev_us": statistics.stdev(lengths) if len(lengths) > 1 else 0.0,
                "min_us": min(lengths),
                "max_us": max(lengths),
            }
        )
    return rows
