"""`BenchmarkStats`: what `benchmark` measured, and how it is shown."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from pypto import failures
from pypto.runtime.advice import Advice
from pypto.runtime.bench import dispatches
from pypto.runtime.bench.comparison import Comparison, compare
from pypto.runtime.bench.mean import mean_of, mean_tree, spans_of
from pypto.runtime.bench.record import from_dict, from_json, to_dict
from pypto.runtime.bench.summary import Summary
from pypto.runtime.bench.verdict import Verdict, judge
from pypto.runtime.spans import D2H, H2D, TraceInvocation, TraceSpan

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Transfer:
    """What one launch copies for one parameter.

    Attributes:
        parameter: Its name.
        direction: `h2d` or `d2h`.
        nbytes: Bytes.
        us: Median time in microseconds.
    """

    parameter: str
    direction: str
    nbytes: int
    us: float


class Statistic:
    """One number of a series' summary, read as an attribute of the benchmark; 0.0 without samples."""

    def __init__(self, series: str, name: str) -> None:
        self._series = series
        self._name = name
        self.__doc__ = f"`{name}` of `{series}`, in microseconds."

    def __get__(self, stats: BenchmarkStats | None, owner: type[BenchmarkStats]) -> float:
        """The number; on the class, 0.0."""
        values: Sequence[float] = getattr(stats, self._series) if stats is not None else ()
        return float(getattr(Summary.of(values), self._name))


@dataclass
class BenchmarkStats:
    """What `benchmark` measured. Times are microseconds, one value for each round.

    Attributes:
        device_wall_us: The device's own work; copies are not in it.
        host_wall_us: The whole launch: binding the arguments, copies, the device's work.
        rounds: Measured launches.
        warmup: Launches before them that are not counted.
        invocations: The spans of each measured launch.
        rounds_dispatches: Launches of each round by process, for programs on several devices.
        fallback_flattened: Rounds could not be told apart, for programs on several devices.
        unstable_dispatch_slots: Rounds differ in what they launch, for programs on several devices.
        h2d_bytes: Bytes that one launch copied to the device.
        d2h_bytes: Bytes that one launch copied from the device.
        dropped_spans: Spans that were lost because a buffer was full; times are right, trees have gaps.
        advice: What could stay on the device, of the host arguments that were measured; the most expensive first.
        cold: The very first launch, in which memory is touched and caches fill; not among the samples unless there
            was no warm-up.
        register_us: Time to register the program before the first launch; near 0 where it was registered already.
        stable: Whether the medians came to rest before the time was over, for `until="stable"`; None otherwise.
    """

    device_wall_us: list[float] = field(default_factory=list)
    host_wall_us: list[float] = field(default_factory=list)
    rounds: int = 0
    warmup: int = 0
    invocations: list[TraceInvocation] = field(default_factory=list)
    rounds_dispatches: list[dict[int, list[TraceInvocation]]] = field(default_factory=list)
    fallback_flattened: bool = False
    unstable_dispatch_slots: bool = False
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    dropped_spans: int = 0
    advice: list[Advice] = field(default_factory=list)
    cold: TraceInvocation | None = None
    register_us: float = 0.0
    stable: bool | None = None

    @property
    def samples(self) -> list[float]:
        """`device_wall_us`."""
        return self.device_wall_us

    @property
    def all_zero_device(self) -> bool:
        """Whether there are samples and the device reported no time in any of them."""
        return bool(self.device_wall_us) and not any(self.device_wall_us)

    @property
    def host(self) -> Summary:
        """All statistics of the host wall: percentiles, the interval of the median, outliers."""
        return Summary.of(self.host_wall_us)

    @property
    def device(self) -> Summary:
        """All statistics of the device wall."""
        return Summary.of(self.device_wall_us)

    device_wall_us_min = Statistic("device_wall_us", "min")
    device_wall_us_median = Statistic("device_wall_us", "median")
    device_wall_us_mean = Statistic("device_wall_us", "mean")
    device_wall_us_max = Statistic("device_wall_us", "max")
    device_wall_us_stdev = Statistic("device_wall_us", "stdev")
    host_wall_us_min = Statistic("host_wall_us", "min")
    host_wall_us_median = Statistic("host_wall_us", "median")
    host_wall_us_mean = Statistic("host_wall_us", "mean")
    host_wall_us_max = Statistic("host_wall_us", "max")
    host_wall_us_stdev = Statistic("host_wall_us", "stdev")
    device_us_min = device_wall_us_min
    device_us_median = device_wall_us_median
    device_us_mean = device_wall_us_mean
    device_us_max = device_wall_us_max
    device_us_stdev = device_wall_us_stdev

    @property
    def transfers(self) -> list[Transfer]:
        """What each launch copied for each parameter, to the device first, in the order of the parameters."""
        groups = self.spans_by_name()
        return [
            Transfer(
                parameter=name[len(parent) + 1 :],
                direction=direction,
                nbytes=int(spans[0].attribute("bytes") or 0),
                us=float(statistics.median(span.dur_us for span in spans)),
            )
            for parent, direction in ((H2D, "h2d"), (D2H, "d2h"))
            for name, spans in groups.items()
            if name.startswith(f"{parent}.")
        ]

    def verdict(self) -> Verdict:
        """Is it the host or the device, what does the host spend its time on, and what to do about it."""
        return judge(self)

    def compare(self, baseline: BenchmarkStats) -> Comparison:
        """This benchmark against another: ratios of the medians below 1 where this one is faster, with intervals.

        Raises:
            TypeError: `baseline` is no benchmark.
        """
        if not isinstance(baseline, BenchmarkStats):
            raise failures.NOT_A_BENCHMARK(f"baseline must be a BenchmarkStats, got {type(baseline).__name__}")
        return compare(self, baseline)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types; `from_dict` reads it back."""
        return to_dict(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON text; `from_json` reads it back.

        Args:
            indent: Spaces of a level; one line if not given.
        """
        return json.dumps(to_dict(self), indent=indent)

    @staticmethod
    def from_dict(record: dict[str, Any]) -> BenchmarkStats:
        """The benchmark that `to_dict` wrote as `record`.

        Raises:
            ValueError: It is no such record, or one of a newer version.
        """
        return from_dict(record)

    @staticmethod
    def from_json(text: str | bytes) -> BenchmarkStats:
        """The benchmark that `to_json` wrote as `text`.

        Raises:
            ValueError: The text is no JSON or no benchmark.
        """
        return from_json(text)

    def __rich__(self) -> Group:
        """The table that `rich.print` shows."""
        from pypto.runtime.bench.show import as_group

        return as_group(self)

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        from pypto.runtime.bench.show import as_html

        return as_html(self)

    def per_round(self, metric: str = "device") -> list[float]:
        """One value for each round.

        Args:
            metric: `device`, `host`, `effective` (orchestration and tasks; of several devices the slowest), or `union`
                (from the first begin on a host to the last end; several devices only).

        Raises:
            ValueError: The metric does not exist.
        """
        if metric == "device":
            return list(self.device_wall_us)
        if metric == "host":
            return list(self.host_wall_us)
        if metric == "effective" and dispatches.has_rounds(self):
            return dispatches.slowest_rank(self, metric)
        if metric == "effective":
            return [invocation.effective_us for invocation in self.invocations]
        if metric == "union":
            return dispatches.unions(self)
        raise failures.UNKNOWN_METRIC(f"unknown metric {metric!r}; expected device, host, effective or union")

    def dispatch_groups(self) -> dict[tuple[int, int], list[TraceInvocation]]:
        """Launches of each round by process and slot, for programs on several devices; empty on one."""
        return dispatches.groups(self)

    def dispatch_tasks(self) -> dict[tuple[int, int], str]:
        """Names of programs by process and slot, for programs on several devices; empty on one."""
        return {key: launches[0].task_name for key, launches in dispatches.groups(self).items()}

    def per_dispatch(self, metric: str = "device") -> dict[tuple[int, int], list[float]]:
        """One value for each round by process and slot, for programs on several devices; empty on one.

        Args:
            metric: `device`, `host` or `effective`.

        Raises:
            ValueError: The metric is none of `device`, `host` and `effective`.
        """
        of = dispatches.measure(metric)
        return {key: [of(launch) for launch in launches] for key, launches in dispatches.groups(self).items()}

    def per_rank(self, metric: str = "device") -> dict[int, list[float]]:
        """One sum for each round by process, for programs on several devices; empty on one.

        Args:
            metric: `device`, `host` or `effective`.

        Raises:
            ValueError: The metric is none of `device`, `host` and `effective`.
        """
        return dispatches.per_rank(self, metric)

    def format_tree(self, launch: int | None = None, *, us: bool = True) -> str:
        """The spans of one measured launch as a tree.

        Args:
            launch: Which one; the last if not given.
            us: Microseconds instead of nanoseconds.

        Raises:
            IndexError: There is no such launch.
        """
        if not self.invocations:
            return "no span tree captured"
        index = len(self.invocations) - 1 if launch is None else launch
        if not 0 <= index < len(self.invocations):
            raise failures.NO_SUCH_LAUNCH(
                f"launch {index} is out of range: {len(self.invocations)} launches were captured"
            )
        one = self.invocations[index]
        task = f" task={one.task_name}" if one.task_name != one.hid else ""
        header = f"launch[{index}] (pid={one.pid} inv={one.inv} hid={one.hid}{dispatches.place_of(self, one)}{task}):"
        return f"{header}\n{one.format_tree(us=us)}"

    def print_tree(self, launch: int | None = None, *, us: bool = True, file: TextIO | None = None) -> None:
        """Prints `format_tree`.

        Args:
            launch: As in `format_tree`.
            us: As in `format_tree`.
            file: Where to; standard output if not given.

        Raises:
            IndexError: There is no such launch.
        """
        print(self.format_tree(launch, us=us), file=file or sys.stdout)

    def mean_invocation(self, *, pid: int | None = None, slot: int | None = None) -> TraceInvocation | None:
        """A launch whose spans have the mean begin and length of all measured launches; None where there are none.

        Args:
            pid: Selects a process of a program on several devices; nothing matches on one.
            slot: Selects one of its launches; nothing matches on one.

        Raises:
            ValueError: Several launches of a round match.
        """
        if dispatches.has_rounds(self):
            found = dispatches.matching(self, pid, slot)
            if len(found) > 1:
                raise failures.SEVERAL_DISPATCHES(
                    f"{len(found)} launches of a round match pid={pid} slot={slot}: {', '.join(map(str, found))}; "
                    f"choose one with pid= and slot="
                )
            return mean_of(next(iter(found.values()), []))
        return None if pid is not None or slot is not None else mean_of(self.invocations)

    def spans_by_name(self) -> dict[str, list[TraceSpan]]:
        """The spans of all measured launches by their names: of each launch the first with the name."""
        return spans_of(self.invocations)

    def format_mean_tree(
        self, *, us: bool = True, spread: str = "stdev", pid: int | None = None, slot: int | None = None
    ) -> str:
        """The mean of all measured launches as a tree.

        Args:
            us: Microseconds instead of nanoseconds.
            spread: What to show beside the mean: `stdev`, `minmax`, `both` or `none`.
            pid: As in `mean_invocation`.
            slot: As in `mean_invocation`.
        """
        if dispatches.has_rounds(self):
            if self.unstable_dispatch_slots:
                return "no mean: slots do not launch the same program in each round"
            trees = [
                f"dispatch pid={rank} slot={place} task={launches[0].task_name} - "
                + mean_tree(launches, self.warmup, us=us, spread=spread)
                for (rank, place), launches in dispatches.matching(self, pid, slot).items()
            ]
            return "\n\n".join(trees) or f"no launch matches pid={pid} slot={slot}"
        if not self.invocations or pid is not None or slot is not None:
            return "no span tree captured"
        return mean_tree(self.invocations, self.warmup, us=us, spread=spread)

    def print_mean_tree(
        self,
        *,
        us: bool = True,
        spread: str = "stdev",
        pid: int | None = None,
        slot: int | None = None,
        file: TextIO | None = None,
    ) -> None:
        """Prints `format_mean_tree`.

        Args:
            us: As in `format_mean_tree`.
            spread: As in `format_mean_tree`.
            pid: As in `mean_invocation`.
            slot: As in `mean_invocation`.
            file: Where to; standard output if not given.
        """
        print(self.format_mean_tree(us=us, spread=spread, pid=pid, slot=slot), file=file or sys.stdout)

    def __str__(self) -> str:
        """The device time and the host time in one line; several devices have more to say."""
        if not self.device_wall_us:
            return f"BenchmarkStats(rounds={self.rounds}: no samples)"
        head = f"BenchmarkStats(rounds={self.rounds}, warmup={self.warmup})"
        ranks, line = dispatches.summary(self)
        host = _summary("host_wall_us", self.host)
        if self.all_zero_device:
            return f"{head}: device_wall_us all 0, the device reports no time (use host_wall_us); {host}"
        return f"{head}: {_summary('device_wall_us', self.device)}{ranks}; {host}{line}"


def _summary(name: str, summary: Summary) -> str:
    shown = ("min", "median", "mean", "max", "stdev")
    return f"{name} " + " ".join(f"{label}={getattr(summary, label):.1f}" for label in shown)
