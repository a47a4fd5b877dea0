"""Roofline plots. matplotlib is an extra: this file is imported when a plot is asked for."""

from __future__ import annotations

import importlib.util
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto import failures

if TYPE_CHECKING:
    from pypto.runtime.profiling.result import Profile, Step

ENDINGS = (".png", ".svg")
"""Of the files that can be written."""
_NAMED = 12
"""Steps in the legend: those with most time."""
_NEAR = 0.06
"""Decades between points whose numbers would lie on each other."""
_HUES = {"chain": "#0a7a5c", "product": "#2f6fb5", "tile": "#b36b00"}


def write(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Writes the plot of a profile. See `Profile.roofline`.

    Raises:
        RuntimeError: matplotlib is not installed.
        ValueError: The name ends in neither `.png` nor `.svg`.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise failures.PLOT_FORMAT(f"a roofline is written as {' or '.join(ENDINGS)}, got {os.fspath(path)!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise failures.MISSING_EXTRA("roofline plots need matplotlib: pip install 'pypto[plot]'")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # Text stays text, so that a plot can be searched; the salt makes equal plots equal files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "pypto"}):
        figure = Figure(figsize=(9.6, 6.0), dpi=120, layout="constrained")
        _draw(figure.add_subplot(), profile)
        figure.savefig(path, format=ending[1:], metadata={"Date": None} if ending == ".svg" else None)


def _draw(axes: Any, profile: Profile) -> None:
    peaks = profile.peaks
    shown = [step for step in profile.steps if step.flops and step.nbytes and step.us]
    intensities = [step.flops / step.nbytes for step in shown]
    low = min([0.05, *(one / 2 for one in intensities)])
    high = max([peaks.fp32 / peaks.memory * 8, *(one * 3 for one in intensities)])
    _roofs(axes, profile, shown, low, high)
    most = max((step.us for step in shown), default=1.0)
    named = sorted(shown, key=lambda step: -step.us)[:_NAMED]
    numbers: list[tuple[float, float, list[int]]] = []
    for number, (step, x) in enumerate(zip(shown, intensities, strict=True), 1):
        y = step.flops_per_second / 1e9
        size = 30 + 300 * step.us / most
        axes.scatter([x], [y], s=size, color=_HUES[step.kind], alpha=0.8, zorder=3, edgecolor="white")
        _add(numbers, number, x, y)
        if step not in named:
            continue
        label = f"{number}: line {step.line}, {step.name}, {step.us:,.1f} us ({step.share:.0%})"
        axes.scatter([], [], s=40, color=_HUES[step.kind], label=label)
    for x, y, together in numbers:
        beside = {"xytext": (13, 0), "textcoords": "offset points", "ha": "left"} if together[1:] else {"ha": "center"}
        axes.annotate(", ".join(map(str, together)), (x, y), fontsize=8, va="center", zorder=4, **beside)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_xlabel("operations for each byte of device memory and tiles")
    axes.set_ylabel("GFLOP/s")
    threads = "1 thread" if peaks.threads == 1 else f"{peaks.threads} threads"
    axes.set_title(f"{profile.program} on {peaks.isa}, {threads}: areas are times", fontsize=11)
    axes.grid(visible=True, which="major", linewidth=0.4, alpha=0.6)
    if shown:
        axes.legend(loc="best", fontsize=8)


def _add(numbers: list[tuple[float, float, list[int]]], number: int, x: float, y: float) -> None:
    """Puts a number at a place, or to those at nearly the same place: on each other nobody could read them."""
    for other_x, other_y, together in numbers:
        if max(abs(math.log10(x / other_x)), abs(math.log10(y / other_y))) < _NEAR:
            together.append(number)
            return
    numbers.append((x, y, [number]))


def _roofs(axes: Any, profile: Profile, shown: list[Step], low: float, high: float) -> None:
    """What memory and caches can feed, and what the arithmetic that occurs can do."""
    peaks = profile.peaks
    arithmetic = {"FP32": peaks.fp32}
    for step in shown:
        if step.kind == "product" and (peak := step.peak(peaks)) != peaks.fp32:
            arithmetic[step.main.dtype] = peak
    top = max(arithmetic.values())
    for name, bandwidth, style in (("memory", peaks.memory, "-"), ("cache", peaks.cached_read, "--")):
        ridge = top / bandwidth
        xs = [low, min(ridge, high)]
        axes.plot(xs, [x * bandwidth / 1e9 for x in xs], style, color="#444", linewidth=1.3)
        axes.annotate(
            f"{name} {bandwidth / 1e9:,.1f} GB/s",
            (low, low * bandwidth / 1e9),
            xytext=(4, 6),
            textcoords="offset points",
            fontsize=8,
            rotation_mode="anchor",
            rotation=45,
            transform_rotates_text=True,
        )
    for name, peak in arithmetic.items():
        axes.plot([peak / peaks.cached_read, high], [peak / 1e9] * 2, "-", color="#444", linewidth=1.3)
        axes.annotate(
            f"{name} {peak / 1e9:,.0f} GFLOP/s",
            (high, peak / 1e9),
            xytext=(-6, 4),
            textcoords="offset points",
            fontsize=8,
            ha="right",
        )
