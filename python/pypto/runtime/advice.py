"""What could stay on the device: advice from what a worker counted, and from what `benchmark` measured."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto.runtime.spans import TraceInvocation

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram
    from pypto.runtime.bench.stats import BenchmarkStats

_LEAST_SHARE = 0.01
"""What costs less of the host wall is not worth a line of advice."""

_OFTEN = 3
"""Once more than twice is a habit."""


@dataclass(frozen=True)
class Advice:
    """One thing that could be done once and is done again and again. `str()` is a paragraph, `fix` its last line.

    Attributes:
        kind: `unchanged_input`: an argument is uploaded although its bytes did not change. `round_trip`: a result is
            downloaded and passed back in as it came. `registered_again`: a program is registered that is known.
            `result`: a result comes back in each launch. Only the host knows whether it looks at it, so only the
            verdict of a benchmark says that, where nothing costs the host more.
        program: Name of the program.
        parameter: Name of the parameter; empty for a program.
        times: Launches, or registrations, that were in vain.
        nbytes: Bytes that crossed for it, both ways, all times together.
        host_share: Its share of the host wall of the program's launches, 0 to 1.
        fix: The line that ends it.
    """

    kind: str
    program: str
    parameter: str
    times: int
    nbytes: int
    host_share: float
    fix: str

    def __str__(self) -> str:
        what = f"'{self.parameter}' of '{self.program}'"
        cost = f"{_size(self.nbytes)}, {self.host_share:.0%} of the host wall"
        if self.kind == "unchanged_input":
            text = f"{what} was uploaded {self.times} times without a change: {cost}. Upload it once:"
        elif self.kind == "round_trip":
            text = f"{what} was downloaded and passed back in as it was {self.times} times: {cost}. Leave it there:"
        elif self.kind == "result":
            text = f"{what} was downloaded {self.times} times: {cost}. Where the host does not read it, leave it there:"
        else:
            text = f"'{self.program}' was registered {self.times} times more than it had to be. Keep the handle:"
        return f"{text}\n    {self.fix}"


def of_worker(report: dict[str, Any]) -> list[Advice]:
    """Advice from what a worker counted, the most expensive first."""
    totals: dict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for argument in report["arguments"]:
        for kind, times, ns, ways in (
            ("unchanged_input", argument["unchanged"], argument["unchanged_ns"], 1),
            ("round_trip", argument["round_trips"], argument["round_trip_ns"], 2),
        ):
            sums = totals[argument["program"], argument["param"], kind]
            for index, amount in enumerate((times, times * ways * argument["bytes"], ns)):
                sums[index] += amount
    advice = []
    for (number, param, kind), (times, nbytes, ns) in totals.items():
        program = report["programs"][number]
        share = ns / program["wall_ns"] if program["wall_ns"] else 0.0
        if times >= _OFTEN and share >= _LEAST_SHARE:
            name = program["params"][param]
            advice.append(Advice(kind, program["name"], name, times, nbytes, share, _fix(kind, name)))
    advice.sort(key=lambda one: -one.host_share)
    for program in report["programs"]:
        if program["registered"] > _OFTEN:
            name = program["name"]
            times = program["registered"] - 1
            fix = f"handle = worker.register({name})  # once; then call handle(...)"
            advice.append(Advice("registered_again", name, "", times, 0, 0.0, fix))
    return advice


def of_benchmark(compiled: CompiledProgram, name: str, invocations: Sequence[TraceInvocation]) -> list[Advice]:
    """Advice from measured launches, all of which had the same arguments."""
    host_ns = sum(root.dur for invocation in invocations if (root := invocation.root()) is not None)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for invocation in invocations:
        for span in invocation.spans:
            way, _, copied = span.name.removeprefix("chip.run.").partition(".")
            if copied and way in ("h2d", "d2h"):
                for index, amount in enumerate((1, int(span.attribute("bytes") or 0), span.dur)):
                    sums[f"{way} {copied}"][index] += amount
    advice = []
    outputs = set(compiled.output_indices)
    for index, param in enumerate(compiled.params):
        times, nbytes, ns = sums[f"h2d {param.name}"]
        back = sums[f"d2h {param.name}"]
        kind = "round_trip" if back[0] else "unchanged_input"
        share = (ns + back[2]) / host_ns if host_ns else 0.0
        if index not in outputs and times >= _OFTEN and share >= _LEAST_SHARE:
            fix = _fix(kind, param.name)
            advice.append(Advice(kind, name, param.name, times, nbytes + back[1], share, fix))
    return sorted(advice, key=lambda one: -one.host_share)


def of_results(program: str, stats: BenchmarkStats) -> list[Advice]:
    """Advice for measured launches of which nothing costs the host more than the results that come back."""
    back = [one for one in stats.transfers if one.direction == "d2h"]
    host_us = statistics.fmean(stats.host_wall_us)
    back.sort(key=lambda one: -one.us)
    advice = []
    for one in back:
        nbytes, fix = stats.rounds * one.nbytes, _fix("result", one.parameter)
        advice.append(Advice("result", program, one.parameter, stats.rounds, nbytes, one.us / host_us, fix))
    return advice


def _fix(kind: str, name: str) -> str:
    if kind in ("round_trip", "result"):
        return f"{name} = worker.from_host({name})  # once; pass it every time, and read it with {name}.to_host()"
    return f"{name} = worker.from_host({name})  # once; then pass it every time"


def _size(nbytes: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} bytes"
