"""Spans printed as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
        value_fn: Columns of a span, or one, instead of its length.
    """
    rows: list[tuple[str, list[str]]] = []
    for ends, leaf, span in walk(spans):
        indent = "".join("   " if last else "|  " for last in ends[1:-1])
        connector = "" if len(ends) == 1 else "`- " if ends[-1] else "|- "
        label = f"{indent}{connector}{leaf}{' [dev]' if span.is_device else ''}"
        values = duration(span.dur, us=us) if value_fn is None else value_fn(span)
        rows.append((label, [values] if isinstance(values, str) else list(values)))
    return _align(rows)


def walk(spans: Sequence[TraceSpan]) -> Iterator[tuple[tuple[bool, ...], str, TraceSpan]]:
    """The spans in the order of their tree, parents first.

    Yields:
        For each level down to the span whether the last of its siblings was reached; the name without what it shares
        with its parent; the span.
    """
    named: dict[str, TraceSpan] = {}
    for span in spans:
        named.setdefault(span.name, span)
    children: dict[str | None, list[str]] = {}
    for name in named:
        children.setdefault(_parent(name, named), []).append(name)

    def below(parent: str | None, ends: tuple[bool, ...]) -> Iterator[tuple[tuple[bool, ...], str, TraceSpan]]:
        names = sorted(children.get(parent, ()), key=lambda name: named[name].ts)
        for name in names:
            here = (*ends, name == names[-1])
            yield here, name if parent is None else name[len(parent) + 1 :], named[name]
            yield from below(name, here)

    return below(None, ())


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
