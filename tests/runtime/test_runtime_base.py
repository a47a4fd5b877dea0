"""`Worker`: what a class that brings its own memory inherits."""

import dataclasses
import logging
from typing import Any

import pytest
import sample_kernels
import torch

from pypto.runtime import ChipWorker, DeviceTensor, RegistrationHandle, RunConfig, Worker


class Memory(Worker):
    """Memory in dictionaries, one for each device; addresses are used again."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[tuple[int, int], int] = {}
        self.uploads: list[tuple[int, int]] = []
        self.fail_free = False
        self.fail_copy = False

    def malloc(self, nbytes: int, *, worker_id: int = 0) -> int:
        ptr = next(p for p in range(4096, 1 << 20, 4096) if (worker_id, p) not in self.blocks)
        self.blocks[worker_id, ptr] = nbytes
        return ptr

    def free(self, ptr: int, *, worker_id: int = 0) -> None:
        if self.fail_free:
            raise RuntimeError("free failed with code 7")
        del self.blocks[worker_id, ptr]

    def copy_to(self, dst_dev_ptr: Any, src_host_ptr: Any, nbytes: int | None = None, *, worker_id: int = 0) -> None:
        if self.fail_copy:
            raise RuntimeError("copy_to failed with code 7")
        self.uploads.append((dst_dev_ptr, nbytes or 0))

    def copy_from(self, dst_host_ptr: Any, src_dev_ptr: Any, nbytes: int | None = None, *, worker_id: int = 0) -> None:
        raise NotImplementedError

    def run(self, compiled: Any, *args: Any, config: Any = None) -> Any:
        raise NotImplementedError

    def register(self, compiled: Any) -> Any:
        raise NotImplementedError


def test_the_memory_primitives_are_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Worker()


def test_a_tensor_is_allocated_and_filled() -> None:
    worker = Memory()
    tensor = worker.alloc_tensor((2, 3), torch.float16, init=torch.ones(2, 3, dtype=torch.float16))
    assert (tensor.shape, tensor.dtype, tensor.nbytes) == ((2, 3), torch.float16, 12)
    assert worker.uploads == [(tensor.data_ptr, 12)]
    worker.free_tensor(tensor)
    worker.free_tensor(tensor)
    assert worker.blocks == {}


@pytest.mark.parametrize(
    ("shape", "error", "text"),
    [
        ((), ValueError, "shape must be non-empty"),
        ((2.0,), TypeError, "shape must contain ints"),
        ((True,), TypeError, "shape must contain ints"),
        ((0,), ValueError, "shape must contain only positive dimensions"),
    ],
)
def test_bad_shapes_are_refused_before_memory_is_taken(shape: Any, error: type[Exception], text: str) -> None:
    worker = Memory()
    with pytest.raises(error, match=text):
        worker.alloc_tensor(shape, torch.float32)
    assert worker.blocks == {}


@pytest.mark.parametrize("init", [torch.zeros(3), torch.zeros(2, dtype=torch.int32)])
def test_an_init_that_does_not_fit_gives_the_memory_back(init: torch.Tensor) -> None:
    worker = Memory()
    with pytest.raises(ValueError, match=r"init must have shape=\(2,\) dtype=torch\.float32, got"):
        worker.alloc_tensor((2,), torch.float32, init=init)
    assert worker.blocks == {}


def test_a_failed_upload_gives_the_memory_back() -> None:
    worker = Memory()
    worker.fail_copy = True
    with pytest.raises(RuntimeError, match="copy_to failed"):
        worker.alloc_tensor((2,), torch.float32, init=torch.zeros(2))
    assert worker.blocks == {}


def test_a_tensor_whose_address_was_given_away_is_stale() -> None:
    worker = Memory()
    old = worker.alloc_tensor((2,), torch.float32)
    worker.free_tensor(old)
    new = worker.alloc_tensor((2,), torch.float32)
    assert new.data_ptr == old.data_ptr
    with pytest.raises(ValueError, match="stale DeviceTensor"):
        worker.free_tensor(old)
    assert len(worker.blocks) == 1


def test_a_tensor_of_another_device_is_told_apart() -> None:
    worker = Memory()
    tensor = worker.alloc_tensor((2,), torch.float32, worker_id=3)
    with pytest.raises(ValueError, match="worker_id=0 does not match the owning worker, worker_id=3"):
        worker.free_tensor(tensor)
    worker.free_tensor(tensor, worker_id=3)
    assert worker.blocks == {}


def test_a_failed_free_can_be_tried_again() -> None:
    worker = Memory()
    tensor = worker.alloc_tensor((2,), torch.float32)
    worker.fail_free = True
    with pytest.raises(RuntimeError, match="free failed"):
        worker.free_tensor(tensor)
    worker.fail_free = False
    worker.free_tensor(tensor)
    assert worker.blocks == {}


def test_free_tensor_takes_device_tensors() -> None:
    with pytest.raises(TypeError, match=r"free_tensor\(\) expects a DeviceTensor, got int"):
        Memory().free_tensor(4096)
    Memory().free_tensor(DeviceTensor(4096, (1,), torch.float32))


def test_closing_frees_what_is_owned_and_logs_what_leaks(caplog: pytest.LogCaptureFixture) -> None:
    worker = Memory()
    worker.alloc_tensor((2,), torch.float32)
    worker._close_owned_tensors()
    assert worker.blocks == {}
    worker.alloc_tensor((2, 2), torch.float32)
    worker.fail_free = True
    with caplog.at_level(logging.WARNING):
        worker._close_owned_tensors()
    (record,) = caplog.records
    assert record.name == "pypto.runtime.runtime_base"
    assert record.getMessage().startswith("leaking DeviceTensor(data_ptr=0x1000, shape=(2, 2)")


class Tracked(Memory):
    """Has an object behind each address."""

    def _buffer_for_ptr(self, ptr: int, *, worker_id: int = 0) -> Any:
        class Buffer:
            base = ptr

            def tensor(self) -> None: ...

        return Buffer()


def test_only_the_very_allocation_is_dispatched() -> None:
    worker = Tracked()
    tensor = worker.alloc_tensor((2, 3), torch.float16)
    worker._require_owned_resident_tensor(tensor, "argument 0")
    worker._require_owned_resident_tensor(dataclasses.replace(tensor, shape=(6,)), "argument 0")
    raw = DeviceTensor(tensor.data_ptr, (2, 3), torch.float16)
    with pytest.raises(
        TypeError, match=r"^argument 0: raw pointer DeviceTensor.*cannot be dispatched by Tracked; use the"
    ):
        worker._require_owned_resident_tensor(raw, "argument 0")
    worker.free_tensor(tensor)
    successor = worker.alloc_tensor((2, 3), torch.float16)
    assert successor.data_ptr == tensor.data_ptr
    with pytest.raises(ValueError, match=r"not a live allocation owned by this Tracked;.*after free_tensor\(\)"):
        worker._require_owned_resident_tensor(tensor, "argument 0")
    with pytest.raises(ValueError, match=r"owned by this Tracked on worker_id=1;"):
        worker._require_owned_resident_tensor(successor, "argument 0", worker_id=1)


def test_a_subclass_that_forgot_its_base_is_told(worker: ChipWorker) -> None:
    tracked = Tracked()
    tensor = tracked.alloc_tensor((2,), torch.float16)
    tracked._owned_tensors = None  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"its __init__ must call super\(\).__init__\(\)"):
        tracked._require_owned_resident_tensor(tensor, "argument 0")


def test_a_chip_asks_its_own_memory(worker: ChipWorker) -> None:
    tensor = worker.alloc_tensor((2,), torch.float16)
    worker._require_owned_resident_tensor(tensor, "argument 0")
    worker.free_tensor(tensor)
    with pytest.raises(ValueError, match=r"^argument 0: .*not a live allocation owned by this ChipWorker"):
        worker._require_owned_resident_tensor(tensor, "argument 0")
    with pytest.raises(TypeError, match=r"raw pointer .* cannot be dispatched by ChipWorker"):
        worker._require_owned_resident_tensor(DeviceTensor(4096, (2,), torch.float16), "argument 0")


def test_a_chip_shows_what_it_owns_as_the_base_does(worker: ChipWorker) -> None:
    assert worker._owned_tensors == {}
    tensor, raw = worker.alloc_tensor((2, 3), torch.float16), worker.malloc(8)
    part = tensor[1:]
    assert worker._owned_tensors == {(0, tensor.data_ptr): tensor}
    shown = worker._owned_tensors[0, tensor.data_ptr]
    assert shown.is_live
    worker.free_tensor(tensor)
    assert (worker._owned_tensors, part.is_live) == ({}, False)
    worker.free(raw)
    closed = ChipWorker(auto_init=False)
    assert closed._owned_tensors == {}


class Recorded(Memory):
    """Returns what it was asked to run."""

    def run(self, compiled: Any, *args: Any, config: Any = None) -> Any:
        return compiled, args, config

    def register(self, compiled: Any) -> RegistrationHandle:
        return RegistrationHandle(self, 7, compiled)


def test_a_worker_of_a_users_own_returns_handles_that_run_on_it() -> None:
    worker, config = Recorded(), RunConfig()
    with worker.register("program") as handle:
        assert isinstance(handle, RegistrationHandle)
        assert (handle.worker, handle.cid, handle.compiled, handle.closed) == (worker, 7, "program", False)
        assert handle(1, "x", config=config) == ("program", (1, "x"), config)
        assert repr(handle) == "RegistrationHandle('program', cid=7)"
    assert handle.closed
    with pytest.raises(RuntimeError, match=r"RegistrationHandle has been unregistered .* Re-register"):
        handle(1)
    by_name = RegistrationHandle(worker=worker, cid=0, compiled=None)
    with pytest.raises(NotImplementedError, match=r"submit\(\) needs a device of this package"):
        by_name.submit(1)


def test_a_handle_made_by_hand_of_a_chip_runs_there(worker: ChipWorker) -> None:
    compiled = sample_kernels.compile_add(16, 16)
    handle = RegistrationHandle(worker, 0, compiled)
    ones = torch.ones(16, 16)
    assert torch.equal(handle(ones, ones), ones + ones)
    worker.close()
    with pytest.raises(RuntimeError, match=r"ChipWorker\.run\(\) requires an initialized ChipWorker"):
        handle(ones, ones)


@pytest.mark.parametrize(
    ("args", "text"), [(("w", 0, None), "must be a Worker, got str; worker.register"), ((), "missing 3 required")]
)
def test_a_handle_needs_a_worker(args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        RegistrationHandle(*args)


def test_a_dtype_is_a_torch_dtype() -> None:
    worker = Memory()
    with pytest.raises(TypeError, match=r"dtype must be a torch\.dtype, got 'float16'"):
        worker.alloc_tensor((2,), "float16")  # type: ignore[arg-type]
    assert worker.blocks == {}
