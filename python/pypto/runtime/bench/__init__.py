"""Measuring programs: `benchmark`, and what it found, as numbers, words and tables."""

from pypto.runtime.bench.comparison import Comparison, Ratio
from pypto.runtime.bench.loop import benchmark
from pypto.runtime.bench.stats import BenchmarkStats, Transfer
from pypto.runtime.bench.summary import Summary
from pypto.runtime.bench.verdict import Verdict
from pypto.runtime.spans import TraceInvocation, TraceSpan

__all__ = [
    "BenchmarkStats",
    "Comparison",
    "Ratio",
    "Summary",
    "TraceInvocation",
    "TraceSpan",
    "Transfer",
    "Verdict",
    "benchmark",
]
