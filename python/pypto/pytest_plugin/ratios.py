"""Ratios of times that must not get worse: measuring two callables in turn, and the file of baselines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from pypto.runtime import machine
from pypto.runtime.bench.summary import Summary

_clock = time.perf_counter

_SAMPLE_SECONDS = 2e-4
"""A sample repeats its callable for this long: a thousand times what reading the clock costs, and a tenth of the time
that a busy machine lets others run. Of samples of a millisecond most were interrupted there, and no ratio was sure."""

_ATTEMPTS = 3
"""Measurements until a regression counts. Chance makes the intervals of two honest runs part once in some dozens."""

FORMAT = 1
"""Rises when an older reader would misunderstand a file."""


@dataclass(frozen=True)
class Measured:
    """A kernel beside its peer.

    Attributes:
        ratio: Median over the rounds of the kernel's time by the peer's, measured next to each other.
        low: Lower end of the median's 95 % interval.
        high: Its upper end.
        kernel_us: Median time of a call of the kernel, in microseconds.
        peer_us: Median time of a call of the peer, in microseconds.
    """

    ratio: float
    low: float
    high: float
    kernel_us: float
    peer_us: float

    def __str__(self) -> str:
        return (
            f"{self.ratio:.3f} [{self.low:.3f}..{self.high:.3f}] "
            f"({self.kernel_us:,.1f} us against {self.peer_us:,.1f} us)"
        )


@dataclass(frozen=True)
class Row:
    """A ratio for the summary at the end."""

    name: str
    measured: Measured
    baseline: Measured | None


_ROWS = pytest.StashKey[list[Row]]()


class Ratios:
    """The fixture `pypto_benchmark`."""

    def __init__(self, config: pytest.Config, test: str) -> None:
        self._config = config
        self._test = test

    def __call__(
        self,
        kernel: Callable[[], object],
        against: Callable[[], object],
        *,
        name: str = "",
        rounds: int = 100,
        tolerance: float = 0.1,
    ) -> Measured:
        """Measures `kernel` and `against` in turn and compares the ratio of their times with the baseline.

        Both run in the same minute on the same machine, so the ratio stays where times do not. It is a regression
        where the ratio is more than `tolerance` above the baseline's and its interval lies above the baseline's
        interval, three times in succession. Without a baseline the test passes and the summary says so.

        Args:
            kernel: What is measured; called without arguments.
            against: A peer that does the same work in another way, such as torch.
            name: Tells several benchmarks of one test apart.
            rounds: Samples of each; one takes a fifth of a millisecond, or one call where that is longer.
            tolerance: How much worse the ratio may get: 0.1 is 10 %.

        Raises:
            TypeError: One of the two cannot be called.
            ValueError: There is no round, or the tolerance is negative.
        """
        for what, work in (("kernel", kernel), ("peer", against)):
            if not callable(work):
                raise TypeError(
                    f"pypto_benchmark() measures callables without arguments; the {what} is {work!r}: "
                    "pass a function, as in lambda: handle(x, out)"
                )
        if rounds < 1 or tolerance < 0:
            raise ValueError(f"rounds must be positive and tolerance not negative, got {rounds} and {tolerance}")
        if hasattr(self._config, "workerinput"):
            pytest.skip("a benchmark needs the machine for itself: run it without -n")
        path = baseline_path(self._config)
        key = f"{self._test}[{name}]" if name else self._test
        update = bool(self._config.getoption("--pypto-benchmark-update"))
        old = None if update else _read(path).get(key)
        before = _measured(old)
        found = measure(kernel, against, rounds)
        for _ in range(_ATTEMPTS - 1):
            if not regressed(found, before, tolerance):
                break
            found = measure(kernel, against, rounds)
        self._config.stash.setdefault(_ROWS, []).append(Row(key, found, before))
        if update:
            _write(path, key, found)
        elif old is not None and before is not None and regressed(found, before, tolerance):
            pytest.fail(_complaint(key, found, before, tolerance, path, str(old.get("processor", ""))), pytrace=False)
        return found


def measure(kernel: Callable[[], object], peer: Callable[[], object], rounds: int) -> Measured:
    """Times both in turn, the order changing from round to round, after calls that settle how often each repeats."""
    calls = [_calls(one) for one in (kernel, peer)]
    times: list[tuple[float, float]] = []
    for index in range(rounds):
        if index % 2:
            second = _sample(peer, calls[1])
            times.append((_sample(kernel, calls[0]), second))
        else:
            first = _sample(kernel, calls[0])
            times.append((first, _sample(peer, calls[1])))
    ratio = Summary.of([first / second for first, second in times])
    kernel_us, peer_us = (Summary.of([pair[i] * 1e6 for pair in times]).median for i in (0, 1))
    return Measured(ratio.median, ratio.median_low, ratio.median_high, kernel_us, peer_us)


def regressed(new: Measured, old: Measured | None, tolerance: float) -> bool:
    """Whether a ratio is worse than it may be, beyond what chance explains."""
    return old is not None and new.ratio > old.ratio * (1 + tolerance) and new.low > old.high


def summarise(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each ratio."""
    rows = config.stash.get(_ROWS, [])
    if not rows:
        return
    update = config.getoption("--pypto-benchmark-update")
    reporter.section("pypto benchmarks: times of kernels as a share of their peers'")
    for row in rows:
        if row.baseline is not None:
            was = f"baseline {row.baseline.ratio:.3f} [{row.baseline.low:.3f}..{row.baseline.high:.3f}]"
        else:
            was = "written" if update else "no baseline: --pypto-benchmark-update writes it"
        reporter.write_line(f"{row.name}: {row.measured}; {was}")


def baseline_path(config: pytest.Config) -> Path:
    """Where the baselines are."""
    return Path(config.rootpath, str(config.getini("pypto_benchmark_file")))


def _calls(work: Callable[[], object]) -> int:
    """How many calls fill a sample; the first call, which compiles and touches memory, is not counted."""
    work()
    calls = 1
    while (seconds := _sample(work, calls) * calls) < _SAMPLE_SECONDS:
        calls *= 2 if seconds * 2 > _SAMPLE_SECONDS else 4
    return calls


def _sample(work: Callable[[], object], calls: int) -> float:
    """Seconds of one of `calls` calls."""
    begin = _clock()
    for _ in range(calls):
        work()
    return (_clock() - begin) / calls


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text())
        newer = record["pypto_ratios"] > FORMAT
        ratios: dict[str, dict[str, Any]] = {} if newer else record["ratios"]
        for one in ratios.values():
            _measured(one)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        pytest.fail(f"{path} holds no baselines: {error!r}; mend it, or remove it and measure again", pytrace=False)
    if newer:
        pytest.fail(f"{path} was written by a newer version of pypto; upgrade, or measure again", pytrace=False)
    return ratios


def _measured(record: dict[str, Any] | None) -> Measured | None:
    if record is None:
        return None
    return Measured(**{name: float(record[name]) for name in Measured.__dataclass_fields__})


def _write(path: Path, key: str, found: Measured) -> None:
    """Adds one ratio to the file; a run that ends halfway leaves the old file or the new one."""
    ratios = _read(path)
    ratios[key] = {**asdict(found), "processor": machine.processor()}
    text = json.dumps({"pypto_ratios": FORMAT, "ratios": dict(sorted(ratios.items()))}, indent=1)
    draft = path.with_name(path.name + ".new")
    draft.write_text(f"{text}\n")
    os.replace(draft, path)


def _complaint(key: str, new: Measured, old: Measured, tolerance: float, path: Path, processor: str) -> str:
    here = machine.processor()
    lines = [
        f"{key} got slower against its peer: {new.ratio / old.ratio - 1:+.0%}, {tolerance:.0%} are allowed",
        f"  now       {new}",
        f"  baseline  {old}",
        f"If that is meant, write the new baseline: pytest {key.split('[')[0]} --pypto-benchmark-update",
    ]
    if processor != here:
        lines.append(f"The baseline in {path.name} is that of another processor: {processor!r}, here it is {here!r}.")
    return "\n".join(lines)
