"""Measure what a user feels from Python, and print it beside the targets.

``python benches/python/run.py [--check] [--out DIRECTORY] [chains] [frontend] [launch] [memory] [startup] [styles]
[tracing]``
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from measure import Result, as_json, as_text

QUESTIONS = ("chains", "frontend", "launch", "memory", "startup", "styles", "tracing")


def main() -> int:
    """Runs the asked benches, or all. Says 1 where a target is missed and ``--check`` asks for that."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"of {', '.join(QUESTIONS)}; default all")
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    parser.add_argument("--out", type=Path, metavar="DIRECTORY", help="also write results.txt and results.json there")
    options = parser.parse_args()
    if unknown := set(options.questions) - set(QUESTIONS):
        parser.error(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")

    results: list[Result] = []
    for question in options.questions or QUESTIONS:
        results += importlib.import_module(question).results()
    print(as_text(results))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in (("results.txt", as_text(results)), ("results.json", as_json(results))):
            (options.out / name).write_text(text + "\n")
    return int(options.check and not all(result.met for result in results))


if __name__ == "__main__":
    sys.exit(main())
