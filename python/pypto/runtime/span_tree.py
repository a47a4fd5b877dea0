"""Spans printed as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypto.runtime.spans import TraceSpan


def format_tree(
    spans: Sequence[TraceSpan], *, us: bool = True, value_fn: Callable[[TraceSpan], Iterable[str]] | None = None
) -> str:
    """Prints spans by their names: each under the longest dotted prefix that is a span too, siblings by begin.

    Names are shown without what they share with their parent; device spans are marked `[dev]`. Of several spans with
    one name the first counts.

    Args:
        spans: The spans of one launch.
        us: Microseconds with one decimal instead of nanoseconds.
        value_fn: Columns of a span instead of its length.
    """
    named: dict[str, TraceSpan] = {}
    for span in spans:
        named.setdefault(span.name, span)
    children: dict[str | None, list[str]] = {}
    for name in named:
        children.setdefault(_parent(name, named), []).append(name)
    rows: list[tuple[str, list[str]]] = []

    def visit(parent: str | None, indent: str) -> None:
        names = sorted(children.get(parent, ()), key=lambda name: named[name].ts)
        for name in names:
            last = name == names[-1]
            connector = "" if parent is None else "`- " if last else "|- "
            leaf = name if parent is None else name[len(parent) + 1 :]
            span = named[name]
            label = f"{indent}{connector}{leaf}{' [dev]' if span.is_device else ''}"
            rows.append((label, list(value_fn(span)) if value_fn is not None else [duration(span.dur, us=us)]))
            visit(name, indent if parent is None else indent + ("   " if last else "|  "))

    visit(None, "")
    return _align(rows)


def duration(nanoseconds: float, *, us: bool) -> str:
    """A length of time with its unit."""
    return f"{nanoseconds / 1000:.1f}us" if us else f"{nanoseconds:.0f}ns"


def _parent(name: str, named: dict[str, TraceSpan]) -> str | None:
    while "." in name:
        name = name.rpartition(".")[0]
        if name in named:
            return name
    return None


def _align(rows: list[tuple[str, list[str]]]) -> str:
    label_width = max((len(label) for label, _ in rows), default=0)
    columns = max((len(values) for _, values in rows), default=0)
    widths = [max(len(values[i]) for _, values in rows if i < len(values)) for i in range(columns)]
    lines = []
    for label, values in rows:
        cells = [value.rjust(width) for value, width in zip(values, widths, strict=False)]
        lines.append("  ".join([label.ljust(label_width), *cells]).rstrip())
    return "\n".join(lines)
