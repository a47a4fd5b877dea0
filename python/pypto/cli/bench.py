"""`pypto bench`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from pypto.cli.load import Kernel
from pypto.cli.session import Request, Session, session
from pypto.cli.usage import EXIT_SLOWER, UsageError
from pypto.runtime import BenchmarkStats, benchmark
from pypto.runtime.bench import Comparison
from pypto.runtime.bench.show import as_group

_TURNS = 10
"""Turns of each kernel where two are compared."""


@dataclass(frozen=True)
class Plan:
    """How often to launch."""

    rounds: int
    warmup: int
    stable: bool


@dataclass(frozen=True)
class Outcome:
    """What was measured, and against what.

    Attributes:
        kernel: The first kernel; with its file where the other one has the same name.
        stats: Its results.
        against: What it is compared with: the other kernel, or the file of a baseline.
        other: The other kernel's results, or the baseline.
        comparison: The first against the other.
    """

    kernel: str
    stats: BenchmarkStats
    against: str | None = None
    other: BenchmarkStats | None = None
    comparison: Comparison | None = None

    def exit_code(self, fail_above: float | None) -> int:
        """3 where the host wall is slower than the bound allows, beyond what chance explains; else 0."""
        if fail_above is None or self.comparison is None:
            return 0
        ratio = self.comparison.host
        return EXIT_SLOWER if ratio.value > fail_above and ratio.low > 1 else 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        found: dict[str, Any] = {"kernel": self.kernel, "stats": self.stats.to_dict()}
        if self.comparison is not None and self.other is not None:
            found["against"] = self.against
            found["other"] = self.other.to_dict()
            found["comparison"] = asdict(self.comparison)
        return found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The tables, and the comparison."""
        yield as_group(self.stats, self.kernel)
        if self.comparison is not None and self.other is not None:
            yield ""
            yield as_group(self.other, str(self.against))
            yield ""
            yield f"{self.kernel} against {self.against}:"
            yield str(self.comparison)


def bench_all(requests: list[Request], plan: Plan, baseline: Path | None) -> Outcome:
    """Measures one kernel, or two, or one against a file."""
    # Read before anything is measured: a file that is no baseline is known at once, not after minutes.
    old = _read(baseline) if baseline is not None else None
    first, *second = requests
    if second:
        with session(first) as one, session(second[0], one.worker) as rival:
            stats, other = alternately(one, rival, plan)
            kernel, against = labels(one.kernel, rival.kernel)
        return Outcome(kernel, stats, against, other, stats.compare(other))
    with session(first) as one:
        kernel, stats = one.kernel.name, measure(one, plan)
    if old is None:
        return Outcome(kernel, stats)
    return Outcome(kernel, stats, str(baseline), old, stats.compare(old))


def labels(one: Kernel, other: Kernel) -> tuple[str, str]:
    """Names that tell two kernels apart: with their files where the names do not, then by their places."""
    if one.name != other.name:
        return one.name, other.name
    first, second = (f"{kernel.module.__file__}:{kernel.name}" for kernel in (one, other))
    return (first, second) if first != second else (f"{one.name} (first)", f"{other.name} (second)")


def _read(baseline: Path) -> BenchmarkStats:
    try:
        return BenchmarkStats.from_json(baseline.read_bytes())
    except ValueError as error:
        raise UsageError(f"--baseline {baseline}: {error}; pypto bench --save writes one") from None


def alternately(one: Session, other: Session, plan: Plan) -> tuple[BenchmarkStats, BenchmarkStats]:
    """Measures two kernels in turn, a few rounds each.

    One after the other, a machine that slows down meanwhile makes the second the slower one: the same kernel twice came
    out as 2 % faster and as 23 % slower, with intervals that said so. What rests by itself is not cut in pieces.
    """
    if plan.stable:
        return measure(one, plan), measure(other, plan)
    ours, theirs = [], []
    for number in range(turns := min(_TURNS, plan.rounds)):
        rounds = plan.rounds * (number + 1) // turns - plan.rounds * number // turns
        turn = replace(plan, rounds=rounds, warmup=plan.warmup if number == 0 else min(plan.warmup, 1))
        ours.append(measure(one, turn))
        theirs.append(measure(other, turn))
    return _together(ours), _together(theirs)


def _together(parts: list[BenchmarkStats]) -> BenchmarkStats:
    """Benchmarks of one kernel as one; the first has the cold launch and the warm-up."""
    return replace(
        parts[0],
        rounds=sum(part.rounds for part in parts),
        device_wall_us=[us for part in parts for us in part.device_wall_us],
        host_wall_us=[us for part in parts for us in part.host_wall_us],
        invocations=[one for part in parts for one in part.invocations],
        dropped_spans=sum(part.dropped_spans for part in parts),
        advice=[
            replace(
                advice,
                times=sum(same.times for same in found),
                nbytes=sum(same.nbytes for same in found),
                host_share=sum(same.host_share for same in found) / len(found),
            )
            for advice in parts[0].advice
            if (found := [same for part in parts for same in part.advice if same.parameter == advice.parameter])
        ],
    )


def measure(opened: Session, plan: Plan) -> BenchmarkStats:
    """Measures one kernel."""
    return benchmark(
        opened.compiled,
        opened.arguments,
        rounds=plan.rounds,
        warmup=plan.warmup,
        worker=opened.worker,
        until="stable" if plan.stable else None,
    )
