"""Races in random programs: none where everything is declared, and just the pair whose dependency is left out."""

from __future__ import annotations

import linecache
import random
from typing import Any

import pytest
import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig, SanitizerError

BUFFERS = 4
TASKS = 9

Task = tuple[set[int], set[int]]


def random_tasks(rng: random.Random) -> list[Task]:
    """Which buffers each task reads and writes."""
    some = lambda least: set(rng.sample(range(BUFFERS), rng.randint(least, 2)))  # noqa: E731
    return [(some(0), some(1)) for _ in range(TASKS)]


def conflicts(tasks: list[Task]) -> set[tuple[int, int]]:
    """Pairs of tasks of which one writes what the other uses, the earlier first."""

    def meet(a: Task, b: Task) -> bool:
        return bool(a[1] & (b[0] | b[1]) or b[1] & a[0])

    return {(i, j) for j in range(len(tasks)) for i in range(j) if meet(tasks[i], tasks[j])}


def has_path(edges: set[tuple[int, int]], start: int, end: int) -> bool:
    return any(a == start and (b == end or has_path(edges, b, end)) for a, b in edges)


def program(tasks: list[Task], edges: set[tuple[int, int]] | None, seed: int) -> tuple[Any, list[int]]:
    """A program of these tasks, in a manual scope with these dependencies or in an automatic one, and their lines."""
    lines = ["@pl.jit", "def tasks(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):"]
    lines += [f"    b{buffer} = pl.create_tensor([8, 8], pl.FP32, init_value=0)" for buffer in range(BUFFERS)]
    indent = "    "
    if edges is not None:
        lines.append("    with pl.manual_scope():")
        indent = "        "
    starts = []
    for number, (reads, writes) in enumerate(tasks):
        deps = sorted(a for a, b in edges or () if b == number)
        names = ", ".join(f"t{dep}" for dep in deps)
        starts.append(len(lines) + 1)
        lines.append(f"{indent}with pl.at(level=pl.Level.CORE_GROUP, deps=[{names}]) as t{number}:")
        lines.append(f"{indent}    v{number} = x[:, :]")
        lines += [f"{indent}    v{number} = pl.add(v{number}, b{buffer}[:, :])" for buffer in sorted(reads)]
        lines += [f"{indent}    b{buffer}[:, :] = v{number}" for buffer in sorted(writes)]
    everything = ", ".join(f"t{number}" for number in range(len(tasks)))
    lines.append(f"{indent}with pl.at(level=pl.Level.CORE_GROUP, deps=[{everything}]):")
    lines.append(f"{indent}    out[:, :] = b0[:, :]")
    lines.append("    return out")
    file = f"<race {seed} {edges is None} {len(edges or ())}>"
    text = "\n".join(lines) + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"pl": pl}
    exec(compile(text, file, "exec"), scope)
    return scope["tasks"], starts


def reported(kernel: Any, starts: list[int]) -> set[tuple[int, int]]:
    """The pairs of tasks that a launch reports."""
    number = {line: task for task, line in enumerate(starts)}
    with ChipWorker(config=RunConfig(sanitize="race", device_memory=1 << 24)):
        try:
            kernel(torch.ones(8, 8), torch.zeros(8, 8))
        except SanitizerError as error:
            lines = [[access.launch_line for access in finding.accesses] for finding in error.findings]
            return {(number[first], number[second]) for first, second in lines}
    return set()


@pytest.mark.parametrize("seed", range(12))
def test_programs_that_declare_everything_never_race(seed: int) -> None:
    tasks = random_tasks(random.Random(seed))
    assert reported(*program(tasks, conflicts(tasks), seed)) == set()
    assert reported(*program(tasks, None, seed)) == set()


@pytest.mark.parametrize("seed", range(12))
def test_a_dependency_that_is_left_out_is_the_only_race(seed: int) -> None:
    rng = random.Random(seed)
    tasks = random_tasks(rng)
    edges = conflicts(tasks)
    needed = sorted(edge for edge in edges if not has_path(edges - {edge}, *edge))
    left_out = rng.choice(needed)
    assert reported(*program(tasks, edges - {left_out}, seed)) == {left_out}
