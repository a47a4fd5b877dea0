"""Task graphs as SVG: layers from what waits for nothing down to what waits longest, an arrow for each wait."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from pypto.runtime.profiling import Task

_MOST = 600
"""Tasks that are drawn; a picture of more shows nothing."""
_WIDE = 16
"""Tasks beside each other; a layer with more goes on below."""
_BOX, _HIGH = 168, 40
_GAP, _DOWN, _EDGE = 24, 46, 24
_HUES = ("#dcefe8", "#dfe8f7", "#f7ead7", "#eee0f3", "#f6dfe0", "#e6ecd4", "#dceaf0", "#efe6dd")
_WORDS = 22
_LETTER = 7


def write_graph(title: str, tasks: Sequence[Task], path: Path) -> None:
    """Writes the picture; a file that browsers and editors of drawings open."""
    path.write_text(drawing(title, tasks))


def drawing(title: str, tasks: Sequence[Task]) -> str:
    """The picture as text."""
    shown = tasks[:_MOST]
    places = _places(shown)
    kernels = list(dict.fromkeys(task.kernel for task in shown))
    height = max((y for _, y in places), default=0) + _HIGH + _EDGE
    left_out = f", {len(tasks) - _MOST:,} more are not shown" if len(tasks) > _MOST else ""
    head = f"{title}: {len(tasks):,} tasks, each below those that it waits for{left_out}"
    width = max(max((x for x, _ in places), default=0) + _BOX + _EDGE, _LETTER * len(head) + 2 * _EDGE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{_EDGE}" y="{_EDGE}" font-size="13" font-weight="bold">{escape(head)}</text>',
    ]
    for number, task in enumerate(shown):
        parts += [_arrow(places[other], places[number]) for other in task.waits]
    for number, task in enumerate(shown):
        parts.append(_box(number, task, places[number], _HUES[kernels.index(task.kernel) % len(_HUES)]))
    return "\n".join([*parts, "</svg>", ""])


def _places(tasks: Sequence[Task]) -> list[tuple[int, int]]:
    """The upper left corner of each task."""
    depth: list[int] = []
    for task in tasks:
        depth.append(1 + max((depth[other] for other in task.waits), default=-1))
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for number, layer in enumerate(depth):
        layers[layer].append(number)
    column: dict[int, float] = {}
    places = [(0, 0)] * len(tasks)
    row = 0
    for members in layers:
        # Below the middle of what it waits for, so that arrows cross little; else in the order of the program.
        def middle(number: int) -> float:
            above = [column[other] for other in tasks[number].waits]
            return sum(above) / len(above) if above else number

        members.sort(key=lambda number: (middle(number), number))
        for index, number in enumerate(members):
            column[number] = index % _WIDE
            x = _EDGE + (index % _WIDE) * (_BOX + _GAP)
            places[number] = (x, 2 * _EDGE + (row + index // _WIDE) * (_HIGH + _DOWN))
        row += -(-len(members) // _WIDE)
    return places


def _arrow(above: tuple[int, int], below: tuple[int, int]) -> str:
    x1, y1 = above[0] + _BOX / 2, above[1] + _HIGH
    x2, y2 = below[0] + _BOX / 2, below[1] - 1
    bend = (y2 - y1) / 2
    curve = f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
    return f'<path d="{curve}" fill="none" stroke="#667" stroke-width="1.1" marker-end="url(#tip)"/>'


def _box(number: int, task: Task, place: tuple[int, int], hue: str) -> str:
    x, y = place
    name = task.kernel or ("orchestration" if task.blocks else "wait")
    short = name if len(name) <= _WORDS else f"{name[: _WORDS - 1]}…"
    blocks = f", {task.blocks:,} blocks" if task.blocks != 1 else ""
    waits = ", ".join(str(other) for other in task.waits) or "nothing"
    tip = f"task {number}: {name}, {task.file}:{task.line}{blocks}; waits for {waits}"
    return (
        f'<g><title>{escape(tip)}</title><rect x="{x}" y="{y}" width="{_BOX}" height="{_HIGH}" rx="5" fill="{hue}" '
        f'stroke="#889"/><text x="{x + 8}" y="{y + 16}">{number} {escape(short)}</text>'
        f'<text x="{x + 8}" y="{y + 31}" fill="#556">line {task.line}{blocks}</text></g>'
    )
