"""Memory that a copy or a free may not use: never valid, freed, of a closed worker, of another worker."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch

from pypto.runtime import ChipWorker, DeviceTensor, RunConfig

MIB = 1 << 20
SITE = r"at 0x[0-9a-f]+ \(1 KiB\), allocated at \S+test_wrong_memory\.py:\d+"
TENSOR = rf"FP32 \(16, 16\) {SITE}"

Copy = Callable[[ChipWorker, "DeviceTensor | int", torch.Tensor], None]


def copy_to(worker: ChipWorker, device: "DeviceTensor | int", host: torch.Tensor) -> None:
    worker.copy_to(device, host)


def copy_from(worker: ChipWorker, device: "DeviceTensor | int", host: torch.Tensor) -> None:
    worker.copy_from(host, device)


COPIES = pytest.mark.parametrize(
    ("copy", "what"),
    [(copy_to, r"Parameter 'dst_dev_ptr' of copy_to\(\)"), (copy_from, r"Parameter 'src_dev_ptr' of copy_from\(\)")],
    ids=["copy_to", "copy_from"],
)


@pytest.fixture
def two() -> Iterator[tuple[ChipWorker, ChipWorker]]:
    """Two workers."""
    workers = ChipWorker(RunConfig(device_memory=MIB)), ChipWorker(RunConfig(device_memory=MIB))
    yield workers
    for worker in workers:
        worker.close()


def allocate(worker: ChipWorker) -> DeviceTensor:
    return worker.alloc_tensor((16, 16), torch.float32, init=torch.ones(16, 16))


def number(worker: ChipWorker) -> str:
    """How messages call it."""
    found = re.search(r"worker #\d+", repr(worker._impl))
    assert found is not None
    return found.group()


def refusal(copy: Copy, worker: ChipWorker, device: "DeviceTensor | int") -> ValueError:
    """What a copy says, having changed nothing."""
    host = torch.full((16, 16), 7.0)
    live = worker.memory_stats()["live"]
    with pytest.raises(ValueError, match=r" of copy_(to|from)\(\)") as raised:
        copy(worker, device, host)
    assert bool((host == 7.0).all())
    assert worker.memory_stats()["live"] == live
    return raised.value


def matches(pattern: str, error: ValueError) -> None:
    assert re.fullmatch(pattern, str(error)), str(error)


@COPIES
def test_a_tensor_of_another_worker(copy: Copy, what: str, two: tuple[ChipWorker, ChipWorker]) -> None:
    asked, owner = two
    tensor = allocate(owner)
    error = refusal(copy, asked, tensor)
    matches(
        rf"{what}: {TENSOR} is not a live allocation owned by this ChipWorker \({number(asked)}\): it belongs to "
        rf"{number(owner)}\. Only the worker that allocated a tensor can use it; a launch "
        r"that names no worker goes to the one whose `with` block it is in",
        error,
    )
    assert error.code == "foreign_buffer"


@COPIES
def test_a_tensor_that_was_freed(copy: Copy, what: str, two: tuple[ChipWorker, ChipWorker]) -> None:
    asked, owner = two
    for worker in (asked, owner):
        tensor = allocate(worker)
        worker.free_tensor(tensor)
        error = refusal(copy, asked, tensor)
        matches(
            rf"{what}: {TENSOR} is not a live allocation owned by this ChipWorker \({number(asked)}\): it was freed on "
            rf"{number(worker)}\. Do not use a tensor after free_tensor\(\)",
            error,
        )
        assert error.code == "freed_buffer"


@COPIES
def test_a_tensor_whose_worker_was_closed(copy: Copy, what: str, two: tuple[ChipWorker, ChipWorker]) -> None:
    asked, owner = two
    closed, tensor = number(owner), allocate(owner)
    owner.close()
    error = refusal(copy, asked, tensor)
    matches(
        rf"{what}: {TENSOR} is not a live allocation owned by this ChipWorker \({number(asked)}\): its worker, "
        rf"{closed} \(closed\), was closed\. Allocate it again on this worker",
        error,
    )
    assert error.code == "stale_buffer"


@COPIES
def test_a_tensor_that_never_was(copy: Copy, what: str, two: tuple[ChipWorker, ChipWorker]) -> None:
    asked, _ = two
    error = refusal(copy, asked, DeviceTensor(0x5000, (16, 16), torch.float32))
    matches(
        rf"{what}, DeviceTensor\(data_ptr=0x5000, shape=\(16, 16\), dtype=torch\.float32\): 0x5000 is not an "
        rf"allocation base of {number(asked)}, nor an interior pointer of any of its allocations: "
        rf"it was never handed out",
        error,
    )
    assert error.code == "unknown_address"


@COPIES
def test_an_address_names_the_tensor_behind_it(copy: Copy, what: str, two: tuple[ChipWorker, ChipWorker]) -> None:
    asked, owner = two
    theirs, freed = allocate(owner), allocate(asked)
    asked.free_tensor(freed)
    matches(
        rf"{what}: {theirs.data_ptr:#x} is not an allocation base of {number(asked)}, nor an interior pointer of "
        rf"one: it belongs to {TENSOR}, of {number(owner)}\. Only the worker that allocated memory can use it",
        refusal(copy, asked, theirs.data_ptr),
    )
    matches(
        rf"{what}: {freed.data_ptr:#x} is no longer an allocation base of {number(asked)}, nor an interior "
        rf"pointer: it belongs to {TENSOR}, which was freed",
        refusal(copy, asked, freed.data_ptr),
    )


@COPIES
def test_an_address_that_was_freed_long_ago_is_no_address_that_never_was(
    copy: Copy, what: str, two: tuple[ChipWorker, ChipWorker]
) -> None:
    asked, _ = two
    old = allocate(asked)
    asked.free_tensor(old)
    for _ in range(2000):
        asked.free_tensor(asked.alloc_tensor((1,), torch.float32))
    matches(
        rf"{what}: {old.data_ptr:#x} is no longer an allocation base of {number(asked)}, nor an interior "
        rf"pointer: what it belongs to was freed long ago\. Addresses are never handed out a second time",
        refusal(copy, asked, old.data_ptr),
    )
    newest = allocate(asked)
    beyond = newest.data_ptr + MIB
    matches(
        rf"{what}: {beyond:#x} is not an allocation base of {number(asked)}, nor .*: it was never handed out",
        refusal(copy, asked, beyond),
    )


def test_each_refusal_to_free_has_the_words_that_programs_look_for(two: tuple[ChipWorker, ChipWorker]) -> None:
    worker, other = two
    freed, old = worker.malloc(64), worker.malloc(64)
    for ptr in (freed, old):
        worker.free(ptr)
    theirs, mine = other.malloc(64), worker.malloc(64)
    for wrong in (freed, theirs, mine + 4, 7):
        with pytest.raises(ValueError, match=r"allocation base.*") as raised:
            worker.free(wrong)
        assert "interior pointer" in str(raised.value)


def test_a_pointer_that_cannot_be_freed_is_explained(two: tuple[ChipWorker, ChipWorker]) -> None:
    asked, owner = two
    mine, theirs = allocate(asked), allocate(owner)
    cases = {
        mine.data_ptr + 4: rf"it points 4 bytes into {TENSOR} of {number(asked)}",
        mine.data_ptr + mine.nbytes: rf"it was never handed out, it lies 0 bytes behind the end of {TENSOR}",
        theirs.data_ptr: rf"it belongs to {TENSOR}, of {number(owner)}\. Only the worker",
    }
    for pointer, said in cases.items():
        with pytest.raises(ValueError, match=rf"^Parameter 'ptr' of free\(\): {pointer:#x} is .*{said}"):
            asked.free(pointer)
    assert torch.equal(mine.to_host(), theirs.to_host())


def test_the_worker_goes_on_after_each_refusal(two: tuple[ChipWorker, ChipWorker]) -> None:
    asked, owner = two
    theirs = allocate(owner)
    mine = allocate(asked)
    for device in (theirs, theirs.data_ptr, DeviceTensor(0x5000, (16, 16), torch.float32)):
        for copy in (copy_to, copy_from):
            refusal(copy, asked, device)
    asked.copy_to(mine, torch.full((16, 16), 3.0))
    assert torch.equal(mine.to_host(), torch.full((16, 16), 3.0))
    assert torch.equal(theirs.to_host(), torch.ones(16, 16))


def test_to_host_says_what_happened_to_the_tensor(two: tuple[ChipWorker, ChipWorker]) -> None:
    worker, _ = two
    tensor = allocate(worker)
    worker.free_tensor(tensor)
    with pytest.raises(
        ValueError, match=rf"^to_host\(\): {TENSOR} is not a live allocation .*: it was freed on worker"
    ):
        tensor.to_host()


def test_the_host_side_of_a_copy_is_no_number_and_no_device_address(two: tuple[ChipWorker, ChipWorker]) -> None:
    worker, other = two
    tensor = allocate(worker)
    host = torch.zeros(16, 16)
    for number in (1, 64, 4095):
        with pytest.raises(ValueError, match=f"src_host_ptr must be a host address, got {number}$"):
            worker.copy_to(tensor, number)
        with pytest.raises(ValueError, match=f"dst_host_ptr must be a host address, got {number}$"):
            worker.copy_from(number, tensor)
    with pytest.raises(ValueError, match=r"src_host_ptr .* is a device address; nothing copies from device to device"):
        worker.copy_to(tensor, allocate(other).data_ptr)
    swapped = (
        r"{}' .* not an allocation base .*\. The host side is a device address: the destination of a copy comes first$"
    )
    for device in (tensor, allocate(other)):
        with pytest.raises(ValueError, match=swapped.format("dst_dev_ptr")):
            worker.copy_to(host.data_ptr(), device.data_ptr, 4)
        with pytest.raises(ValueError, match=swapped.format("src_dev_ptr")):
            worker.copy_from(device.data_ptr, host.data_ptr(), 4)


@COPIES
@pytest.mark.parametrize("nbytes", [0, -1, True, 1.5, "4", 2**40, 2**70, None])
@pytest.mark.parametrize("host", [torch.zeros(3), 5])
def test_of_several_mistakes_the_address_is_told_first(
    copy: Copy, what: str, two: tuple[ChipWorker, ChipWorker], nbytes: object, host: object
) -> None:
    """As in PyPTO, which looks for the allocation and then at the size."""
    worker, other = two
    freed = allocate(worker)
    worker.free_tensor(freed)
    codes = {
        7: "unknown_address", 0: "bad_address", freed.data_ptr: "freed_address", freed: "freed_buffer",
        allocate(other).data_ptr: "foreign_address", DeviceTensor(7, (3,), torch.float32): "unknown_address",
    }  # fmt: skip
    for device, code in codes.items():
        call: Any = (
            partial(worker.copy_to, device, host) if copy is copy_to else partial(worker.copy_from, host, device)
        )
        with pytest.raises(ValueError, match=r"dst_dev_ptr|src_dev_ptr") as raised:
            call(nbytes)
        assert raised.value.code == code


def test_a_freed_tensor_is_told_before_what_is_copied_into_it(two: tuple[ChipWorker, ChipWorker]) -> None:
    worker, _ = two
    tensor = allocate(worker)
    worker.free_tensor(tensor)
    with pytest.raises(ValueError, match=r"^copy_\(\): FP32 \(16, 16\) .* is not a live allocation"):
        tensor.copy_(torch.zeros(3))


def test_the_size_is_looked_at_where_the_address_is_right(two: tuple[ChipWorker, ChipWorker]) -> None:
    worker, _ = two
    address, host = allocate(worker).data_ptr, torch.zeros(16, 16)
    for nbytes, code in ((0, "bad_size"), (1025, "out_of_range"), (2**70, "copy_too_long")):
        with pytest.raises(ValueError, match="bytes") as raised:
            worker.copy_to(address + 0, host.data_ptr(), nbytes)
        assert raised.value.code == code


def test_a_message_does_not_print_whole_objects(two: tuple[ChipWorker, ChipWorker]) -> None:
    worker, _ = two
    with pytest.raises(ValueError, match=r"ptr must be a positive int, got an object of type bytes$"):
        worker.free(bytes(10_000))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"nbytes must be a positive int, got an object of type list$"):
        worker.malloc([0] * 10_000)  # type: ignore[arg-type]
