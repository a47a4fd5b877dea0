"""Profiles as tables. Imported when one is shown: `rich` takes 30 ms to load."""

from __future__ import annotations

import io
import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, Group, JustifyMethod
from rich.style import Style
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pypto.runtime.profiling.result import Operation, Profile, Step

_COLUMNS = {"line": 4, "step": 12, "us": 7, "share": 5, "bytes": 5, "GB/s": 10, "flops": 5, "GFLOP/s": 10}
"""Widths that most numbers fit, so that the tables of two runs look alike."""
_WIDE = 100
"""Columns from which on there is room for the source."""
_TEXT = 140
"""Columns of a text that is no terminal's."""
_STEP = Style()
_KERNEL = Style(bold=True)
_PART = Style(dim=True)


@dataclass(frozen=True)
class _Row:
    cells: tuple[str, ...]
    source: str = ""
    style: Style = _STEP


def as_group(profile: Profile, width: int) -> Group:
    """The steps with their operations, and what the numbers mean, for `width` columns."""
    rows = list(_rows(profile))
    cores = "1 core" if profile.cores == 1 else f"{profile.cores} cores"
    title = f"{profile.program}: {profile.us:,.1f} us in steps, median of {profile.launches:,} launches on {cores}"
    table = Table(title=title, title_justify="left")
    with_source = width >= _WIDE
    for name, least in _COLUMNS.items():
        justify: JustifyMethod = "left" if name == "step" else "right"
        table.add_column(name, justify=justify, no_wrap=True, min_width=least if with_source else None)
    if not with_source:
        table.padding = (0, 0)
    if with_source:
        # The source gives way where the terminal is narrow, and does not wrap: its text says so, not the column, which
        # would not give way then.
        table.add_column("source")
    for row in rows:
        source = [Text(row.source, no_wrap=True, overflow="ellipsis")] if with_source else []
        table.add_row(*row.cells, *source, style=row.style)
    return Group(table, *(Text(line) for line in explanation(profile)))


def _rows(profile: Profile) -> list[_Row]:
    rows = []
    kernel = None
    for step in profile.steps:
        if step.kernel != kernel:
            kernel = step.kernel
            rows.append(_Row(("", kernel, *[""] * (len(_COLUMNS) - 2)), style=_KERNEL))
        rows.append(_of_step(profile, step))
        rows += [_of_operation(profile, one) for one in step.operations if not one.measured]
    return rows


def _of_step(profile: Profile, step: Step) -> _Row:
    peaks = profile.peaks
    cells = (
        str(step.line),
        f" {step.name}" + (f" x{step.runs:,.0f}" if step.runs != 1 else ""),
        f"{step.us:,.1f}",
        f"{step.share:.0%}",
        amount(step.nbytes),
        _rate(step.bytes_per_second, peaks.memory),
        amount(step.flops),
        _rate(step.flops_per_second, step.peak(peaks)),
    )
    return _Row(cells, source_line(step.file, step.line))


def _of_operation(profile: Profile, one: Operation) -> _Row:
    sign = "" if one.measured else "~"
    time = "within" if one.us is None else f"{sign}{one.us:,.1f}"
    share = "" if one.us is None or not profile.us else f"{sign}{one.us / profile.us:.0%}"
    cells = (str(one.line), f"   {one.name}", time, share, amount(one.nbytes), "", amount(one.flops), "")
    return _Row(cells, source_line(one.file, one.line), _PART)


def _rate(value: float, peak: float) -> str:
    return f"{value / 1e9:,.1f} {value / peak:4.0%}" if value else ""


def explanation(profile: Profile) -> list[str]:
    """What was measured, what was attributed, and what the percentages are of."""
    peaks = profile.peaks
    threads = "1 thread" if peaks.threads == 1 else f"{peaks.threads} threads"
    lines = [
        "Measured: each step, by the clock. Without profiling the device takes "
        f"{profile.device_us:,.1f} us for a launch, with what is between the steps: loops, scalars, views.",
        f"Percentages are of what this machine can do ({peaks.isa}, {threads}): memory {peaks.memory / 1e9:,.1f} GB/s, "
        f"FP32 {peaks.fp32 / 1e9:,.0f}, BF16 {peaks.bf16 / 1e9:,.0f}, INT8 {peaks.int8 / 1e9:,.0f} GFLOP/s. "
        f"Above 100 % of memory bytes come from caches, which give {peaks.cached_read / 1e9:,.0f} GB/s.",
    ]
    if profile.cores > 1:
        lines.insert(
            1,
            f"Tasks ran one after the other here, the steps of each on {profile.cores:,} cores, so that each "
            "has a time of its own; other launches run those side by side that do not wait for each other.",
        )
    if any(one.us is not None and not one.measured for one in profile.rows):
        lines.insert(
            1,
            "Attributed (~): the operations of a chain, which run fused in registers. Each counts what its "
            "instructions take alone, on device memory also what they may have waited for it, scaled to the chain.",
        )
    return lines


def as_text(profile: Profile) -> str:
    """The same as text without colours."""
    return "\n".join(line.rstrip() for line in _recorded(profile).export_text().splitlines())


def as_html(profile: Profile) -> str:
    """The same as HTML that stands by itself in a notebook's cell."""
    page = '<pre style="font-family:monospace;line-height:1.2">{code}</pre>'
    return _recorded(profile).export_html(inline_styles=True, code_format=page)


def _recorded(profile: Profile) -> Console:
    console = Console(record=True, width=_TEXT, file=io.StringIO(), force_jupyter=False)
    console.print(as_group(profile, _TEXT))
    return console


def source_line(file: str, line: int) -> str:
    """A line of a source file without its indentation; empty where it cannot be read."""
    return linecache.getline(file, line).strip()


def amount(value: float) -> str:
    """A number of bytes or operations in short; empty for none."""
    if not value:
        return ""
    for unit in ("", "k", "M", "G"):
        if value < 1000:
            return f"{value:.0f}{unit}" if unit == "" or value >= 100 else f"{value:.1f}{unit}"
        value /= 1000
    return f"{value:.1f}T"
