"""A batch without rows is no work: the launch does nothing, and says so in its counters and spans."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, benchmark

M = pl.dynamic("M")


@pl.jit
def scale_rows(a: pl.Tensor[[M, 16], pl.FP32], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):
    rows = pl.tensor.dim(a, 0)
    for row in pl.range(0, rows, 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            tile = pl.load(a, [row, 0], [1, 16])
            out = pl.store(pl.mul(tile, 2.0), [row, 0], out)
    return out


@pl.jit
def sum_rows(a: pl.Tensor[[M, 16], pl.FP32], total: pl.InOut[pl.Tensor[[1, 16], pl.FP32]]):
    rows = pl.tensor.dim(a, 0)
    for row in pl.range(0, rows, 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            tile = pl.load(a, [row, 0], [1, 16])
            total = pl.store(pl.add(tile, pl.load(total, [0, 0], [1, 16])), [0, 0], total)
    return total


@pytest.fixture(scope="module")
def scale() -> ir.CompiledProgram:
    return scale_rows.compile()


@pytest.fixture(scope="module")
def total() -> ir.CompiledProgram:
    return sum_rows.compile()


Call = Callable[[ChipWorker, ir.CompiledProgram, tuple[Any, ...]], Any]
STYLES: dict[str, Call] = {
    "run": lambda worker, compiled, args: worker.run(compiled, *args),
    "handle": lambda worker, compiled, args: worker.register(compiled)(*args),
}


@pytest.mark.parametrize("style", STYLES)
def test_nothing_is_copied_or_run(worker: ChipWorker, scale: ir.CompiledProgram, style: str) -> None:
    launch = STYLES[style]
    empty = torch.empty(0, 16)
    assert launch(worker, scale, (empty, torch.empty(0, 16))) is None
    counters = worker.counters()
    assert (counters["launches"], counters["h2d_bytes"], counters["d2h_bytes"]) == (1, 0, 0)
    assert worker.memory_stats()["staging"] == 0
    a, out = torch.ones(3, 16), torch.empty(3, 16)
    launch(worker, scale, (a, out))
    assert torch.equal(out, torch.full((3, 16), 2.0)), "the worker goes on with the next batch"


def test_a_kernel_may_be_compiled_by_a_call_without_rows() -> None:
    empty, rows = (torch.empty(0, 16), torch.empty(0, 16)), (torch.ones(3, 16), torch.empty(3, 16))
    compiled = scale_rows.compile(*empty)
    assert scale_rows.compile(*rows) is compiled, "how many rows there are is no part of it"
    with ChipWorker() as worker:
        assert scale_rows(*empty) is None
        scale_rows(*rows)
        assert worker.counters()["registrations"] == 1
    assert torch.equal(rows[1], torch.full((3, 16), 2.0))
    with pytest.raises(ValueError, match=r"shape \[3, 0\]"):
        scale_rows(torch.empty(3, 0), torch.empty(3, 0))


def test_the_arguments_are_checked_all_the_same(worker: ChipWorker, scale: ir.CompiledProgram) -> None:
    cases = [
        (torch.empty(0, 16), torch.empty(1, 16), ValueError, r"Parameter 'out' .* axis 0 is 1, but M is 0 "),
        (torch.empty(0, 17), torch.empty(0, 16), TypeError, r"Parameter 'a' .* Axis 1 must be 16, not 17"),
        (torch.empty(0, 16), torch.empty(0, 16).int(), TypeError, r"Parameter 'out' .*expects dtype FP32"),
        (torch.empty(4, 0), torch.empty(4, 16), TypeError, r"Parameter 'a' .* Axis 1 must be 16, not 0"),
    ]
    for a, out, error, text in cases:
        with pytest.raises(error, match=text):
            worker.run(scale, a, out)


def test_a_result_that_has_elements_is_computed_from_no_rows(worker: ChipWorker, total: ir.CompiledProgram) -> None:
    out = torch.full((1, 16), 5.0)
    worker.run(total, torch.empty(0, 16), out)
    assert torch.equal(out, torch.full((1, 16), 5.0))
    worker.run(total, torch.ones(4, 16), out)
    assert torch.equal(out, torch.full((1, 16), 9.0))
    assert worker.counters()["d2h_bytes"] == 2 * out.nbytes


def test_it_is_measured_like_any_launch(worker: ChipWorker, scale: ir.CompiledProgram) -> None:
    stats = benchmark(scale, [torch.empty(0, 16), torch.empty(0, 16)], rounds=4, warmup=1, worker=worker)
    assert len(stats.host_wall_us) == len(stats.device_wall_us) == 4
    assert all(host > 0 for host in stats.host_wall_us)
    assert (stats.h2d_bytes, stats.d2h_bytes) == (0, 0)
    names = {span.name for span in stats.invocations[0].spans}
    assert {"chip.run", "chip.run.bind", "chip.run.runner_run", "chip.run.runner_run.device_wall"} <= names
    assert not any("h2d" in name or "task" in name for name in names)
