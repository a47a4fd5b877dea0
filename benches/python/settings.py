"""The questions, and in which processes each is answered."""

from __future__ import annotations

import os
from pathlib import Path

QUESTIONS = (
    "chains",
    "core",
    "frontend",
    "instructions",
    "launch",
    "layer",
    "memory",
    "products",
    "startup",
    "styles",
    "tasks",
    "tiles",
    "tracing",
)
# These are about one thread, or about none.
ALONE = ("core", "frontend", "launch", "startup", "styles", "tracing")
CPUS = sorted(os.sched_getaffinity(0))


def settings(question: str) -> list[tuple[int, str | None]]:
    """Numbers of threads and instruction sets; None is the best one. Each is a process of its own."""
    if question == "instructions":
        flags = Path("/proc/cpuinfo").read_text().split()
        return [(1, isa) for isa in ("avx2", "generic") if isa == "generic" or isa in flags]
    return [(1, None), (len(CPUS), None)] if question not in ALONE and len(CPUS) > 1 else [(1, None)]


def environment(threads: int, isa: str | None) -> dict[str, str]:
    """For a process of a setting: many libraries decide once how many threads they use.

    The threads of numpy's product sleep when it is done. Otherwise they look for work for a while, on the CPU of
    whoever is next: at two threads the product after theirs took half as long again.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    given = dict.fromkeys(names, str(threads)) | {"OPENBLAS_THREAD_TIMEOUT": "4"} | ({"PYPTO_ISA": isa} if isa else {})
    return os.environ | given


def cpus(question: str, threads: int) -> list[int]:
    """Where it may run. Libraries that cannot be told have one thread on one CPU; questions alone choose themselves."""
    return CPUS if threads > 1 or question in ALONE else CPUS[-1:]
