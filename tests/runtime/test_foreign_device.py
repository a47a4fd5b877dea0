"""A device of somebody else's behind `ChipWorker`, as PyPTO's own tests put one there."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import logging
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest
import sample_kernels
import torch

from pypto.runtime import ChipWorker, DeviceTensor, RegistrationHandle, RunConfig, benchmark
from pypto.runtime.task_interface import CallConfig, TaskArgs

SEAM = "pypto.runtime.worker._SimplerWorker"


class Buffer:
    def __init__(self, base: int, nbytes: int) -> None:
        self.base, self.nbytes = base, nbytes
        self.memory = bytearray(nbytes)

    def tensor(self, *_: Any) -> None:
        raise NotImplementedError


class Device:
    """Memory at addresses that are used again, and programs that add."""

    made: ClassVar[list[Device]] = []
    failing: ClassVar[dict[str, int]] = {}
    """How often each call fails from now on."""

    def __init__(self, **binding: Any) -> None:
        self.binding = binding
        self.calls: list[str] = []
        self.live: dict[int, Buffer] = {}
        self.aicpu_dlopen_count = 0
        Device.made.append(self)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if Device.failing.get(name, 0) > 0:
            Device.failing[name] -= 1
            raise RuntimeError(f"{name} failed with code -7")

    def init(self, *, prewarm_config: CallConfig) -> None:
        assert isinstance(prewarm_config, CallConfig)
        self._call("init")

    def close(self) -> None:
        self._call("close")

    def malloc(self, nbytes: int) -> Buffer:
        self._call("malloc")
        base = next(base for base in range(0x1000, 1 << 24, 0x1000) if base not in self.live)
        self.live[base] = Buffer(base, nbytes)
        return self.live[base]

    def free(self, buffer: Buffer) -> None:
        self._call("free")
        del self.live[buffer.base]

    def copy_to(self, buffer: Buffer, array: ctypes.Array[ctypes.c_char]) -> None:
        self._call("copy_to")
        if len(array) > buffer.nbytes:
            raise ValueError(f"{len(array)} bytes exceeds the {buffer.nbytes}-byte backing")
        buffer.memory[: len(array)] = bytes(array)

    def copy_from(self, array: ctypes.Array[ctypes.c_char], buffer: Buffer) -> None:
        self._call("copy_from")
        ctypes.memmove(array, bytes(buffer.memory[: len(array)]), len(array))

    def register(self, program: Any) -> str:
        self._call("register")
        self.aicpu_dlopen_count += 1
        return f"program {self.aicpu_dlopen_count}"

    def run(self, registration: str, args: TaskArgs, settings: CallConfig) -> None:
        self._call(f"run {registration}")
        self.settings = settings
        a, b, c = args.tensors
        if isinstance(c, torch.Tensor):
            torch.add(self._host(a), self._host(b), out=c)

    def _host(self, tensor: Any) -> torch.Tensor:
        if isinstance(tensor, torch.Tensor):
            return tensor
        return torch.frombuffer(tensor.buffer.memory, dtype=tensor.dtype).view(tensor.shape)

    def unregister(self, registration: str) -> None:
        self._call(f"unregister {registration}")


@pytest.fixture(autouse=True)
def seam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "made", [])
    monkeypatch.setattr(Device, "failing", {})
    monkeypatch.setattr(SEAM, Device)


def ones(factor: float = 1.0) -> torch.Tensor:
    return torch.full((16, 16), float(factor))


# Life cycle


def test_the_device_is_made_with_the_binding_and_opened_once() -> None:
    worker = ChipWorker(RunConfig(platform="a5sim", device_id=3), runtime="host_build_graph", enable_sdma=True)
    worker.init()
    (device,) = Device.made
    assert device.binding == {
        "level": 2, "device_id": 3, "platform": "a5sim", "runtime": "host_build_graph", "enable_sdma": True
    }  # fmt: skip
    assert isinstance(worker, ChipWorker)
    assert worker.initialized
    assert device.calls == ["init"]
    worker.close()
    worker.close()
    assert not worker.initialized
    assert device.calls == ["init", "close"]
    worker.init()
    assert len(Device.made) == 2
    worker.close()


def test_a_class_that_inherits_keeps_its_own_methods() -> None:
    class Counting(ChipWorker):
        mallocs = 0

        def malloc(self, nbytes: int, *, worker_id: int = 0) -> int:
            self.mallocs += 1
            return super().malloc(nbytes, worker_id=worker_id)

    with Counting() as worker:
        worker.alloc_tensor((4,), torch.float32)
        assert worker.mallocs == 1
        assert isinstance(worker, Counting)
    assert Device.made[0].live == {}


def test_a_device_that_cannot_be_opened_is_closed_and_the_next_init_makes_another() -> None:
    Device.failing = {"init": 1}
    worker = ChipWorker(auto_init=False)
    with pytest.raises(RuntimeError, match="init failed with code -7"):
        worker.init()
    assert Device.made[0].calls == ["init", "close"]
    worker.init()
    assert worker.initialized
    assert len(Device.made) == 2
    worker.close()


def test_a_device_that_could_not_even_be_closed_is_closed_before_the_next_init() -> None:
    Device.failing = {"init": 1, "close": 1}
    worker = ChipWorker(auto_init=False)
    with pytest.raises(RuntimeError, match="init failed"):
        worker.init()
    with pytest.raises(RuntimeError, match=r"finish the cleanup with close\(\) first") as raised:
        worker.init()
    assert raised.value.code == "cleanup_pending"  # type: ignore[attr-defined]
    worker.close()
    assert Device.made[0].calls == ["init", "close", "close"]
    worker.init()
    assert len(Device.made) == 2
    worker.close()


def test_a_constructor_that_fails_tries_to_close_twice_and_once_more_when_it_is_collected() -> None:
    Device.failing = {"init": 1, "close": 2}
    with pytest.raises(RuntimeError, match="init failed"):
        ChipWorker()
    gc.collect()
    assert Device.made[0].calls == ["init", "close", "close", "close"]


def test_close_frees_then_unregisters_then_closes() -> None:
    Device.failing = {"unregister program 1": 1}
    worker = ChipWorker()
    worker.alloc_tensor((4,), torch.float32)
    handle = worker.register(sample_kernels.compile_add(16, 16))
    worker.close()
    assert Device.made[0].calls == ["init", "malloc", "register", "free", "unregister program 1", "close"]
    assert handle.closed


def test_a_close_that_failed_is_tried_again_and_only_its_last_step() -> None:
    Device.failing = {"close": 1}
    worker = ChipWorker()
    worker.alloc_tensor((4,), torch.float32)
    with pytest.raises(RuntimeError, match="close failed with code -7"):
        worker.close()
    assert not worker.initialized
    worker.close()
    assert Device.made[0].calls == ["init", "malloc", "free", "close", "close"]
    worker.close()
    assert len(Device.made[0].calls) == 5


def test_what_cannot_be_freed_at_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker = ChipWorker()
    worker.alloc_tensor((4,), torch.float32)
    Device.failing = {"free": 1}
    with caplog.at_level(logging.WARNING, "pypto.runtime.runtime_base"):
        worker.close()
    assert "leaking" in caplog.text
    assert Device.made[0].calls[-1] == "close"


def test_it_is_found_by_calls_without_a_worker_and_left_before_it_is_closed() -> None:
    compiled = sample_kernels.compile_add(16, 16)
    with ChipWorker() as worker:
        assert torch.equal(compiled(ones(), ones(2)), ones(3))
        assert torch.equal(compiled(ones(), ones(2), config=RunConfig()), ones(3))
        with pytest.raises(ValueError, match="already active in an enclosing scope"), worker:
            pass
    calls = Device.made[0].calls
    assert calls == ["init", "register", "run program 1", "run program 1", "unregister program 1", "close"]


# Memory


def test_raw_memory_is_known_by_its_base() -> None:
    with ChipWorker() as worker:
        base = worker.malloc(64)
        host, back = torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
        worker.copy_to(base, host.data_ptr(), 64)
        worker.copy_from(back.data_ptr(), base, 64)
        assert torch.equal(host, back)
        with pytest.raises(ValueError, match="exceeds the 64-byte backing"):
            worker.copy_to(base, host.data_ptr(), 65)
        for call in (lambda: worker.free(base + 4), lambda: worker.copy_to(base + 4, host.data_ptr(), 4)):
            with pytest.raises(ValueError, match=r"not an allocation base .*interior pointer"):
                call()
        with pytest.raises(ValueError, match="nbytes must be a positive int, got 0"):
            worker.copy_from(back.data_ptr(), base, 0)
        with pytest.raises(ValueError, match="host address must be a positive int"):
            worker.copy_from(0, base, 4)
        Device.failing = {"free": 1}
        with pytest.raises(RuntimeError, match="free failed"):
            worker.free(base)
        worker.free(base)
        with pytest.raises(ValueError, match="allocation base"):
            worker.free(base)
        assert worker.malloc(True)
        for wrong in (0, -1, 1.0, "1", False):
            with pytest.raises(ValueError, match="nbytes must be a positive int"):
                worker.malloc(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("base", "error", "text"), [
    ("x", TypeError, "must return a Buffer"), (True, TypeError, "must return a Buffer"), (0, ValueError, "at 0"),
])  # fmt: skip
def test_a_device_that_returns_no_buffer_gets_it_back(
    monkeypatch: pytest.MonkeyPatch, base: object, error: type[Exception], text: str
) -> None:
    device = MagicMock()
    device.malloc.return_value = SimpleNamespace(base=base)
    monkeypatch.setattr(SEAM, MagicMock(return_value=device))
    worker = ChipWorker()
    with pytest.raises(error, match=text):
        worker.malloc(8)
    device.free.assert_called_once_with(device.malloc.return_value)
    worker.close()
    device.close.assert_called_once_with()


def test_a_failed_upload_is_rolled_back() -> None:
    with ChipWorker() as worker:
        for init in (torch.zeros(3), torch.zeros(4, dtype=torch.float16)):
            with pytest.raises(ValueError, match="init must have shape"):
                worker.alloc_tensor((4,), torch.float32, init=init)
        Device.failing = {"copy_to": 1}
        with pytest.raises(RuntimeError, match="copy_to failed with code -7"):
            worker.alloc_tensor((4,), torch.float32, init=torch.zeros(4))
        assert Device.made[0].live == {}
        assert worker._owned_tensors == {}


def test_an_address_that_is_used_again_does_not_revive_a_tensor() -> None:
    compiled = sample_kernels.compile_add(16, 16)
    with ChipWorker() as worker:
        old = worker.alloc_tensor((16, 16), torch.float32, init=ones())
        worker.free_tensor(old)
        worker.free_tensor(old)
        new = worker.alloc_tensor((16, 16), torch.float32, init=ones(9))
        assert old == new
        with pytest.raises(ValueError, match="stale DeviceTensor"):
            worker.free_tensor(old)
        with pytest.raises(ValueError, match=r"At position 0: .*not a live allocation owned by this ChipWorker"):
            worker.run(compiled, old, ones(), ones())
        assert torch.equal(worker.run(compiled, new, ones()), ones(10))
        assert torch.equal(worker.run(compiled, dataclasses.replace(new, shape=(16, 16)), ones()), ones(10))
        Device.failing = {"free": 1}
        with pytest.raises(RuntimeError, match="free failed"):
            worker.free_tensor(new)
        assert worker._owned_tensors == {(0, new.data_ptr): new}
        worker.free_tensor(new)


def test_only_device_0_of_an_open_worker_is_asked() -> None:
    worker = ChipWorker(auto_init=False)
    worker.free_tensor(DeviceTensor(4096, (1,), torch.float32))
    for call in (lambda: worker.malloc(1), lambda: worker.alloc_tensor((1,), torch.float32), worker.synchronize):
        with pytest.raises(RuntimeError, match=r"ChipWorker\.\w+\(\) requires an initialized ChipWorker"):
            call()
    with pytest.raises(ValueError, match=r"ChipWorker\.alloc_tensor\(\) only supports worker_id=0, got 2"):
        worker.alloc_tensor((1,), torch.float32, worker_id=2)


OURS = {
    name: getattr(ChipWorker, name)
    for name in ("memory_report", "memory_stats", "counters", "advice", "memory_snapshot")
} | {
    "memory_budget": lambda worker: worker.memory_budget(1, tag="x"),
    "zeros": lambda worker: worker.zeros((1,), torch.float32),
    "full": lambda worker: worker.full((1,), 1.0, torch.float32),
}  # fmt: skip


@pytest.mark.parametrize("name", OURS)
def test_what_needs_the_package_s_own_memory_says_so_and_what_there_is(name: str) -> None:
    with ChipWorker() as worker:
        with pytest.raises(
            NotImplementedError, match=rf"^ChipWorker\.{name}\(\) needs a device of this package, .*malloc"
        ):
            OURS[name](worker)
        assert not Device.made[0].live


def test_tensors_are_copied_by_address() -> None:
    with ChipWorker() as worker:
        tensor, host = worker.from_host(ones(3)), torch.zeros(16, 16)
        for call in (lambda: worker.copy_to(tensor, host), lambda: worker.copy_from(host, tensor)):
            with pytest.raises(
                NotImplementedError, match=r"pass addresses and a size, t\.data_ptr, host\.data_ptr\(\)"
            ):
                call()
        calls = (
            tensor.to_host, tensor.numpy, lambda: tensor.copy_(host), lambda: tensor.view(-1), lambda: tensor[1:],
            tensor.__enter__,
        )  # fmt: skip
        for call in calls:
            with pytest.raises(TypeError, match=r"is somebody else's\. Copy it with its worker: copy_from\("):
                call()
        worker.copy_from(host.data_ptr(), tensor.data_ptr, tensor.nbytes)
        assert torch.equal(host, ones(3))


def test_prepared_and_queued_launches_say_what_to_call_instead() -> None:
    with ChipWorker() as worker:
        handle = worker.register(sample_kernels.compile_add(16, 16))
        for call in (handle.bind, handle.submit):
            with pytest.raises(
                NotImplementedError, match=r"call the handle, handle\(\*args\), which launches and waits"
            ):
                call(ones(), ones(), ones())


@pytest.mark.parametrize("mine", [True, False])
def test_a_benchmark_without_a_single_span_says_why(mine: bool) -> None:
    compiled = sample_kernels.compile_add(16, 16)
    with ChipWorker() if mine else contextlib.nullcontext() as worker:
        with pytest.raises(
            RuntimeError, match=r"^no \[STRACE\] markers captured across 2 launches.*somebody else's"
        ) as e:
            benchmark(compiled, [ones(), ones(), ones()], rounds=1, warmup=1, worker=worker)
        assert e.value.code == "no_spans"  # type: ignore[attr-defined]


# Programs


def test_a_program_is_registered_once_for_its_content() -> None:
    one, same, other = (sample_kernels.compile_add(*shape) for shape in ((16, 16), (16, 16), (32, 16)))
    with ChipWorker() as worker:
        handles = [worker.register(compiled) for compiled in (one, same, other)]
        assert [handle.cid for handle in handles] == ["program 1", "program 1", "program 2"]
        assert worker.aicpu_dlopen_count == 2
        assert all(isinstance(handle, RegistrationHandle) for handle in handles)
        out = torch.empty(16, 16)
        assert handles[0](ones(), ones(), out) is None
        assert torch.equal(out, ones(2))
        with handles[0]:
            pass
        with pytest.raises(RuntimeError, match=r"RegistrationHandle has been unregistered \(or its parent Worker was"):
            handles[0](ones(), ones())
        assert torch.equal(handles[1](ones(), ones()), ones(2))
        with pytest.raises(NotImplementedError, match=r"bind\(\) needs"):
            handles[1].bind()
        with pytest.raises(NotImplementedError, match=r"submit\(\) needs"):
            handles[1].submit()


def test_arguments_are_checked_before_the_device_is_asked() -> None:
    compiled = sample_kernels.compile_add(16, 16)
    with ChipWorker() as worker, ChipWorker(RunConfig(device_id=1)) as other:
        small, foreign = worker.alloc_tensor((8, 16), torch.float32), other.alloc_tensor((16, 16), torch.float32)
        cases = [
            ((small, ones(), ones()), TypeError, "Parameter 'a'"),
            ((foreign, ones(), ones()), ValueError, r"At position 0: .*not a live allocation"),
            ((ones(), DeviceTensor(64, (16, 16), torch.float32), ones()), ValueError, r"At position 1: .*raw pointer"),
            ((ones(), ones().t(), ones()), ValueError, "Tensor at position 1 is not contiguous"),
            ((ones(),), TypeError, "arguments, got 1"),
        ]
        for args, error, text in cases:
            with pytest.raises(error, match=text):
                worker.run(compiled, *args)
        assert "run program 1" not in Device.made[0].calls


def test_settings_of_a_launch_reach_the_device() -> None:
    compiled = sample_kernels.compile_add(16, 16)
    with ChipWorker() as worker:
        worker.run(compiled, ones(), ones(), ones(), config=RunConfig(ring_heap=2048, enable_dump_args=2))
        settings = Device.made[0].settings
        assert (settings.ring_heap, settings.enable_dump_args) == (2048, 2)
        assert settings.output_prefix == str(compiled.output_dir / "dfx_outputs")
        assert (compiled.output_dir / "dfx_outputs").is_dir()
        worker.run(compiled, ones(), ones(), ones())
        assert Device.made[0].settings.output_prefix is None


def test_whatever_looks_compiled_can_be_run() -> None:
    compiled = MagicMock(platform="a2a3sim", runtime_name="tensormap_and_ringbuffer", output_indices=[2])
    tensors = [ones(), ones(2), ones(0)]
    compiled.build_orch_args.return_value = (TaskArgs(tensors), tensors, True)
    with ChipWorker() as worker:
        assert torch.equal(worker.run(compiled, *tensors[:2]), ones(3))
        compiled.build_orch_args.assert_called_once_with(*tensors[:2], worker=worker)
        compiled.platform = "a5sim"
        with pytest.raises(ValueError, match=r"'a5sim'.*'a2a3sim'"):
            worker.register(compiled)
        with pytest.raises(TypeError, match="expected a CompiledProgram, got int"):
            worker.register(3)  # type: ignore[arg-type]
