"""The page: a template, a style sheet and scripts of this package, with the data inside."""

from __future__ import annotations

import html
import json
from importlib import resources
from pathlib import Path

from pypto.cli.bench import Outcome
from pypto.cli.report.content import content
from pypto.cli.session import Request

_SCRIPTS = ("drawing.js", "timeline.js", "roofline.js", "page.js")


def write_report(path: Path, outcome: Outcome, requests: list[Request]) -> None:
    """Writes the page. Each request is launched some more times, for its timeline.

    Args:
        path: The file; it is replaced.
        outcome: What was measured.
        requests: What it was measured for: one or two.

    Raises:
        OSError: The file cannot be written.
    """
    # A "<" inside a script element could end it; in JSON it only occurs in strings, where it may be written so.
    data = json.dumps(content(outcome, requests)).replace("<", "\\u003c")
    slots = {
        "title": html.escape(f"{outcome.kernel}: pypto bench"),
        "style": _part("page.css"),
        "data": data,
        "script": "\n".join(_part(name) for name in _SCRIPTS),
    }
    page = _part("page.html")
    for name in slots:
        # Around the slot, so that nothing that was put in is taken for a slot.
        before, slot, after = page.partition(f"{{{{{name}}}}}")
        assert slot, name
        slots[name], page = before + slots[name], after
    path.write_text("".join(slots.values()) + page, encoding="utf-8")


def _part(name: str) -> str:
    return resources.files("pypto.cli.report").joinpath(name).read_text(encoding="utf-8")
