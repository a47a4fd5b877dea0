"""Benchmarks as tables, for terminals and notebooks. Imported when one is shown: `rich` takes 30 ms to load."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table

if TYPE_CHECKING:
    from pypto.runtime.bench.stats import BenchmarkStats
    from pypto.runtime.bench.summary import Summary

_COLUMNS = ("min", "p5", "median", "p95", "p99", "max", "mean", "stdev")


def as_group(stats: BenchmarkStats, title: str = "") -> Group:
    """Times, bytes and the verdict."""
    parts: list[Table | str] = [_times(stats, title)]
    if stats.transfers:
        parts.append(_transfers(stats))
    parts.append(str(stats.verdict()))
    return Group(*parts)


def as_html(stats: BenchmarkStats) -> str:
    """The same as HTML that stands by itself in a notebook's cell."""
    console = Console(record=True, width=120, file=io.StringIO(), force_jupyter=False)
    console.print(as_group(stats))
    page = '<pre style="font-family:monospace;line-height:1.2">{code}</pre>'
    return console.export_html(inline_styles=True, code_format=page)


def _times(stats: BenchmarkStats, title: str) -> Table:
    launches = f"{stats.rounds:,} launches after {stats.warmup:,} for warming up"
    table = Table(title=f"{title}: {launches}" if title else launches, title_justify="left")
    table.add_column("us")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    table.add_column("95 % of median", justify="right")
    table.add_column("outliers", justify="right")
    table.add_column("cold", justify="right")
    cold_host = f"{stats.cold.host_wall_us:,.1f}" if stats.cold is not None else ""
    cold_device = f"{stats.cold.device_wall_us:,.1f}" if stats.cold is not None else ""
    for name, summary, cold in (("host wall", stats.host, cold_host), ("device wall", stats.device, cold_device)):
        table.add_row(name, *_cells(summary), cold)
    return table


def _cells(summary: Summary) -> list[str]:
    values = [f"{getattr(summary, name):,.1f}" for name in _COLUMNS]
    return [*values, f"{summary.median_low:,.1f}..{summary.median_high:,.1f}", str(summary.outliers)]


def _transfers(stats: BenchmarkStats) -> Table:
    table = Table(title="copied in each launch", title_justify="left")
    table.add_column("parameter")
    table.add_column("direction")
    table.add_column("bytes", justify="right")
    table.add_column("us", justify="right")
    table.add_column("GB/s", justify="right")
    words = {"h2d": "host to device", "d2h": "device to host"}
    for one in stats.transfers:
        rate = f"{one.nbytes / one.us / 1000:.1f}" if one.us else ""
        table.add_row(one.parameter, words[one.direction], f"{one.nbytes:,}", f"{one.us:,.1f}", rate)
    return table
