"""Rounds in which several processes launch: what `BenchmarkStats` makes of them.

A round holds, for each process (rank), the launches that it made, in order; their places are slots. One chip has no
such rounds, so all of this is empty there. Who has them, a `BenchmarkStats` that is made by hand or read from a record,
gets what PyPTO computes.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING

from pypto import failures
from pypto.runtime.spans import TraceInvocation

if TYPE_CHECKING:
    from pypto.runtime.bench.stats import BenchmarkStats

Dispatch = tuple[int, int]
"""Process and slot."""

_METRICS: dict[str, Callable[[TraceInvocation], float]] = {
    "device": lambda launch: launch.device_wall_us,
    "host": lambda launch: launch.host_wall_us,
    "effective": lambda launch: launch.effective_us,
}

_SHOWN = 8
"""Launches of a round whose means one line shows."""


def has_rounds(stats: BenchmarkStats) -> bool:
    """Whether rounds are told apart by process."""
    return bool(stats.rounds_dispatches) and not stats.fallback_flattened


def groups(stats: BenchmarkStats) -> dict[Dispatch, list[TraceInvocation]]:
    """The launches of all rounds by process and slot; empty where a slot does not always launch the same program."""
    if not has_rounds(stats) or stats.unstable_dispatch_slots:
        return {}
    found: dict[Dispatch, list[TraceInvocation]] = {}
    for ranks in stats.rounds_dispatches:
        for pid, launches in ranks.items():
            for slot, launch in enumerate(launches):
                found.setdefault((pid, slot), []).append(launch)
    return dict(sorted(found.items()))


def matching(stats: BenchmarkStats, pid: int | None, slot: int | None) -> dict[Dispatch, list[TraceInvocation]]:
    """Those of one process, of one slot, or both."""
    return {
        key: launches
        for key, launches in groups(stats).items()
        if (pid is None or key[0] == pid) and (slot is None or key[1] == slot)
    }


def measure(metric: str) -> Callable[[TraceInvocation], float]:
    """What a metric says of a launch.

    Raises:
        ValueError: It is none of `device`, `host` and `effective`.
    """
    found = _METRICS.get(metric)
    if found is None:
        raise failures.UNKNOWN_METRIC(f"unknown metric {metric!r}; expected device, host or effective")
    return found


def per_rank(stats: BenchmarkStats, metric: str) -> dict[int, list[float]]:
    """The sum of each process in each round."""
    of = measure(metric)
    if not has_rounds(stats):
        return {}
    pids = sorted({pid for ranks in stats.rounds_dispatches for pid in ranks})
    return {pid: [sum(map(of, ranks.get(pid, ()))) for ranks in stats.rounds_dispatches] for pid in pids}


def slowest_rank(stats: BenchmarkStats, metric: str) -> list[float]:
    """The largest sum of a process in each round."""
    return [max(sums) for sums in zip(*per_rank(stats, metric).values(), strict=True)]


def unions(stats: BenchmarkStats) -> list[float]:
    """From the first begin on a host to the last end in each round, in us; 0.0 where no launch has a host span."""
    if not has_rounds(stats):
        return []
    rounds = []
    for ranks in stats.rounds_dispatches:
        roots = [root for launches in ranks.values() for launch in launches if (root := launch.root()) is not None]
        ends = max((root.ts + root.dur for root in roots), default=0)
        rounds.append((ends - min((root.ts for root in roots), default=0)) / 1000)
    return rounds


def place_of(stats: BenchmarkStats, launch: TraceInvocation) -> str:
    """Round and slot of a launch, for the header of its tree."""
    for number, ranks in enumerate(stats.rounds_dispatches):
        for slot, one in enumerate(ranks.get(launch.pid, ())):
            if one is launch:
                return f" round={number} slot={slot}"
    return ""


def summary(stats: BenchmarkStats) -> tuple[str, str]:
    """What the line of the statistics says besides, and the line behind it if there is one."""
    if stats.fallback_flattened:
        return " [L3: rounds cannot be told apart, launches of all ranks together]", ""
    ranks = per_rank(stats, "device")
    if not ranks:
        return "", ""
    mean = fmean(unions(stats))
    text = f" [L3: {len(ranks)} ranks, per-round max across ranks; host-union mean={mean:.1f}us]"
    if all(len(launches) <= 1 for rank in stats.rounds_dispatches for launches in rank.values()):
        return text, ""
    named = [
        f"(pid={pid},slot={slot},task={launches[0].task_name})={fmean(map(_METRICS['device'], launches)):.1f}"
        for (pid, slot), launches in groups(stats).items()
    ]
    more = f" ... +{len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return text, f"\n  per-dispatch device mean us: {' '.join(named[:_SHOWN])}{more}" if named else ""
