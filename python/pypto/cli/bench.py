"""`pypto bench`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from pypto.cli.session import Request, session
from pypto.cli.usage import EXIT_SLOWER, UsageError
from pypto.runtime import BenchmarkStats, benchmark
from pypto.runtime.bench import Comparison
from pypto.runtime.bench.show import as_group


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
        kernel: The first kernel.
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


def bench_all(first: Request, second: Request | None, plan: Plan, baseline: Path | None) -> Outcome:
    """Measures one kernel, or two, or one against a file."""
    # Read before anything is measured: a file that is no baseline is known at once, not after minutes.
    old = _read(baseline) if baseline is not None else None
    kernel, stats = measure(first, plan)
    if second is not None:
        against, other = measure(second, plan)
    elif old is not None:
        against, other = str(baseline), old
    else:
        return Outcome(kernel, stats)
    return Outcome(kernel, stats, against, other, stats.compare(other))


def _read(baseline: Path) -> BenchmarkStats:
    try:
        return BenchmarkStats.from_json(baseline.read_bytes())
    except ValueError as error:
        raise UsageError(f"--baseline {baseline}: {error}; pypto bench --save writes one") from None


def measure(request: Request, plan: Plan) -> tuple[str, BenchmarkStats]:
    """Measures one kernel."""
    until = "stable" if plan.stable else None
    with session(request) as opened:
        stats = benchmark(
            opened.compiled,
            opened.arguments,
            rounds=plan.rounds,
            warmup=plan.warmup,
            worker=opened.worker,
            until=until,
        )
    return opened.kernel.name, stats
