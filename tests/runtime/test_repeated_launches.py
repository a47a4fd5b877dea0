"""Launches that repeat the last one take its steps again: with other tensors and values, and however many there are."""

import pytest
import torch

import pypto.language as pl
from pypto.runtime import ChipWorker

# Around the number of steps that are kept (2,048), and around a power of two far below.
COUNTS = [1, 63, 64, 65, 1000, 2047, 2048, 2049, 2600]


@pl.jit.incore
def step(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    total = pl.add(pl.load(a, [0, 0], [4, 16]), pl.load(b, [0, 0], [4, 16]))
    return pl.store(total, [0, 0], a)


@pl.jit
def steps(a: pl.InOut[pl.Tensor], b: pl.Tensor, count: int):
    for _ in pl.range(count):
        a = step(a, b)
    return a


@pytest.fixture(scope="module")
def worker():
    with ChipWorker() as worker:
        yield worker


@pytest.fixture(scope="module")
def handle(worker):
    return worker.register(steps.compile(torch.zeros(4, 16), torch.zeros(4, 16), pl.RUNTIME))


@pytest.mark.parametrize("count", COUNTS)
def test_repeated_launches_take_each_of_their_steps(worker, handle, count):
    sums = [worker.alloc_tensor((4, 16), torch.float32, init=torch.zeros(4, 16)) for _ in range(2)]
    ones = [worker.alloc_tensor((4, 16), torch.float32, init=torch.full((4, 16), float(n))) for n in (1, 3)]
    for launch in range(6):
        handle(sums[launch % 2], ones[launch % 2], count)
    # Sums of small integers are exact.
    assert torch.equal(sums[0].to_host(), torch.full((4, 16), 3.0 * count))
    assert torch.equal(sums[1].to_host(), torch.full((4, 16), 9.0 * count))


def test_another_count_after_many_alike_is_not_mistaken_for_the_last(worker, handle):
    total = worker.alloc_tensor((4, 16), torch.float32, init=torch.zeros(4, 16))
    one = worker.alloc_tensor((4, 16), torch.float32, init=torch.ones(4, 16))
    counts = [100] * 4 + [101] + [100] * 4 + [3000] * 4 + [100] * 4 + [0] * 4 + [100]
    for count in counts:
        handle(total, one, count)
    assert torch.equal(total.to_host(), torch.full((4, 16), float(sum(counts))))
