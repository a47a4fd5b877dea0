"""`BenchmarkStats`: what `benchmark` measured, and how it is shown."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from pypto import failures
from pypto.runtime.spans import TraceInvocation, TraceSpan


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

    @property
    def samples(self) -> list[float]:
        """`device_wall_us`."""
        return self.device_wall_us

    @property
    def all_zero_device(self) -> bool:
        """Whether there are samples and the device reported no time in any of them."""
        return bool(self.device_wall_us) and not any(self.device_wall_us)

    @property
    def device_wall_us_min(self) -> float:
        """Smallest device time; 0.0 without samples, as all of these."""
        return min(self.device_wall_us, default=0.0)

    @property
    def device_wall_us_median(self) -> float:
        """Median device time."""
        return _median(self.device_wall_us)

    @property
    def device_wall_us_mean(self) -> float:
        """Mean device time."""
        return _mean(self.device_wall_us)

    @property
    def device_wall_us_max(self) -> float:
        """Largest device time."""
        return max(self.device_wall_us, default=0.0)

    @property
    def device_wall_us_stdev(self) -> float:
        """Sample standard deviation of the device time; 0.0 for one sample."""
        return _stdev(self.device_wall_us)

    device_us_min = device_wall_us_min
    device_us_median = device_wall_us_median
    device_us_mean = device_wall_us_mean
    device_us_max = device_wall_us_max
    device_us_stdev = device_wall_us_stdev

    @property
    def host_wall_us_min(self) -> float:
        """Smallest host time."""
        return min(self.host_wall_us, default=0.0)

    @property
    def host_wall_us_median(self) -> float:
        """Median host time."""
        return _median(self.host_wall_us)

    @property
    def host_wall_us_mean(self) -> float:
        """Mean host time."""
        return _mean(self.host_wall_us)

    @property
    def host_wall_us_max(self) -> float:
        """Largest host time."""
        return max(self.host_wall_us, default=0.0)

    @property
    def host_wall_us_stdev(self) -> float:
        """Sample standard deviation of the host time; 0.0 for one sample."""
        return _stdev(self.host_wall_us)

    def per_round(self, metric: str = "device") -> list[float]:
        """One value for each round.

        Args:
            metric: `device`, `host`, `effective` (orchestration and tasks), or `union` (several devices only).

        Raises:
            ValueError: The metric does not exist.
        """
        if metric == "device":
            return list(self.device_wall_us)
        if metric == "host":
            return list(self.host_wall_us)
        if metric == "effective":
            return [invocation.effective_us for invocation in self.invocations]
        if metric == "union":
            return []
        raise failures.UNKNOWN_METRIC(f"unknown metric {metric!r}; expected device, host, effective or union")

    def dispatch_groups(self) -> dict[tuple[int, int], list[TraceInvocation]]:
        """Launches of each round by process and slot, for programs on several devices; empty on one."""
        return {}

    def dispatch_tasks(self) -> dict[tuple[int, int], str]:
        """Names of tasks by process and slot, for programs on several devices; empty on one."""
        return {}

    def per_dispatch(self, metric: str = "device") -> dict[tuple[int, int], list[float]]:
        """One value for each round by process and slot, for programs on several devices; empty on one.

        Raises:
            ValueError: The metric is none of `device`, `host` and `effective`.
        """
        _check_metric(metric)
        return {}

    def per_rank(self, metric: str = "device") -> dict[int, list[float]]:
        """One value for each round by process, for programs on several devices; empty on one.

        Raises:
            ValueError: The metric is none of `device`, `host` and `effective`.
        """
        _check_metric(metric)
        return {}

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
        header = f"launch[{index}] (pid={one.pid} inv={one.inv} hid={one.hid} task={one.task_name}):"
        return f"{header}\n{one.format_tree(us=us)}"

    def print_tree(self, launch: int | None = None, *, us: bool = True, file: TextIO | None = None) -> None:
        """Prints `format_tree`."""
        print(self.format_tree(launch, us=us), file=file or sys.stdout)

    def mean_invocation(self, *, pid: int | None = None, slot: int | None = None) -> TraceInvocation | None:
        """A launch whose spans have the mean begin and length of all measured launches; None where there are none.

        Args:
            pid: Selects a process of a program on several devices; nothing matches on one.
            slot: Selects one of its launches; nothing matches on one.
        """
        if not self.invocations or pid is not None or slot is not None:
            return None
        first = self.invocations[0]
        spans = [_mean_span(group) for group in self._spans_by_name().values()]
        return TraceInvocation(first.pid, -1, first.hid, spans, first.task_name)

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
        from pypto.runtime.span_tree import duration

        mean = self.mean_invocation(pid=pid, slot=slot)
        if mean is None:
            return "no span tree captured"
        groups = self._spans_by_name()

        def columns(span: TraceSpan) -> Iterable[str]:
            lengths = [one.dur for one in groups[span.name]]
            yield duration(span.dur, us=us)
            if spread in ("stdev", "both"):
                yield f"±{duration(_stdev(lengths), us=us)}"
            if spread in ("minmax", "both"):
                yield f"[{duration(min(lengths), us=us)}..{duration(max(lengths), us=us)}]"

        shown = {"stdev": " ±stdev", "minmax": " [min..max]", "both": " ±stdev [min..max]"}.get(spread, "")
        count = len(self.invocations)
        header = f"mean of {count} launches (warmup {self.warmup} excluded); each node: mean{shown}:"
        return f"{header}\n{mean.format_tree(us=us, value_fn=columns)}"

    def print_mean_tree(
        self,
        *,
        us: bool = True,
        spread: str = "stdev",
        pid: int | None = None,
        slot: int | None = None,
        file: TextIO | None = None,
    ) -> None:
        """Prints `format_mean_tree`."""
        print(self.format_mean_tree(us=us, spread=spread, pid=pid, slot=slot), file=file or sys.stdout)

    def _spans_by_name(self) -> dict[str, list[TraceSpan]]:
        groups: dict[str, list[TraceSpan]] = {}
        for invocation in self.invocations:
            for name, span in invocation.by_name().items():
                groups.setdefault(name, []).append(span)
        return groups

    def __str__(self) -> str:
        """One line: the device time and the host time."""
        if not self.device_wall_us:
            return f"BenchmarkStats(rounds={self.rounds}: no samples)"
        head = f"BenchmarkStats(rounds={self.rounds}, warmup={self.warmup})"
        host = _summary("host_wall_us", self.host_wall_us)
        if self.all_zero_device:
            return f"{head}: device_wall_us all 0, the device reports no time (use host_wall_us); {host}"
        return f"{head}: {_summary('device_wall_us', self.device_wall_us)}; {host}"


def _check_metric(metric: str) -> None:
    if metric not in ("device", "host", "effective"):
        raise failures.UNKNOWN_METRIC(f"unknown metric {metric!r}; expected device, host or effective")


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values)) if values else 0.0


def _mean(values: Sequence[float]) -> float:
    return float(statistics.fmean(values)) if values else 0.0


def _stdev(values: Sequence[float]) -> float:
    return float(statistics.stdev(values)) if len(values) > 1 else 0.0


def _summary(name: str, values: Sequence[float]) -> str:
    shown: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
        ("min", min),
        ("median", _median),
        ("mean", _mean),
        ("max", max),
        ("stdev", _stdev),
    )
    return f"{name} " + " ".join(f"{label}={function(values):.1f}" for label, function in shown)


def _mean_span(spans: list[TraceSpan]) -> TraceSpan:
    first = spans[0]
    begin, length = (round(_mean([getattr(span, name) for span in spans])) for name in ("ts", "dur"))
    return TraceSpan(first.pid, first.tid, -1, first.hid, first.depth, first.name, begin, length, first.attrs)
