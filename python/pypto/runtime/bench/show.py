"""Benchmarks as tables, for terminals and notebooks. Imported when one is shown: `rich` takes 30 ms to load."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table

if TYPE_CHECKING:
    from pypto.runtime.bench.stats import BenchmarkStats

_STATISTICS = ("min", "p5", "median", "p95", "p99", "max", "mean", "stdev")


def as_group(stats: BenchmarkStats, title: str = "") -> Group:
    """Times, bytes, the verdict, and what else could stay on the device."""
    parts: list[Table | str] = [_times(stats, title)]
    if stats.transfers:
        parts.append(_transfers(stats))
    verdict = stats.verdict()
    parts.append(str(verdict))
    parts += [text for one in stats.advice if (text := str(one)) != verdict.advice]
    return Group(*parts)


def as_html(stats: BenchmarkStats) -> str:
    """The same as HTML that stands by itself in a notebook's cell."""
    console = Console(record=True, width=120, file=io.StringIO(), force_jupyter=False)
    console.print(as_group(stats))
    page = '<pre style="font-family:monospace;line-height:1.2">{code}</pre>'
    return console.export_html(inline_styles=True, code_format=page)


def _times(stats: BenchmarkStats, title: str) -> Table:
    """A line for each statistic: as columns, eleven numbers are cut off in a terminal of 80 characters."""
    launches = f"{stats.rounds:,} {'launch' if stats.rounds == 1 else 'launches'} after {stats.warmup:,} for warming up"
    table = Table(title=f"{title}: {launches}" if title else launches, title_justify="left")
    table.add_column("us")
    for name in ("host wall", "device wall"):
        table.add_column(name, justify="right")
    both = (stats.host, stats.device)
    for name in _STATISTICS:
        table.add_row(name, *(f"{getattr(one, name):,.1f}" for one in both))
    table.add_row("95 % of median", *(f"{one.median_low:,.1f}..{one.median_high:,.1f}" for one in both))
    table.add_row("outliers", *(str(one.outliers) for one in both))
    if stats.cold is not None:
        table.add_row("cold", f"{stats.cold.host_wall_us:,.1f}", f"{stats.cold.device_wall_us:,.1f}")
        table.add_row("register, once", f"{stats.register_us:,.1f}", "")
    return table


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
