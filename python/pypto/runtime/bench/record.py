"""Benchmarks as plain data, to be kept and compared later."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto.runtime.advice import Advice
from pypto.runtime.spans import TraceInvocation, TraceSpan

if TYPE_CHECKING:
    from pypto.runtime.bench.stats import BenchmarkStats

FORMAT = 1
"""Rises when an older reader would misunderstand a record."""

_PLAIN = (
    "device_wall_us",
    "host_wall_us",
    "rounds",
    "warmup",
    "h2d_bytes",
    "d2h_bytes",
    "dropped_spans",
    "register_us",
    "stable",
    "fallback_flattened",
    "unstable_dispatch_slots",
)


def to_dict(stats: BenchmarkStats) -> dict[str, Any]:
    """The benchmark as JSON types: its fields, and under `summary` what is computed from them, for other readers."""
    return {
        "pypto_benchmark": FORMAT,
        **{name: getattr(stats, name) for name in _PLAIN},
        "advice": [asdict(one) for one in stats.advice],
        "cold": _invocation_to_dict(stats.cold) if stats.cold is not None else None,
        "invocations": [_invocation_to_dict(one) for one in stats.invocations],
        "rounds_dispatches": [
            [[pid, [_invocation_to_dict(one) for one in launches]] for pid, launches in ranks.items()]
            for ranks in stats.rounds_dispatches
        ],
        "summary": {
            "host_wall_us": asdict(stats.host),
            "device_wall_us": asdict(stats.device),
            "transfers": [asdict(one) for one in stats.transfers],
            "verdict": asdict(stats.verdict()),
        },
    }


def from_dict(record: Any) -> BenchmarkStats:
    """The benchmark that `to_dict` wrote.

    Raises:
        ValueError: It is no such record, or one of a newer version.
    """
    from pypto.runtime.bench.stats import BenchmarkStats

    if not isinstance(record, dict) or not isinstance(record.get("pypto_benchmark"), int):
        raise failures.BAD_BENCHMARK_RECORD("this is no benchmark: the key 'pypto_benchmark' is missing")
    if record["pypto_benchmark"] > FORMAT:
        raise failures.BAD_BENCHMARK_RECORD(
            f"the benchmark was written in format {record['pypto_benchmark']}, this version reads up to {FORMAT}; "
            f"measure again or upgrade"
        )
    try:
        return BenchmarkStats(
            **{name: record[name] for name in _PLAIN},
            # Records were written before there was advice.
            advice=[Advice(**one) for one in record.get("advice", [])],
            cold=_invocation_from_dict(record["cold"]) if record["cold"] is not None else None,
            invocations=[_invocation_from_dict(one) for one in record["invocations"]],
            rounds_dispatches=[
                {pid: [_invocation_from_dict(one) for one in launches] for pid, launches in ranks}
                for ranks in record.get("rounds_dispatches", [])
            ],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise failures.BAD_BENCHMARK_RECORD(f"the benchmark record is damaged: {error!r}") from error


def from_json(text: str | bytes) -> BenchmarkStats:
    """The benchmark that `to_json` wrote.

    Raises:
        ValueError: The text is no JSON or no benchmark.
    """
    try:
        record = json.loads(text)
    except ValueError as error:
        raise failures.BAD_BENCHMARK_RECORD(f"the benchmark record is no JSON: {error}") from error
    return from_dict(record)


def _invocation_to_dict(one: TraceInvocation) -> dict[str, Any]:
    """One launch; pid, launch and program are those of all its spans and are written once."""
    return {
        "pid": one.pid,
        "inv": one.inv,
        "hid": one.hid,
        "task": one.task_name,
        "spans": [[span.tid, span.depth, span.name, span.ts, span.dur, span.attrs] for span in one.spans],
    }


def _invocation_from_dict(record: dict[str, Any]) -> TraceInvocation:
    pid, inv, hid = record["pid"], record["inv"], record["hid"]
    spans = [
        TraceSpan(pid, tid, inv, hid, depth, name, ts, dur, attrs)
        for tid, depth, name, ts, dur, attrs in record["spans"]
    ]
    return TraceInvocation(pid, inv, hid, spans, record["task"])
