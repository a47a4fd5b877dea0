"""How the Python benches measure: two statements in turn, many times, and the median of the ratios of neighbours."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import timeit
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """One measured figure beside its target. Both are in `unit`; less is better unless `at_least`."""

    name: str
    measured: float
    target: float
    unit: str
    note: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def as_row(self) -> list[str]:
        """The cells of a table."""
        bound = f"{'>=' if self.at_least else '<='} {self.target:g} {self.unit}".rstrip()
        return [self.name, f"{self.measured:.3g} {self.unit}".rstrip(), bound, "yes" if self.met else "NO", self.note]


HEADER = ["question", "measured", "target", "met", "figures"]


def as_text(results: list[Result]) -> str:
    """A table of the results."""
    rows = [HEADER, *(result.as_row() for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def as_json(results: list[Result]) -> str:
    """The results as JSON, for a program that compares runs."""
    return json.dumps([asdict(result) | {"met": result.met} for result in results], indent=2)


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


def quickest(first: str, second: str, names: dict[str, Any], *, calls: int, samples: int = 41) -> Paired:
    """As `paired`, from the processor time of the quickest sample of each.

    For calls of milliseconds on one thread: a busy machine interrupts every one of them, so that neither the clock on
    the wall nor neighbours are a yardstick.
    """
    timers = [timeit.Timer(statement, timer=time.process_time, globals=names) for statement in (first, second)]
    pairs = [tuple(timer.timeit(calls) / calls * 1e9 for timer in timers) for _ in range(samples + 1)][1:]
    first_ns, second_ns = (min(times) for times in zip(*pairs, strict=True))
    return Paired(first_ns=first_ns, second_ns=second_ns, ratio=first_ns / second_ns, least=first_ns / second_ns)


def median_of_processes(script: str, *, samples: int = 7) -> float:
    """Median of the number that `script` prints, each time in a new process; the first one warms the disk."""
    numbers = []
    for _ in range(samples + 1):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        numbers.append(float(done.stdout))
    return statistics.median(numbers[1:])
