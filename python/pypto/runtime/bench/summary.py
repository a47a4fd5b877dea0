"""Statistics of one series of times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """What a series of times looks like. All times in microseconds; all 0.0 for a series without values.

    Attributes:
        count: Values.
        min: The smallest.
        p5: 5th percentile, as all percentiles interpolated linearly between neighbours (numpy's default).
        median: 50th percentile.
        p95: 95th percentile.
        p99: 99th percentile.
        max: The largest.
        mean: Arithmetic mean.
        stdev: Sample standard deviation; 0.0 for one value.
        median_low: Lower end of the interval that holds the median of all possible launches in 95 of 100 benchmarks.
        median_high: Its upper end. The ends are values of the series (order statistics; Conover, Practical
            Nonparametric Statistics, section 3.2), so nothing is assumed about the distribution, which has a long tail
            on a shared machine. Below 6 values no such interval reaches 95 %; it is then the whole range.
        outliers: Values further than 1.5 interquartile ranges outside the quartiles (Tukey's fences).
    """

    count: int = 0
    min: float = 0.0
    p5: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    stdev: float = 0.0
    median_low: float = 0.0
    median_high: float = 0.0
    outliers: int = 0

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """The summary of `values`, in microseconds."""
        if not values:
            return cls()
        ordered = sorted(values)
        count = len(ordered)
        low = median_rank(count)
        first, third = percentile(ordered, 25), percentile(ordered, 75)
        fence = 1.5 * (third - first)
        return cls(
            count=count,
            min=ordered[0],
            p5=percentile(ordered, 5),
            median=float(statistics.median(ordered)),
            p95=percentile(ordered, 95),
            p99=percentile(ordered, 99),
            max=ordered[-1],
            mean=float(statistics.fmean(ordered)),
            stdev=float(statistics.stdev(ordered)) if count > 1 else 0.0,
            median_low=ordered[low],
            median_high=ordered[count - 1 - low],
            outliers=sum(not first - fence <= value <= third + fence for value in ordered),
        )

    @property
    def spread(self) -> float:
        """Half the width of the median's interval as a share of the median; 0.0 where the median is 0."""
        return (self.median_high - self.median_low) / (2 * self.median) if self.median else 0.0


def median_rank(count: int) -> int:
    """How many of `count` ordered values lie below the 95 % interval of their median, and as many above it.

    The normal approximation of the binomial quantile, rounded towards the wider interval.
    """
    return max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The `percent`-th percentile of ascending values, interpolated linearly."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (position - below))
