"""The mean of several launches, span by span."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from pypto.runtime.span_tree import duration
from pypto.runtime.spans import TraceInvocation, TraceSpan


def spans_of(launches: Sequence[TraceInvocation]) -> dict[str, list[TraceSpan]]:
    """The spans of launches by their names: of each launch the first with the name."""
    groups: dict[str, list[TraceSpan]] = {}
    for launch in launches:
        for name, span in launch.by_name().items():
            groups.setdefault(name, []).append(span)
    return groups


def mean_of(launches: Sequence[TraceInvocation]) -> TraceInvocation | None:
    """A launch whose spans have the mean begin and length; None where there are no launches."""
    if not launches:
        return None
    first = launches[0]
    spans = [_mean_span(group) for group in spans_of(launches).values()]
    return TraceInvocation(first.pid, -1, first.hid, spans, first.task_name)


def mean_tree(launches: Sequence[TraceInvocation], warmup: int, *, us: bool, spread: str) -> str:
    """The mean as a tree with its header; `spread` is `stdev`, `minmax`, `both` or `none`."""
    groups = spans_of(launches)

    def columns(span: TraceSpan) -> Iterable[str]:
        lengths = [one.dur for one in groups[span.name]]
        yield duration(span.dur, us=us)
        if spread in ("stdev", "both"):
            yield f"±{duration(statistics.stdev(lengths) if len(lengths) > 1 else 0.0, us=us)}"
        if spread in ("minmax", "both"):
            yield f"[{duration(min(lengths), us=us)}..{duration(max(lengths), us=us)}]"

    shown = {"stdev": " ±stdev", "minmax": " [min..max]", "both": " ±stdev [min..max]"}.get(spread, "")
    header = f"mean of {len(launches)} launches (warmup {warmup} excluded); each node: mean{shown}:"
    mean = mean_of(launches)
    return header if mean is None else f"{header}\n{mean.format_tree(us=us, value_fn=columns)}"


def _mean_span(spans: list[TraceSpan]) -> TraceSpan:
    first = spans[0]
    begin, length = (round(statistics.fmean(getattr(span, name) for span in spans)) for name in ("ts", "dur"))
    return TraceSpan(first.pid, first.tid, -1, first.hid, first.depth, first.name, begin, length, first.attrs)
