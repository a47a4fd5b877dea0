"""Text of a program declares the same order of tasks: sanitizers report of it what they report of the program."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checking import check_round_trip
from test_race_property import conflicts, has_path, program, random_tasks

import pypto.language as pl
from pypto import ir
from pypto.ir.nodes import Program
from pypto.ir.passes import outline, split_phases
from pypto.runtime import ChipWorker, RunConfig, SanitizerError


@pytest.fixture(scope="module")
def checked() -> ChipWorker:
    with ChipWorker(config=RunConfig(sanitize="race,uninit,bounds", device_memory=1 << 24)) as worker:
        yield worker


def reported(checked: ChipWorker, program: Program, directory: Path, *args: Any) -> list[Any]:
    """What a launch reports, without lines of the source."""
    compiled = ir.compile(program, directory, platform="a2a3sim")
    try:
        checked.run(compiled, *(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args))
    except SanitizerError as error:
        return [
            (finding.kind, [(access.action, access.kernel, access.memory) for access in finding.accesses])
            for finding in error.findings
        ]
    return []


def check(checked: ChipWorker, program: Program, directory: Path, *args: Any) -> list[Any]:
    """What a launch reports: the same of the program and of what its text reads back as, after every pass."""
    found = reported(checked, program, directory / "program", *args)
    for number, version in enumerate((program, outline(program), split_phases(outline(program)))):
        again = check_round_trip(version)
        assert reported(checked, again, directory / str(number), *args) == found
    return found


@pytest.mark.parametrize("seed", range(4))
def test_text_keeps_what_tasks_wait_for(seed: int, checked: ChipWorker, tmp_path: Path) -> None:
    rng = random.Random(seed)
    tasks = random_tasks(rng)
    edges = conflicts(tasks)
    left_out = rng.choice(sorted(edge for edge in edges if not has_path(edges - {edge}, *edge)))
    x = np.ones((8, 8), np.float32)
    for declared, races in ((edges, False), (None, False), (edges - {left_out}, True)):
        kernel, _ = program(tasks, declared, seed)
        found = check(checked, kernel.lower(x, x), tmp_path / str(declared and len(declared)), x, x)
        assert bool(found) is races


@pl.jit.incore
def negate(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    return pl.store(pl.neg(pl.load(x, [0, 0], [8, 8])), [0, 0], out)


@pl.jit
def chained(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]], early: pl.Scalar[pl.BOOL]):
    made = pl.array.create(3, pl.TASK_ID)
    tmp = pl.create_tensor([8, 8], pl.FP32)
    with pl.manual_scope():
        last = None
        for i in pl.range(3):
            _, last = pl.submit(negate, x, tmp, deps=[last], predicate=x[0, 0] > 0.0)
            made[i] = last
        if early:
            last = made[0]
        _, tid = pl.submit(negate, tmp, out, deps=[last])
        with pl.spmd(2, deps=[tid, pl.system.task_dummy(deps=[task for task in made])]) as rows:  # noqa: C416
            b = pl.get_block_idx()
            out[b : b + 1, :] = pl.add(out[b : b + 1, :], 1.0)
    with pl.at(level=pl.Level.CORE_GROUP, deps=[rows], no_dep_args=[out]):
        out[4:5, :] = pl.neg(x[0:1, :])
    return out


@pytest.mark.parametrize("early", [False, True])
def test_text_keeps_arrays_loops_and_predicates_of_task_ids(early: bool, checked: ChipWorker, tmp_path: Path) -> None:
    x = np.ones((8, 8), np.float32)
    found = check(checked, chained.lower(x, x, pl.RUNTIME), tmp_path, x, x, early)
    assert bool(found) is early
