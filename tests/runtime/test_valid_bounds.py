"""`sanitize="bounds"` on what is declared valid of device memory: views, slices, parameters, and elements of tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_sanitized_text import check
from test_sanitizers import findings, line_of, out

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig

X = torch.arange(16 * 64, dtype=torch.float32).reshape(16, 64)


@pytest.fixture
def checked() -> Any:
    with ChipWorker(config=RunConfig(sanitize="bounds", device_memory=1 << 24)) as worker:
        yield worker


def number(value: int) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.int32)


def bounds(kernel: Any, *args: Any) -> list[Any]:
    return findings(kernel, *args, sanitize="bounds")


@pl.jit
def through_view(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    part = pl.tensor.view(out, valid_shape=[10, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.store(pl.load(x, [0, 0], [16, 64]), [0, 0], part)  # stores
    return out


@pl.jit
def through_slice(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    part = pl.slice(out, [16, 64], [0, 0], valid_shape=[10, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        part[:, :] = pl.add(x[:, :], 1.0)  # stores
    return out


@pl.jit
def through_slice_of_a_kernel(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.add(x[:, :], 1.0)
        pl.store(t, [0, 0], pl.slice(out, [16, 64], [0, 0], valid_shape=[10, 64]))  # stores
    return out


@pl.jit
def through_a_box_of_it(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    part = pl.slice(out, [16, 64], [0, 0], valid_shape=[10, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        part[8:16, :] = pl.add(x[8:16, :], 1.0)  # stores
    return out


@pl.jit
def adds(x: pl.Tensor[[16, 64], pl.FP32], out: pl.InOut[pl.Tensor[[16, 64], pl.FP32]]):
    part = pl.slice(out, [16, 64], [0, 0], valid_shape=[10, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.store(x[:, :], [0, 0], part, atomic=pl.AtomicType.Add)  # stores
    return out


@pl.jit.incore
def plus_one(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    out[:, :] = pl.add(x[:, :], 1.0)  # stores
    return out


@pl.jit
def through_a_parameter(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    part = pl.slice(out, [16, 64], [0, 0], valid_shape=[10, 64])
    part = plus_one(x, part)
    return out


STORES = [through_view, through_slice, through_slice_of_a_kernel, through_a_box_of_it, through_a_parameter, adds]


@pytest.mark.parametrize("kernel", STORES)
def test_a_store_of_more_than_is_valid_of_its_destination_is_reported(kernel: Any) -> None:
    stores = plus_one if kernel is through_a_parameter else kernel
    (beyond,) = bounds(kernel, X, out(16, 64))
    assert beyond.kind == "bounds"
    assert "along axis 0" in beyond.message
    assert beyond.accesses[0].action == ("atomic add" if kernel is adds else "write")
    assert beyond.accesses[0].line == line_of(stores, "# stores")


@pl.jit
def tail(x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    rows = pl.cast(pl.read(n, [0]), pl.INDEX)
    source = pl.slice(x, [16, 64], [0, 0], valid_shape=[rows, 64])
    target = pl.slice(out, [16, 64], [0, 0], valid_shape=[rows, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        target[:, :] = pl.add(source[:, :], 1.0)
    return out


@pl.jit
def tail_of_int32(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    rows = pl.read(n, [0])
    source = pl.slice(x, [16, 64], [0, 0], valid_shape=[rows, 64])
    target = pl.slice(out, [16, 64], [0, 0], valid_shape=[rows, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        target[:, :] = pl.add(source[:, :], 1.0)
    return out


TAILS = (tail, tail_of_int32)


@pytest.mark.parametrize("tail", TAILS)
def test_what_is_valid_on_both_sides_is_clean_and_done(tail: Any) -> None:
    result = out(16, 64)
    for rows in (0, 1, 10, 16):
        assert findings(tail, X, number(rows), result) == []
        torch.testing.assert_close(result[:rows], X[:rows] + 1)


def test_more_valid_than_there_is_is_reported_with_what_to_do() -> None:
    for rows, remedy in ((17, "pl.min(n, 16)"), (-1, "pl.max(n, 0)")):
        found = bounds(tail, X, number(rows), out(16, 64))
        assert {finding.memory.tensor for finding in found} == {"source", "target"}
        assert all(f"which has 16 elements there; give it {remedy}" in finding.message for finding in found)


@pl.jit
def two_axes(
    x: pl.Tensor[[4, 16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[4, 16, 64], pl.FP32]]
):
    cols = pl.read(n, [0])
    for i in pl.spmd(4):
        t = x[i]
        pl.store(t, [i, 0, 0], pl.slice(out, [4, 16, 64], [0, 0, 0], valid_shape=[4, 16, cols]), [1, 16, 64])
    return out


def test_every_axis_counts() -> None:
    x = torch.ones(4, 16, 64)
    assert bounds(two_axes, x, number(64), out(4, 16, 64)) == []
    (beyond,) = bounds(two_axes, x, number(48), out(4, 16, 64))
    assert "[0:64] along axis 2" in beyond.message
    assert "of which only 48 are valid there" in beyond.message


# Elements.


@pl.jit
def reads(x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    part = pl.slice(x, [16, 64], [0, 0], valid_shape=[10, 64])
    first = pl.read(part, [pl.read(n, [0]), 0])  # outside
    with pl.at(level=pl.Level.CORE_GROUP):
        second = pl.read(part, [pl.read(n, [0]), 1])  # inside
        out[:, :] = pl.add(x[:, :], first + second)
    return out


@pl.jit
def writes(x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.InOut[pl.Tensor[[16, 64], pl.FP32]]):
    part = pl.slice(out, [16, 64], [0, 0], valid_shape=[10, 64])
    pl.write(part, [pl.read(n, [0]), 0], 3.0)
    return out


def test_an_element_that_is_not_valid_is_reported() -> None:
    assert bounds(reads, X, number(9), out(16, 64)) == []
    found = bounds(reads, X, number(10), out(16, 64))
    assert [finding.accesses[0].line for finding in found] == [line_of(reads, "# outside"), line_of(reads, "# inside")]
    assert [finding.memory.offsets for finding in found] == [(10, 0), (10, 1)]
    assert all("of which only 10 are valid there; put it into an `if`" in finding.message for finding in found)
    assert bounds(writes, X, number(9), out(16, 64)) == []
    (beyond,) = bounds(writes, X, number(10), out(16, 64))
    assert (beyond.accesses[0].action, beyond.memory.offsets) == ("write", (10, 0))


@pl.jit
def reads_tile(x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64], valid_shape=[10, 64])
        pl.write(out, [0], pl.read(t, [pl.read(n, [0]), 0]))  # reads
    return out


@pl.jit
def writes_tile(x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64], valid_shape=[10, 64])
        pl.write(t, [pl.read(n, [0]), 0], 5.0)
        pl.write(out, [0], pl.read(t, [pl.read(n, [0]), 0]))
    return out


def test_an_element_of_a_tile_that_holds_nothing_or_does_not_exist_is_reported() -> None:
    assert bounds(reads_tile, X, number(9), out(1)) == []
    (undefined,) = bounds(reads_tile, X, number(10), out(1))
    assert "a read of element [10, 0] of a tile, of which 10 x 64 elements are valid" in undefined.message
    assert undefined.accesses[0].line == line_of(reads_tile, "# reads")
    (missing,) = bounds(reads_tile, X, number(16), out(1))
    assert "element [16, 0] of a tile of [16, 64]" in missing.message
    assert bounds(writes_tile, X, number(12), out(1)) == []  # what was written is defined
    lost = bounds(writes_tile, X, number(16), out(1))
    assert [finding.accesses[0].action for finding in lost] == ["write", "read"]


@pl.jit
def adds_less(
    x: pl.Tensor[[16, 64], pl.FP32],
    column: pl.Tensor[[16, 1], pl.FP32],
    n: pl.Tensor[[1], pl.INT32],
    out: pl.Out[pl.Tensor[[16, 64], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.cast(pl.read(n, [0]), pl.INDEX)
        whole = pl.load(x, [0, 0], [16, 64])
        part = pl.load(x, [0, 0], [16, 64], valid_shape=[rows, 64])
        both = pl.mul(pl.add(whole, part), 2.0)
        pl.store(pl.add(both, pl.load(column, [0, 0], [16, 1])), [0, 0], out)  # stores
    return out


def test_a_result_means_something_where_both_operands_do() -> None:
    column = torch.ones(16, 1)
    assert bounds(adds_less, X, column, number(16), out(16, 64)) == []
    (found,) = bounds(adds_less, X, column, number(12), out(16, 64))
    assert "16 x 64 elements of a tile are stored, and only 12 x 64 of them are valid" in found.message
    assert found.accesses[0].line == line_of(adds_less, "# stores")


# Indices.


@pl.jit
def looks_up(
    x: pl.Tensor[[16, 64], pl.FP32], at: pl.Tensor[[1, 64], pl.INT32], out: pl.Out[pl.Tensor[[1, 64], pl.FP32]]
):
    part = pl.slice(x, [16, 64], [0, 0], valid_shape=[16, 32])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.tile.mgather(part, at[:, :], coalesce="elem")
    return out


def test_indices_count_what_is_valid() -> None:
    at = torch.arange(64, dtype=torch.int32).reshape(1, 64) % 32
    assert bounds(looks_up, X, at, out(1, 64)) == []
    at[0, 5] = 3 * 64 + 40
    (beyond,) = bounds(looks_up, X, at, out(1, 64))
    assert (beyond.memory.tensor, beyond.memory.offsets) == ("part", (3, 40))
    assert "of which only 32 are valid there" in beyond.message


# Other ways to declare it.

ROWS = pl.dynamic("rows")


@pl.program
class Declared:
    @pl.function(type=pl.FunctionType.InCore)
    def fill(
        self,
        x: pl.Tensor[[16, 64], pl.FP32],
        out: pl.Out[pl.Tensor[[16, 64], pl.FP32, pl.TensorView(valid_shape=[ROWS, 64])]],
        rows: pl.Scalar[pl.INDEX],
    ):
        return pl.store(pl.load(x, [0, 0], [16, 64]), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[16, 64], pl.FP32],
        n: pl.Tensor[[1], pl.INT32],
        out: pl.Out[pl.Tensor[[16, 64], pl.FP32]],
    ):
        out = self.fill(x, out, pl.read(n, [0]))
        return out


def test_an_annotation_says_what_is_valid_of_a_parameter(checked: ChipWorker, tmp_path: Path) -> None:
    x, result = X.numpy(), np.zeros((16, 64), np.float32)
    for rows, found in ((16, False), (15, True)):
        n = np.array([rows], np.int32)
        assert bool(check(checked, Declared, tmp_path / str(rows), x, n, result)) is found


@pl.jit
def with_a_barrier(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    for i in pl.spmd(2):
        rows = pl.read(n, [0])
        t = pl.add(x[i * 8 : i * 8 + 8, :], 1.0)
        pl.system.syncall()
        pl.store(t, [i * 8, 0], pl.slice(out, [16, 64], [0, 0], valid_shape=[rows, 64]))
    return out


def test_validity_goes_with_its_numbers_through_a_barrier() -> None:
    assert bounds(with_a_barrier, X, number(16), out(16, 64)) == []
    (beyond,) = bounds(with_a_barrier, X, number(12), out(16, 64))
    assert (beyond.accesses[0].block, "[8:16] along axis 0" in beyond.message) == (1, True)


@pytest.mark.parametrize("kernel", STORES)
def test_text_of_a_program_keeps_what_is_valid(kernel: Any, checked: ChipWorker, tmp_path: Path) -> None:
    x, result = X.numpy(), np.zeros((16, 64), np.float32)
    assert check(checked, kernel.lower(x, result), tmp_path, x, result)


@pytest.mark.parametrize("tail", TAILS)
def test_text_keeps_what_is_valid_at_run_time(tail: Any, checked: ChipWorker, tmp_path: Path) -> None:
    x, result = X.numpy(), np.zeros((16, 64), np.float32)
    for rows, found in ((16, False), (17, True)):
        n = np.array([rows], np.int32)
        report = check(checked, tail.lower(x, n, result), tmp_path / str(rows), x, n, result)
        assert bool(report) is found
