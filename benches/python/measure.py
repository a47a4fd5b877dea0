"""How the Python benches measure: statements in turn, many times, so that a slow moment of the machine falls on all."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import timeit
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """One measured figure beside its target. Both are in `unit`; less is better unless `at_least`."""

    name: str
    measured: float | None
    """None where it was skipped; the note says why."""
    target: float | None
    """None for a figure that is shown for itself."""
    unit: str
    note: str = ""
    at_least: bool = False
    threads: int = 1
    figures: dict[str, float] = field(default_factory=dict)
    """Milliseconds of each contestant."""

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.target is None or self.measured is None:
            return None
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def as_row(self) -> list[str]:
        """The cells of a table."""
        bound = "" if self.target is None else f"{'>=' if self.at_least else '<='} {self.target:g}"
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        times = ", ".join(f"{name} {milliseconds:.4g}" for name, milliseconds in self.figures.items())
        measured = "skipped" if self.measured is None else f"{self.measured:.3g} {self.unit}".rstrip()
        note = "; ".join(part for part in (times and f"ms: {times}", self.note) if part)
        return [self.name, str(self.threads), measured, bound, verdict, note]


HEADER = ["question", "threads", "measured", "target", "", "figures"]


def as_text(results: list[Result]) -> str:
    """A table of the results."""
    rows = [HEADER, *(result.as_row() for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) + len(HEADER[-1])), *lines[1:]])


def as_json(results: list[Result], about: dict[str, Any]) -> str:
    """The results as JSON, with what was measured on."""
    rows = [asdict(result) | {"met": result.met} for result in results]
    return json.dumps(about | {"results": rows}, indent=2)


IDLE = 0.02
"""Seconds until the threads of a contestant have parked. They spin after their work, some for milliseconds, and would
take a core from the next one: a product of 1024^3 on two threads took 1.35 times as long after one of torch."""


class Contest:
    """Statements that do the same work, measured in turn.

    Args:
        threads: How many threads the statements may use. On one the time of the process is taken, which does not count
            what others on the machine do meanwhile; on several the time on the wall.
        seconds: How long all rounds together may take; there are three at least.
    """

    def __init__(self, threads: int, seconds: float) -> None:
        self.threads, self.seconds = threads, seconds
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.timers: dict[str, timeit.Timer] = {}

    def add(self, name: str, statement: str, names: dict[str, Any]) -> None:
        """A contestant. A string, so that no wrapper's call is measured with it."""
        self.timers[name] = timeit.Timer(statement, timer=self.clock, globals=names)

    def times(self) -> dict[str, float]:
        """Milliseconds of one execution of each: of the quickest of the rounds."""
        calls = {}
        for name, timer in self.timers.items():
            timer.timeit(3)  # packs weights, compiles, starts threads
            calls[name] = max(1, int(2e-3 / max(timer.timeit(1), 1e-7)))
        best = dict.fromkeys(self.timers, float("inf"))
        end = time.perf_counter() + self.seconds
        rounds = 0
        while rounds < 3 or time.perf_counter() < end:
            for name, timer in self.timers.items():
                if self.threads > 1:
                    time.sleep(IDLE)
                # Once for nothing: it wakes its own threads, and the caches are as it leaves them itself. Right after
                # another contestant, layer norm of 4096x4096 took 5.9 ms instead of 5.2.
                timer.timeit(1)
                best[name] = min(best[name], timer.timeit(calls[name]) / calls[name] * 1e3)
            rounds += 1
        return best


def against(
    name: str, target: float | None, times: dict[str, float], peers: list[str] | None = None, **more: Any
) -> Result:
    """The time of `pypto` by that of the quickest of the peers, by default of all others."""
    of = {peer: times[peer] for peer in (peers or times) if peer in times and peer != "pypto"}
    if not of:
        return Result(name, None, target, "", note="no peer of this row is installed", figures=times, **more)
    quickest = min(of, key=of.__getitem__)
    return Result(name, times["pypto"] / of[quickest], target, f"of {quickest}", figures=times, **more)


@dataclass(frozen=True)
class Paired:
    """Times of one call each in ns, and `first / second`: the median over neighbouring samples, and of the quickest."""

    first_ns: float
    second_ns: float
    ratio: float
    least: float


def paired(first: str, second: str, names: dict[str, Any], *, calls: int, samples: int = 41) -> Paired:
    """Times two statements in turn, so that a slow moment of the machine falls on both.

    Args:
        first: Statement, with free names from `names`. A string, so that no wrapper's call is measured with it.
        second: The statement to compare with.
        names: What the statements refer to.
        calls: Executions per sample; enough that a sample takes about a millisecond.
        samples: Number of neighbouring pairs. The first pair warms up and is not counted.
    """
    timers = [timeit.Timer(statement, globals=names) for statement in (first, second)]
    pairs = [tuple(timer.timeit(calls) / calls * 1e9 for timer in timers) for _ in range(samples + 1)][1:]
    return Paired(
        first_ns=statistics.median(pair[0] for pair in pairs),
        second_ns=statistics.median(pair[1] for pair in pairs),
        ratio=statistics.median(pair[0] / pair[1] for pair in pairs),
        least=min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs),
    )


def median_of_processes(script: str, *, samples: int = 7) -> float:
    """Median of the number that `script` prints, each time in a new process; the first one warms the disk."""
    numbers = []
    for _ in range(samples + 1):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        numbers.append(float(done.stdout))
    return statistics.median(numbers[1:])
