"""Resident weights keep a packed form, which the memory report counts; results never show it."""

from __future__ import annotations

import pytest
import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig


@pl.jit
def product(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, w)
    return out


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randint(-4, 5, shape).float()


@pytest.mark.parametrize("packed_weights", [True, False])
def test_a_weight_that_is_used_again_is_packed_unless_that_is_off(packed_weights: bool) -> None:
    x, weight = _numbers(8, 128), _numbers(128, 256)
    with ChipWorker(RunConfig(packed_weights=packed_weights)) as worker:
        w = worker.alloc_tensor((128, 256), torch.float32, init=weight)
        for _ in range(3):
            out = torch.zeros(8, 256)
            product(x, w, out)
            assert torch.equal(out, x @ weight)
        assert (worker.memory_stats()["packed"] > 0) == packed_weights
        assert "packed weights" in str(worker.memory_report())
        new = _numbers(128, 256)
        worker.copy_to(w.data_ptr, new.data_ptr(), w.nbytes)
        assert worker.memory_stats()["packed"] == 0
        product(x, w, out)
        assert torch.equal(out, x @ new)
        worker.free_tensor(w)


@pytest.mark.parametrize("seed", range(4))
def test_a_random_schedule_gives_what_the_order_of_the_program_gives(seed: int) -> None:
    x, weight = _numbers(8, 128), _numbers(128, 256)
    with ChipWorker(RunConfig(schedule_seed=seed)):
        out = torch.zeros(8, 256)
        product(x, weight, out)
    assert torch.equal(out, x @ weight)
