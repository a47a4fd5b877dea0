"""Two benchmarks against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pypto.runtime.bench.stats import BenchmarkStats

_RESAMPLES = 2000
"""Resamples of each series. The ends of a 95 % interval then rest on 50 values each and move by less than a tenth of
its width from seed to seed; ten times as many take ten times as long to say the same."""


@dataclass(frozen=True)
class Ratio:
    """A quotient of two medians and its 95 % interval.

    Attributes:
        value: The first median over the second; NaN where one of them is missing or 0.
        low: Lower end of the interval.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """`faster`, `slower`, or `same` where 1 lies inside the interval, `unknown` without a ratio."""
        if self.value != self.value:
            return "unknown"
        return "faster" if self.high < 1 else "slower" if self.low > 1 else "same"

    def __str__(self) -> str:
        """The ratio and its interval with three decimals."""
        return f"{self.value:.3f} [{self.low:.3f}..{self.high:.3f}]"


@dataclass(frozen=True)
class Comparison:
    """This benchmark against a baseline: below 1 this one is faster, or copies less.

    Attributes:
        host: Of the host wall.
        device: Of the device wall.
        h2d_bytes: Bytes of one launch to the device: this one's and the baseline's.
        d2h_bytes: Bytes of one launch from the device: this one's and the baseline's.
    """

    host: Ratio
    device: Ratio
    h2d_bytes: tuple[int, int]
    d2h_bytes: tuple[int, int]

    def __str__(self) -> str:
        """One line for each clock, one for the bytes."""
        bytes_line = ", ".join(
            f"{name} {new:,} B instead of {old:,} B"
            for name, (new, old) in (("host to device", self.h2d_bytes), ("device to host", self.d2h_bytes))
        )
        return (
            f"host wall {self.host} of the baseline: {self.host.word}\n"
            f"device wall {self.device} of the baseline: {self.device.word}\n"
            f"{bytes_line}"
        )


def compare(new: BenchmarkStats, old: BenchmarkStats) -> Comparison:
    """Compares the medians of two benchmarks."""
    return Comparison(
        ratio_of_medians(new.host_wall_us, old.host_wall_us),
        ratio_of_medians(new.device_wall_us, old.device_wall_us),
        (new.h2d_bytes, old.h2d_bytes),
        (new.d2h_bytes, old.d2h_bytes),
    )


def ratio_of_medians(new: Sequence[float], old: Sequence[float]) -> Ratio:
    """The ratio of two medians with its bootstrap percentile interval.

    Blocks of neighbours are resampled (H. R. Künsch, The Jackknife and the Bootstrap for General Stationary
    Observations, Annals of Statistics 17, 1989): a machine is slow for a while, so samples that follow each other say
    less than as many that do not. Resampled one by one, two runs of the same kernel differed in most comparisons. The
    resamples are seeded: the same samples always give the same interval.
    """
    if not new or not old or not np.median(old) or not np.median(new):
        return Ratio(float("nan"), float("nan"), float("nan"))
    random = np.random.default_rng(0)
    resampled = [_medians(random, np.asarray(values, dtype=float)) for values in (new, old)]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.nanpercentile(resampled[0] / resampled[1], [2.5, 97.5])
    return Ratio(float(np.median(new) / np.median(old)), float(low), float(high))


def _medians(random: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Medians of resamples of `values`, made in pieces so that ten thousand values need no gigabyte.

    A block has the root of their number of values; the last value is followed by the first.
    """
    count = len(values)
    length = math.isqrt(count)
    within = np.arange(length)
    piece = max(1, 1_000_000 // count)
    medians = []
    for begin in range(0, _RESAMPLES, piece):
        starts = random.integers(0, count, (min(piece, _RESAMPLES - begin), -(-count // length), 1))
        resamples = values[(starts + within) % count].reshape(len(starts), -1)
        medians.append(np.median(resamples[:, :count], axis=1))
    return np.concatenate(medians)
