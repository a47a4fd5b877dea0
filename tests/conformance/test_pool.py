"""The memory pool: freed memory is one hole again, what fits exactly is given, exhaustion says how much there is."""

import re
from collections.abc import Iterator

import pytest
import torch

from pypto.runtime import ChipWorker, RunConfig

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def parts_of(error: MemoryError) -> dict[str, int]:
    """The sizes that an out-of-memory error names."""
    return {name: int(size) for name, size in re.findall(r"[:,] ([a-z ]+) (\d+) bytes", str(error))}


@pytest.fixture
def gigabyte() -> Iterator[ChipWorker]:
    """One gibibyte of capacity; address space only, as nothing touches it."""
    worker = ChipWorker(config=RunConfig(device_memory=GIB))
    yield worker
    worker.close()


def test_a_bigger_tensor_fits_where_a_smaller_one_was(gigabyte: ChipWorker) -> None:
    first = gigabyte.alloc_tensor((256, 512, 512, 2), torch.float32)
    assert first.nbytes == 536_870_912
    gigabyte.free_tensor(first)
    second = gigabyte.alloc_tensor((256, 512, 512, 3), torch.float32)
    assert second.nbytes == 805_306_368
    gigabyte.free_tensor(second)


def test_exhaustion_names_requested_live_free_and_largest_block_and_loses_nothing(gigabyte: ChipWorker) -> None:
    halves = [gigabyte.alloc_tensor((128 * MIB,), torch.float32) for _ in range(2)]
    with pytest.raises(MemoryError) as raised:
        gigabyte.alloc_tensor((128 * MIB,), torch.float32)
    assert parts_of(raised.value) == {
        "requested": 512 * MIB,
        "live": GIB,
        "kept by launches": 0,
        "free": 0,
        "largest free block": 0,
        "capacity": GIB,
    }
    gigabyte.free_tensor(halves.pop())
    halves.append(gigabyte.alloc_tensor((128 * MIB,), torch.float32))
    for half in halves:
        gigabyte.free_tensor(half)
    gigabyte.free(gigabyte.malloc(GIB))


@pytest.mark.parametrize("capacity", [64 * KIB, 1 * MIB, 96 * MIB], ids=lambda capacity: f"{capacity >> 10}-KiB")
def test_what_fits_exactly_is_given_again_and_again(capacity: int) -> None:
    worker = ChipWorker(config=RunConfig(device_memory=capacity))
    try:
        large, small = worker.malloc(capacity * 3 // 4), worker.malloc(capacity // 4)
        for _ in range(3):
            worker.free(large)
            large = worker.malloc(capacity * 3 // 4)
        worker.free(small)
        worker.free(large)
        for _ in range(3):
            worker.free(worker.malloc(capacity))
    finally:
        worker.close()


@pytest.mark.parametrize("order", ["as allocated", "reversed", "every other first"])
def test_freed_in_any_order_the_memory_is_one_hole_again(order: str) -> None:
    worker = ChipWorker(config=RunConfig(device_memory=MIB))
    try:
        blocks = [worker.malloc(16 * KIB) for _ in range(64)]
        with pytest.raises(MemoryError):
            worker.malloc(256)
        turns = {"as allocated": blocks, "reversed": blocks[::-1], "every other first": blocks[::2] + blocks[1::2]}
        for pointer in turns[order]:
            worker.free(pointer)
        assert worker.memory_stats()["largest_free"] == MIB
        worker.free(worker.malloc(MIB))
    finally:
        worker.close()


def test_a_fragmented_pool_reports_its_largest_hole() -> None:
    worker = ChipWorker(config=RunConfig(device_memory=MIB))
    try:
        blocks = [worker.malloc(128 * KIB) for _ in range(8)]
        for pointer in blocks[::2]:
            worker.free(pointer)
        assert worker.memory_stats()["largest_free"] == 128 * KIB
        with pytest.raises(MemoryError, match="largest free block") as raised:
            worker.malloc(256 * KIB)
        parts = parts_of(raised.value)
        assert (parts["requested"], parts["largest free block"]) == (256 * KIB, 128 * KIB)
        assert parts["live"] == parts["free"] == 512 * KIB
        worker.malloc(128 * KIB)
    finally:
        worker.close()
