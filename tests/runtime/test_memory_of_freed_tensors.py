"""Launches over memory of freed tensors: what a kernel leaves alone reads as zero, however it is launched."""

import itertools
from pathlib import Path
from typing import Any

import interp
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import kernel_of

import pypto.language as pl
from pypto.runtime import ChipWorker, DeviceTensor

ROWS, COLS = 16, 32
HEAD = f"""
import pypto.language as pl

@pl.jit.incore
def kernel(
    x: pl.Tensor[[{ROWS}, {COLS}], pl.FP32], out: pl.Out[pl.Tensor[[{ROWS}, {COLS}], pl.FP32]], n: pl.Scalar[pl.INDEX]
):
"""


@st.composite
def writes(draw: st.DrawFn) -> list[str]:
    """A statement that writes a part of `out`, or all of it, or that reads it first."""
    height, width = draw(st.sampled_from([16, 16, 8, 1])), draw(st.sampled_from([32, 32, 16, 8]))
    row, col = draw(st.sampled_from([0, 8, 16 - height])), draw(st.sampled_from([0, 8, 32 - width]))
    row, col = min(row, ROWS - height), min(col, COLS - width)
    box = f"{row}:{row + height}, {col}:{col + width}"
    column, line = f"{row}:{row + height}, {col}:{col + 1}", f"{row}:{row + 1}, {col}:{col + width}"
    more = f"pl.add(x[{box}], 1.0)"
    return draw(
        st.sampled_from(
            [
                [f"out[{box}] = {more}"],
                [f"pl.store(pl.full([{height}, {width}], dtype=pl.FP32, value=2.0), [{row}, {col}], out)"],
                ["for i in pl.range(n):", "    out[i : i + 1, :] = pl.add(x[i : i + 1, :], 3.0)"],
                ["for i in pl.range(2):", "    out[:, i * 16 : i * 16 + 16] = pl.add(x[:, i * 16 : i * 16 + 16], 4.0)"],
                ["if n > 5:", f"    out[{box}] = {more}"],
                [f"out[{box}] = pl.add(out[{box}], 1.0)"],
                [f"pl.store({more}, [{row}, {col}], out, atomic=pl.AtomicType.Add)"],
                ["view = pl.reshape(out, [32, 16])", "view[0:32, 0:8] = pl.reshape(x, [32, 16])[0:32, 8:16]"],
                [f"out[{column}] = pl.row_max(x[{box}])"],
                [f"out[{line}] = pl.col_max(x[{box}])"],
                ["out[0:16, 8:24] = pl.transpose(x[0:16, 0:16], 0, 1)"],
                ["part = pl.load(x, [0, 0], [16, 32], valid_shape=[n, 32])", "pl.store(part, [0, 0], out)"],
            ]
        )
    )


class Tensors:
    """Resident tensors, each in memory that another one left full of sevens, and what they must hold."""

    def __init__(self, worker: ChipWorker) -> None:
        self.worker = worker
        self.all: list[tuple[DeviceTensor, np.ndarray]] = []

    def fresh(self) -> tuple[DeviceTensor, np.ndarray]:
        for left in [self.worker.alloc_tensor((ROWS, COLS), torch.float32, init=SEVENS) for _ in range(2)]:
            self.worker.free_tensor(left)
        made = self.worker.alloc_tensor((ROWS, COLS), torch.float32), np.zeros((ROWS, COLS), np.float32)
        self.all.append(made)
        return made


SEVENS = torch.full((ROWS, COLS), 7.0)
NUMBER = itertools.count()
STEPS = st.lists(st.sampled_from(["call", "submit", "again", "bound", "updated", "queued", "look"]), max_size=10)


@pytest.fixture(scope="module")
def worker():
    with ChipWorker() as worker:
        yield worker


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.lists(writes(), min_size=1, max_size=3), counts=st.tuples(*[st.integers(0, ROWS)] * 2), steps=STEPS)
def test_what_a_launch_leaves_alone_reads_as_zero(
    worker: ChipWorker, tmp_path_factory: Any, body: list[list[str]], counts: tuple[int, int], steps: list[str]
) -> None:
    text = HEAD + "".join(f"    {line}\n" for statement in body for line in statement)
    path: Path = tmp_path_factory.mktemp("written") / f"kernel_{next(NUMBER)}.py"
    kernel: Any = kernel_of(text, path)
    # Small integers, whose sums are exact.
    given_x = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS) % 11
    program = kernel.lower(given_x, given_x, pl.RUNTIME)
    handle = worker.register(kernel.compile(SEVENS, SEVENS, pl.RUNTIME))
    tensors = Tensors(worker)
    x = worker.alloc_tensor((ROWS, COLS), torch.float32, init=torch.from_numpy(given_x))
    last = bound_to = tensors.fresh()
    bound = handle.bind(x, bound_to[0], counts[0])
    futures = []
    for number, step in enumerate(steps):
        if step == "look":
            np.testing.assert_array_equal(last[0].to_host().numpy(), last[1], err_msg=text)
            continue
        if step in ("call", "submit", "again"):
            # Three alike in a row: from the third on a launch knows what it overwrites.
            target, count = last if step == "again" else tensors.fresh(), counts[number // 3 % 2]
            if step == "submit":
                futures.append(handle.submit(x, target[0], count))
            else:
                handle(x, target[0], count)
        else:
            if step == "updated":
                bound_to = tensors.fresh()
                bound.update(out=bound_to[0])
            target, count = bound_to, counts[0]
            if step == "queued":
                futures.append(bound.submit())
            else:
                bound()
        interp.run(program, given_x, target[1], count)
        last = target
    for future in futures:
        future.result()
    for tensor, expected in tensors.all:
        np.testing.assert_array_equal(tensor.to_host().numpy(), expected, err_msg=text)
        worker.free_tensor(tensor)
    worker.free_tensor(x)
    handle.unregister()
