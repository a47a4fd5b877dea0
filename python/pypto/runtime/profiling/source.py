"""The source of a program with what each line costs beside it."""

from __future__ import annotations

import linecache
import os
import textwrap
from typing import TYPE_CHECKING

from pypto.runtime.profiling.show import amount, explanation

if TYPE_CHECKING:
    from pypto.runtime.profiling.result import Operation, Profile

_GAP = 12
"""Lines without cost that are shown between two that have some; more are left out."""
_AROUND = 3
_WIDTH = 108
_HEAD = f"{'us':>10} {'share':>6} {'bytes':>7} {'flops':>7} | "


def annotated(profile: Profile) -> str:
    """The lines around those that cost something, file by file, and what the numbers mean."""
    files: dict[str, dict[int, list[Operation]]] = {}
    for one in profile.rows:
        files.setdefault(one.file, {}).setdefault(one.line, []).append(one)
    text = []
    for file, lines in files.items():
        text += [f"{profile.program}: {_shown(file)}", _HEAD]
        shown = 0
        for line in _around(sorted(lines), len(linecache.getlines(file))):
            if shown and line != shown + 1:
                text.append(f"{' ' * (len(_HEAD) - 2)}⋮")
            text.append(
                f"{_costs(lines.get(line, []), profile.us)} | {line:4d} {linecache.getline(file, line)}".rstrip()
            )
            shown = line
        text.append("")
    notes = [textwrap.fill(note, _WIDTH) for note in explanation(profile)]
    return "\n".join([*text, *notes])


def _shown(file: str) -> str:
    """The path from here, where the file lies below."""
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative


def _around(costly: list[int], last: int) -> list[int]:
    """The lines to show, ascending."""
    shown: set[int] = set()
    for first, second in zip(costly, [*costly[1:], costly[-1]], strict=True):
        end = second if second - first <= _GAP else first + _AROUND
        shown.update(range(first, end + 1))
        shown.update(range(second - _AROUND, second + 1))
    shown.update(range(costly[0] - _AROUND, costly[0]))
    shown.update(range(costly[-1], costly[-1] + _AROUND))
    return sorted(line for line in shown if 1 <= line <= last)


def _costs(operations: list[Operation], total: float) -> str:
    known = [one for one in operations if one.us is not None]
    us = sum(one.us or 0.0 for one in known)
    sign = "~" if any(not one.measured for one in known) else ""
    time = f"{sign}{us:,.1f}" if known else "within" if operations else ""
    share = f"{us / total:.0%}" if known and total else ""
    nbytes, flops = (sum(getattr(one, name) for one in operations) for name in ("nbytes", "flops"))
    return f"{time:>10} {share:>6} {amount(nbytes):>7} {amount(flops):>7}"
