"""Puts what `make bench` measured into `docs/performance.md` and, in short, into the README and `docs/tuning.md`.

``python tools/performance.py [RESULTS.json]``: what is between the marks of both pages is replaced. The text around
them is written by hand, among it what bounds the targets that are missed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "target" / "bench" / "results.json"
PAGE, README, TUNING = ROOT / "docs" / "performance.md", ROOT / "README.md", ROOT / "docs" / "tuning.md"
BEGIN, END = "<!-- measured: written by tools/performance.py -->", "<!-- measured: end -->"
# What the README quotes, at one thread.
SHORT = (
    "add, 128x128",
    "softmax, 4096x1024",
    "layer norm, 4096x4096",
    "eight operations, 4096x4096, into a new tensor",
    "matmul 1024^3, FP32",
    "matmul 1024^3, BF16",
    "x[1,4096] @ W[4096,4096], BF16",
    "attention, 1 head, 1024x128",
    "decoder layer, batch 1",
    "decoder layer, batch 16",
    "upload of 256 MiB",
    "kernel source to first result, softmax of 128x128",
)

# What the page on tuning speaks of, and at how many threads.
SPOKEN_OF = (
    ("cached call, beside the launch itself", 1),
    ("compile, kernel of 100 lines", 1),
    ("1,000 tiny dependent tasks, above the arithmetic", 1),
    ("eight operations, 4096x4096, in place", 1),
    ("eight operations, 4096x4096, into a new tensor", 1),
    ("matmul 1024^3, FP32", 1),
    ("matmul 1024^3, BF16", 1),
    ("matmul 1024^3, INT8", 1),
    ("x[16,1024] @ W[1024,4096], BF16", 1),
    ("2 cores against one: matmul 1024^3, BF16", 2),
    ("2 cores against one: attention, 1 head, 1024x128", 2),
    ("2 cores against one: softmax, 1024x1024", 2),
)


def conditions(run: dict[str, Any]) -> str:
    """One paragraph on what was measured, where and when."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return f"{run['date']}, {run['machine']}, load {run['load']} at the start. {versions}."


def cells(row: dict[str, Any]) -> list[str]:
    """Figure, threads, measured, target, verdict."""
    if row["measured"] is None:
        return [row["name"], str(row["threads"]), "skipped", "", row["note"]]
    sign = "≥" if row["at_least"] else "≤"
    target = "" if row["target"] is None else f"{sign} {row['target']:g}"
    verdict = "" if row["met"] is None else "met" if row["met"] else f"**missed** by {share(by(row))}"
    return [row["name"], str(row["threads"]), f"{row['measured']:.3g} {row['unit']}", target, verdict]


def by(row: dict[str, Any]) -> float:
    """How far a figure is from its target, as a share of the target."""
    return float(abs(row["measured"] - row["target"]) / row["target"])


def share(part: float) -> str:
    """In whole percents; what rounds to none of them is not nothing."""
    return "less than 1%" if part < 0.005 else f"{part:.0%}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def full(run: dict[str, Any]) -> str:
    """All figures: those with targets first, then what is shown for itself."""
    head = ["figure", "threads", "measured", "target", ""]
    aimed = [row for row in run["results"] if row["target"] is not None]
    others = [row for row in run["results"] if row["target"] is None]
    missed = sum(row["met"] is False for row in aimed)
    times = [[row["name"], str(row["threads"]), milliseconds(row)] for row in run["results"] if row["figures"]]
    parts = [
        conditions(run),
        f"{missed} of {len(aimed)} targets are missed.",
        table(head, [cells(row) for row in aimed]),
        "Shown for itself:",
        table(head[:3], [cells(row)[:3] for row in others]),
        "Milliseconds, the quickest of all rounds:",
        table(["figure", "threads", "ms"], times),
    ]
    return "\n\n".join(parts)


def short(run: dict[str, Any]) -> str:
    """What the README quotes."""
    rows = {row["name"]: row for row in run["results"] if row["threads"] == 1}
    quoted = [cells(rows[name]) for name in SHORT if name in rows]
    head = ["one thread", "measured", "target", ""]
    return "\n\n".join([conditions(run), table(head, [[name, *rest] for name, _, *rest in quoted])])


def milliseconds(row: dict[str, Any]) -> str:
    """The times of all contestants."""
    return ", ".join(f"{name} {ms:.4g}" for name, ms in row["figures"].items())


def spoken_of(run: dict[str, Any]) -> str:
    """What the page on tuning quotes."""
    rows = {(row["name"], row["threads"]): row for row in run["results"]}
    quoted = [rows[key] for key in SPOKEN_OF if key in rows]
    lines = [[*cells(row)[:3], milliseconds(row)] for row in quoted]
    return "\n\n".join([conditions(run), table(["figure", "threads", "measured", "ms"], lines)])


def replaced(text: str, figures: str) -> str:
    """The page with new figures between its marks."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"a page has no marks {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n{figures}\n{END}", text)


def main() -> None:
    """Rewrites all pages."""
    run = json.loads((Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS).read_text())
    for page, figures in ((PAGE, full(run)), (README, short(run)), (TUNING, spoken_of(run))):
        page.write_text(replaced(page.read_text(), figures))


if __name__ == "__main__":
    main()
