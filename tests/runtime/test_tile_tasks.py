"""Tasks of operations on whole tiles (sorts, transposes, gathers, scatters): the same on any cores in any order."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pypto.language as pl
from pypto._pypto import instruction_set
from pypto.runtime import ChipWorker, RunConfig, SanitizerError

CORES = (1, 2, 3)
SEEDS = range(30)
# From the least to the best.
ISAS = ("generic", "avx2", "avx512")

ROWS, COLS, BLOCKS = 48, 128, 12
EACH = ROWS // BLOCKS


@pl.jit
def sorts(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    index: pl.Tensor[[1, COLS], pl.UINT32],
    out: pl.Out[pl.Tensor[[ROWS, 2 * COLS], pl.FP32]],
):
    for block in pl.spmd(BLOCKS):
        numbers = pl.load(index, [0, 0], [1, COLS])
        for i in pl.range(EACH):
            runs = pl.sort32(pl.load(x, [block * EACH + i, 0], [1, COLS]), numbers)
            out = pl.store(pl.mrgsort(runs, block_len=64), [block * EACH + i, 0], out)
    return out


@pl.jit
def turns(x: pl.Tensor[[ROWS, COLS], pl.FP32], out: pl.Out[pl.Tensor[[COLS, ROWS], pl.FP32]]):
    half = pl.create_tensor([COLS, ROWS], pl.FP32)
    for row in pl.parallel(0, ROWS, EACH):
        with pl.at(level=pl.Level.CORE_GROUP):
            half = pl.store(pl.transpose(pl.load(x, [row, 0], [EACH, COLS]), 0, 1), [0, row], half)
    for col in pl.range(0, COLS, 32):
        with pl.at(level=pl.Level.CORE_GROUP):
            # Twice turned, over what other tasks wrote.
            tile = pl.transpose(pl.load(half, [col, 0], [32, ROWS]), 0, 1)
            out = pl.store(pl.transpose(tile, 0, 1), [col, 0], out)
    return out


@pl.jit
def picks(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    index: pl.Tensor[[ROWS, COLS], pl.INT32],
    out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    own = pl.create_tensor([ROWS, COLS], pl.FP32)
    for block in pl.spmd(BLOCKS):
        columns = pl.load(index, [block * EACH, 0], [EACH, COLS])
        own = pl.store(
            pl.gather(pl.load(x, [block * EACH, 0], [EACH, COLS]), dim=-1, index=columns), [block * EACH, 0], own
        )
    for block in pl.spmd(BLOCKS):
        # Rows that other blocks wrote: the gather may read any of them.
        places = pl.load(index, [(BLOCKS - 1 - block) * EACH, 0], [EACH, COLS])
        out = pl.store(pl.mgather(own, places, coalesce="elem"), [block * EACH, 0], out)
    return out


def _x() -> torch.Tensor:
    # Ties, zeros of both signs.
    x = torch.randint(-20, 20, (ROWS, COLS), generator=torch.Generator().manual_seed(5)).float() / 4
    x[3, 5::7] = -0.0
    return x


def _places() -> torch.Tensor:
    return torch.randint(0, COLS, (ROWS, COLS), generator=torch.Generator().manual_seed(6), dtype=torch.int32)


def _sorted(x: torch.Tensor) -> torch.Tensor:
    found = torch.sort(x, dim=1, descending=True, stable=True)
    return torch.stack([found.values, found.indices.int().view(torch.float32)], dim=2).reshape(ROWS, 2 * COLS)


def _picked(x: torch.Tensor) -> torch.Tensor:
    places = _places().long()
    turned = places.view(BLOCKS, EACH, COLS).flip(0).reshape(ROWS, COLS)
    return torch.gather(x, 1, places).view(-1)[turned]


CASES = {
    "sorts": (sorts, lambda: [_x(), torch.arange(COLS).to(torch.uint32)[None]], _sorted, [ROWS, 2 * COLS]),
    "turns": (turns, lambda: [_x()], torch.t, [COLS, ROWS]),
    "picks": (picks, lambda: [_x(), _places()], _picked, [ROWS, COLS]),
}


def launched(kernel: Any, args: list[torch.Tensor], **config: Any) -> torch.Tensor:
    """What three launches on the same resident tensors leave: the last two are repetitions."""
    with ChipWorker(config=RunConfig(device_memory=1 << 26, **config)) as worker:
        resident = [worker.alloc_tensor(arg.shape, arg.dtype, init=arg) for arg in args]
        handle = worker.register(kernel.compile(*args))
        results = []
        for _ in range(3):
            resident[-1].copy_(args[-1])
            handle(*resident)
            results.append(resident[-1].to_host())
        for tensor in resident:
            worker.free_tensor(tensor)
    for result in results:
        assert torch.equal(result.view(torch.int32), results[0].view(torch.int32))
    return results[0]


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_the_same_on_any_number_of_cores_and_in_any_order(name: str) -> None:
    kernel, inputs, reference, shape = CASES[name]
    args = [*inputs(), torch.zeros(shape)]
    want = reference(args[0]).contiguous().view(torch.int32)
    for cores in CORES:
        assert torch.equal(launched(kernel, args, cores=cores).view(torch.int32), want)
    for seed in SEEDS:
        got = launched(kernel, args, cores=CORES[seed % len(CORES)], schedule_seed=seed)
        assert torch.equal(got.view(torch.int32), want), f"seed {seed}"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_the_same_on_each_instruction_set(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if ISAS.index(isa) > ISAS.index(instruction_set()):
        pytest.skip(f"this processor has no {isa}")
    monkeypatch.setenv("PYPTO_ISA", isa)
    kernel, inputs, reference, shape = CASES[name]
    args = [*inputs(), torch.zeros(shape)]
    assert torch.equal(launched(kernel, args).view(torch.int32), reference(args[0]).contiguous().view(torch.int32))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found_where_tasks_are_ordered(name: str) -> None:
    kernel, inputs, reference, shape = CASES[name]
    args = [*inputs(), torch.zeros(shape)]
    got = launched(kernel, args, sanitize="race,uninit,bounds")
    assert torch.equal(got.view(torch.int32), reference(args[0]).contiguous().view(torch.int32))


@pl.jit
def not_ordered(x: pl.Tensor[[ROWS, COLS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]]):
    half = pl.create_tensor([COLS, ROWS], pl.FP32)
    with pl.manual_scope():
        with pl.at(level=pl.Level.CORE_GROUP):
            half = pl.store(pl.transpose(x[:, :], 0, 1), [0, 0], half)
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.transpose(half[:, :], 0, 1), [0, 0], out)
    return out


def test_a_transpose_that_does_not_wait_for_what_it_reads_is_a_race() -> None:
    worker = ChipWorker(config=RunConfig(device_memory=1 << 26, sanitize="race"))
    with worker, pytest.raises(SanitizerError) as caught:
        not_ordered(_x(), torch.zeros(ROWS, COLS))
    (race,) = caught.value.findings
    first, second = race.accesses
    assert (race.kind, first.action, second.action) == ("race", "write", "read")
    assert (race.memory.tensor, race.memory.extents) == ("half", (COLS, ROWS))
