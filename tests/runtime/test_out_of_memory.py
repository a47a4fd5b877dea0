"""The error of device memory that cannot be had: one class, which is a `MemoryError` and PyPTO's `RuntimeError`."""

import pickle
from collections.abc import Callable, Iterator

import pytest
import torch
from provoked import through_scratch

import pypto
from pypto.runtime import ChipWorker, RunConfig

MIB = 1 << 20


@pytest.fixture
def small() -> Iterator[ChipWorker]:
    worker = ChipWorker(RunConfig(device_memory=MIB))
    yield worker
    worker.close()


def over_budget(worker: ChipWorker) -> None:
    with worker.memory_budget(1, tag="cache"):
        worker.zeros((4,), torch.float32)


def through_host(worker: ChipWorker) -> None:
    host = torch.ones(2 * MIB // 64, 16)
    worker.run(through_scratch.compile(), host, torch.empty(1, 16))


WAYS: dict[str, Callable[[ChipWorker], object]] = {
    "malloc": lambda worker: worker.malloc(1 << 40),
    "malloc beyond all": lambda worker: worker.malloc(1 << 70),
    "alloc_tensor": lambda worker: worker.alloc_tensor((MIB,), torch.float32),
    "alloc_tensor with contents": lambda worker: worker.alloc_tensor((MIB,), torch.float32, init=torch.ones(MIB)),
    "alloc_tensor beyond all": lambda worker: worker.alloc_tensor((2**62, 8), torch.float32),
    "zeros": lambda worker: worker.zeros((MIB,), torch.float32),
    "from_host": lambda worker: worker.from_host(torch.ones(MIB)),
    "alloc_module": lambda worker: worker.alloc_module({"weight": torch.ones(MIB)}),
    "budget": over_budget,
    "launch": through_host,
    "open": lambda _: ChipWorker(RunConfig(device_memory=2**62)),
}


@pytest.mark.parametrize("way", WAYS)
def test_whoever_expects_either_class_gets_it(small: ChipWorker, way: str) -> None:
    for expected in (RuntimeError, MemoryError, pypto.OutOfMemoryError):
        with pytest.raises(expected) as raised:
            WAYS[way](small)
        assert type(raised.value) is pypto.OutOfMemoryError
        assert raised.value.code in (
            "out_of_memory", "allocation_too_large", "over_memory_budget", "workspace_exhausted", "reserve_failed"
        )  # fmt: skip


def test_a_program_that_expects_what_a_chip_says_finds_it(small: ChipWorker) -> None:
    for nbytes in (MIB + 1, 1 << 70):
        with pytest.raises(RuntimeError, match=r"^malloc failed: "):
            small.malloc(nbytes)
    with pytest.raises(RuntimeError, match=r"^malloc failed: out of device memory on worker #\d+: requested"):
        small.alloc_tensor((MIB,), torch.float32)


def test_it_travels_between_processes(small: ChipWorker) -> None:
    with pytest.raises(pypto.OutOfMemoryError) as raised:
        small.malloc(1 << 40)
    there = pickle.loads(pickle.dumps(raised.value))
    assert (type(there), str(there), there.code) == (pypto.OutOfMemoryError, str(raised.value), "out_of_memory")


def test_no_other_error_is_one(small: ChipWorker) -> None:
    with pytest.raises(ValueError, match="nbytes") as raised:
        small.malloc(0)
    assert not isinstance(raised.value, pypto.OutOfMemoryError)
