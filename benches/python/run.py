"""Measure what a user feels from Python, and print it beside the targets.

``python benches/python/run.py [--json FILE] [chains] [frontend] [launch] [memory] [startup]``
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from measure import Result, as_json, as_text

QUESTIONS = ("chains", "frontend", "launch", "memory", "startup")


def main() -> None:
    """Runs the asked benches, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"of {', '.join(QUESTIONS)}; default all")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if unknown := set(options.questions) - set(QUESTIONS):
        parser.error(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")

    results: list[Result] = []
    for question in options.questions or QUESTIONS:
        results += importlib.import_module(question).results()
    print(as_text(results))
    if options.json:
        options.json.write_text(as_json(results) + "\n")


if __name__ == "__main__":
    main()
