"""Measure what a user feels from Python, beside the targets and the peers.

``python benches/python/run.py [--check] [--quick] [--out DIRECTORY] [QUESTION ...]``
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

from measure import Result, as_json, as_text
from settings import CPUS, QUESTIONS, cpus, environment, settings

ONE = Path(__file__).with_name("one.py")
SECONDS, QUICK = 2.0, 0.05


def measure(question: str, threads: int, isa: str | None, seconds: float) -> list[Result]:
    """Answers a question in a new process."""
    print(f"{question}, {threads} threads{f', {isa}' if isa else ''}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, str(ONE), question, str(threads), str(seconds)],
        env=environment(threads, isa),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus(question, threads)),
    )
    if done.returncode:
        raise SystemExit(f"{question} on {threads} threads failed")
    return [Result(**result) for result in json.loads(done.stdout.splitlines()[-1])]


def about() -> dict[str, Any]:
    """What the figures were measured on."""
    import peers

    import pypto

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())
    return {
        "date": date.today().isoformat(),
        "machine": f"{len(CPUS)} CPUs, {model}",
        "load": round(os.getloadavg()[0], 1),
        "versions": {"pypto": pypto.__version__, "python": platform.python_version()} | peers.versions(),
    }


def main() -> int:
    """Answers the questions asked, or all. Says 1 where a target is missed and ``--check`` asks for that."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"of {', '.join(QUESTIONS)}; default all")
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    parser.add_argument("--quick", action="store_true", help="few rounds: whether it runs, not how fast things are")
    parser.add_argument("--out", type=Path, metavar="DIRECTORY", help="also write results.txt and results.json there")
    options = parser.parse_args()
    if unknown := set(options.questions) - set(QUESTIONS):
        parser.error(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")

    described = about()
    for name, version in described["versions"].items():
        if version.startswith("skipped"):
            print(f"{name} {version}")
    results: list[Result] = []
    for question in options.questions or QUESTIONS:
        for threads, isa in settings(question):
            results += measure(question, threads, isa, QUICK if options.quick else SECONDS)
    print(as_text(results))
    missed = sum(result.met is False for result in results)
    print(f"\n{missed} of {sum(result.met is not None for result in results)} targets missed")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in (("results.txt", as_text(results)), ("results.json", as_json(results, described))):
            (options.out / name).write_text(text + "\n")
    return int(options.check and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
