"""What the numbers mean, in words: is it the host or the device, and what does the host spend its time on?"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.runtime import advice
from pypto.runtime.spans import D2H, DEVICE_WALL, H2D, RUN

if TYPE_CHECKING:
    from pypto.runtime.bench.stats import BenchmarkStats

_BIND = "chip.run.bind"
_DEVICE_BOUND = 0.7
_HOST_BOUND = 0.5
_ALIKE = 0.9

_COSTS = {
    H2D: "copying arguments to the device",
    D2H: "copying results to the host",
    _BIND: "binding the arguments",
}
_REST = "entering and leaving the launch"


@dataclass(frozen=True)
class Verdict:
    """Where the time of a launch goes.

    Attributes:
        bound: `host`, `device`, `balanced`, or `unknown` without samples.
        device_share: The device's share of the host wall, 0 to 1, by medians.
        host_costs: What the host does besides waiting for the device, in us of a launch by medians, the largest first.
            Of costs within a tenth of the largest that one leads which a launch has first.
        advice: What to change, in the words of `Advice`; empty where nothing stands out.
    """

    bound: str
    device_share: float
    host_costs: dict[str, float]
    advice: str

    def __str__(self) -> str:
        """One to three sentences; advice has a last line of its own, with the cure."""
        if self.bound == "unknown":
            return "nothing was measured"
        share = f"the device works for {self.device_share:.0%} of a launch"
        head = {
            "device": f"device-bound: {share}",
            "host": f"host-bound: {share}, the host wall is {1 / max(self.device_share, 1e-9):.1f} times the device's",
            "balanced": f"balanced: {share}",
        }[self.bound]
        name, cost = next(iter(self.host_costs.items()), ("", 0.0))
        largest = f"; the largest host cost is {name}, {cost:,.1f} us" if name else ""
        return f"{head}{largest}." + (f" {self.advice}" if self.advice else "")


def judge(stats: BenchmarkStats) -> Verdict:
    """The verdict on a benchmark."""
    host, device = stats.host.median, stats.device.median
    if not host:
        return Verdict("unknown", 0.0, {}, "")
    share = min(1.0, device / host)
    bound = "device" if share >= _DEVICE_BOUND else "host" if share < _HOST_BOUND else "balanced"
    costs = _host_costs(stats)
    return Verdict(bound, share, costs, _advice(stats, bound, costs))


def _host_costs(stats: BenchmarkStats) -> dict[str, float]:
    """Medians, as means tell of the one launch in a hundred that something else interrupted."""
    launches = []
    for invocation in stats.invocations:
        spans = {name: span.dur_us for name, span in invocation.by_name().items()}
        costs = {text: spans.get(name, 0.0) for name, text in _COSTS.items()}
        rest = spans.get(RUN, 0.0) - spans.get(DEVICE_WALL, 0.0) - sum(costs.values())
        launches.append({**costs, _REST: max(0.0, rest)})
    names = launches[0] if launches else ()
    medians = {name: float(statistics.median(costs[name] for costs in launches)) for name in names}
    ranked = sorted(((name, us) for name, us in medians.items() if us > 0), key=lambda item: -item[1])
    # Which of two is larger by a few percent changes from run to run: then the one that comes first in a launch leads.
    leading = [name for name in medians if ranked and medians[name] >= _ALIKE * ranked[0][1]][:1]
    return dict(sorted(ranked, key=lambda item: item[0] not in leading))


def _advice(stats: BenchmarkStats, bound: str, costs: dict[str, float]) -> str:
    """The first advice that makes the largest cost smaller."""
    largest = next(iter(costs), "")
    if bound == "device" or largest not in (_COSTS[H2D], _COSTS[D2H]):
        return ""
    found = stats.advice
    if largest == _COSTS[D2H]:
        round_trips = [one for one in found if one.kind == "round_trip"]
        found = round_trips or advice.of_results(stats.invocations[0].task_name, stats)
    return str(found[0]) if found else ""
