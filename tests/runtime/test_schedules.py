"""Results do not depend on the number of cores, nor on the order in which independent tasks run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig

CORES = (1, 2, 3, 5)
SEEDS = range(16)


def launched(kernel: Any, args: list[torch.Tensor], **config: Any) -> torch.Tensor:
    """The last argument after a launch on copies. A second one is written down, and a third runs from that."""
    results = []
    with ChipWorker(config=RunConfig(device_memory=1 << 26, **config)):
        for _ in range(3):
            copies = [arg.clone() for arg in args]
            kernel(*copies)
            results.append(copies[-1])
    for result in results[1:]:
        assert torch.equal(result.view(torch.uint8), results[0].view(torch.uint8))
    return results[0]


def same_everywhere(kernel: Any, *args: torch.Tensor) -> torch.Tensor:
    """The last argument: the same bits for every number of cores and under every seed."""
    first = launched(kernel, list(args), cores=1)
    others = [launched(kernel, list(args), cores=cores) for cores in CORES[1:]]
    others += [launched(kernel, list(args), cores=CORES[seed % 4], schedule_seed=seed) for seed in SEEDS]
    for other in others:
        assert torch.equal(other.view(torch.uint8), first.view(torch.uint8))
    return first


BLOCKS = 37
N = pl.dynamic("N")


@pl.jit
def adds(x: pl.Tensor[[BLOCKS, 24], pl.FP32], out: pl.InOut[pl.Tensor[[1, 24], pl.FP32]]):
    for i in pl.spmd(BLOCKS):
        out = pl.store(pl.load(x, [i, 0], [1, 24]), [0, 0], out, atomic=pl.AtomicType.Add)
    return out


@pl.jit
def adds_halves(x: pl.Tensor[[BLOCKS, 24], pl.FP32], out: pl.InOut[pl.Tensor[[1, 24], pl.BF16]]):
    for i in pl.spmd(BLOCKS):
        t = pl.cast(pl.load(x, [i, 0], [1, 24]), pl.BF16)
        out = pl.store(t, [0, 0], out, atomic=pl.AtomicType.Add)
    return out


@pl.jit
def adds_from_tasks(x: pl.Tensor[[BLOCKS, 24], pl.FP32], out: pl.InOut[pl.Tensor[[1, 24], pl.FP32]]):
    for i in pl.range(BLOCKS):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.load(x, [i, 0], [1, 24]), [0, 0], out, atomic=pl.AtomicType.Add)
    return out


@pytest.mark.parametrize(
    ("kernel", "dtype"), [(adds, torch.float32), (adds_halves, torch.bfloat16), (adds_from_tasks, torch.float32)]
)
def test_atomic_adds_happen_in_the_order_of_the_blocks(kernel: Any, dtype: torch.dtype) -> None:
    # Magnitudes from 1e-4 to 1e4, so that another order rounds to other bits.
    scale = torch.logspace(-4, 4, BLOCKS)[torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(3))]
    x = torch.randn(BLOCKS, 24, generator=torch.Generator().manual_seed(4)) * scale[:, None]
    want = torch.zeros(1, 24, dtype=dtype)
    for row in x.to(dtype):
        want += row
    assert not torch.equal(want, x.to(dtype).flip(0).cumsum(0)[-1:]), "the order shows in the bits"
    assert torch.equal(same_everywhere(kernel, x, torch.zeros(1, 24, dtype=dtype)), want)


@pl.jit
def passes_round(
    x: pl.Tensor[[N, 8], pl.FP32], blocks: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]
):
    n = pl.read(blocks, [0])
    tmp = pl.create_tensor([128, 8], pl.FP32, init_value=0)
    more = pl.create_tensor([128, 8], pl.FP32, init_value=0)
    for i in pl.spmd(n):
        mine = pl.load(x, [i, 0], [1, 8])
        tmp = pl.store(mine, [i, 0], tmp)
        pl.system.syncall()
        right = pl.add(pl.load(tmp, [(i + 1) % n, 0], [1, 8]), mine)
        more = pl.store(right, [i, 0], more)
        pl.system.syncall()
        out = pl.store(pl.add(pl.load(more, [(i + n - 1) % n, 0], [1, 8]), mine), [i, 0], out)
    return out


@pytest.mark.parametrize("blocks", [1, 2, 3, 24, 100])
def test_barriers_hold_for_any_number_of_blocks_on_any_number_of_cores(blocks: int) -> None:
    x = torch.randn(blocks, 8, generator=torch.Generator().manual_seed(blocks))
    more = x.roll(-1, 0) + x
    result = same_everywhere(passes_round, x, torch.tensor([blocks], dtype=torch.int32), torch.zeros(blocks, 8))
    assert torch.equal(result, more.roll(1, 0) + x)


@pl.jit
def graph(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    a = pl.create_tensor([64, 64], pl.FP32)
    b = pl.create_tensor([64, 64], pl.FP32)
    for i in pl.spmd(4):
        a = pl.store(pl.mul(pl.load(x, [i * 16, 0], [16, 64]), 3.0), [i * 16, 0], a)
    for j in pl.spmd(4):
        b = pl.store(pl.exp(pl.load(x, [0, j * 16], [64, 16])), [0, j * 16], b)
    for k in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.add(pl.load(a, [k * 16, 0], [16, 64]), pl.load(b, [k * 16, 0], [16, 64]))
            a = pl.store(t, [k * 16, 0], a)
        with pl.at(level=pl.Level.CORE_GROUP):
            b = pl.store(pl.sub(pl.load(b, [k * 16, 0], [16, 64]), 1.0), [k * 16, 0], b)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.matmul(a[:, :], b[:, :])
    return out


def test_a_graph_of_tasks_gives_the_same_bits_whatever_runs_first() -> None:
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    b = x.exp()
    result = same_everywhere(graph, x, torch.zeros(64, 64))
    torch.testing.assert_close(result, (x * 3 + b) @ (b - 1), rtol=1e-4, atol=1e-3)


@pl.jit
def two_faults(
    x: pl.Tensor[[64, 16], pl.FP32],
    a: pl.Out[pl.Tensor[[64, 16], pl.FP32]],
    b: pl.Out[pl.Tensor[[64, 16], pl.FP32]],
    n: pl.Scalar[pl.INT32],
):
    """Three tasks that may run at once; with more than 8 rows two of them fail."""
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.store(pl.add(pl.load(x, [0, 0], [8, 16], valid_shape=[n, 16]), 1.0), [0, 0], a)
    with pl.at(level=pl.Level.CORE_GROUP):
        b = pl.store(pl.add(pl.load(x, [0, 0], [8, 16], valid_shape=[n, 16]), 1.0), [0, 0], b)
    with pl.at(level=pl.Level.CORE_GROUP):
        b = pl.store(pl.add(pl.load(x, [0, 0], [8, 16]), 1.0), [16, 0], b)
    return a, b


def test_of_two_tasks_that_fail_the_first_is_told_in_every_order() -> None:
    tensors = [torch.zeros(64, 16) for _ in range(3)]
    compiled = two_faults.compile(*tensors, pl.RUNTIME)
    told = set()
    for cores, seed in [(1, None), *((cores, seed) for cores in (2, 3) for seed in range(6))]:
        with ChipWorker(config=RunConfig(device_memory=1 << 22, cores=cores, schedule_seed=seed)) as worker:
            handle = worker.register(compiled)
            for _ in range(4):
                with pytest.raises(RuntimeError, match="valid shape of") as failed:
                    handle(*tensors, 9)
                told.add(str(failed.value))
    assert len(told) == 1, told
