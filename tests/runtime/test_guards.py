"""Poison mode: what was overwritten behind the end of a tensor is reported, at close at the latest."""

import ctypes
import gc
import logging
import os
import re

import pytest
import torch

from pypto.runtime import ChipWorker, DeviceTensor, RunConfig

GUARD = b"\xa5" * 8
"""How the memory behind a tensor begins."""


def smash(worker: ChipWorker, tensor: DeviceTensor, behind: int = 0) -> None:
    """Overwrites a byte behind the end of a tensor, as a defect of the device would: kernels cannot."""
    pattern = os.urandom(tensor.nbytes)
    worker.copy_to(tensor, torch.frombuffer(bytearray(pattern), dtype=torch.uint8))
    end = host_address(pattern) + tensor.nbytes
    ctypes.memset(end + behind, 0x77, 1)


def host_address(pattern: bytes) -> int:
    """Where in this process the device memory lies that holds the pattern and a guard behind it."""
    overlap = len(pattern) + len(GUARD)
    # One buffer, there before the mappings are listed: none that is listed goes away while they are read.
    part = bytearray(4 << 20)
    with open("/proc/self/maps") as maps:
        mappings = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0 +$", maps.read(), re.MULTILINE)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for first, last in ((int(first, 16), int(last, 16)) for first, last in mappings):
            for start in range(first, last, len(part) - overlap):
                memory.seek(start)
                held = memory.readinto(memoryview(part)[: last - start])
                # Pattern and guard are looked for one by one: put together they would lie on the heap, and be found.
                at = part.find(pattern, 0, held)
                while at != -1:
                    if part.startswith(GUARD, at + len(pattern)):
                        return start + at
                    at = part.find(pattern, at + 1, held)
    raise AssertionError("device memory was not found")


@pytest.fixture
def poisoned() -> ChipWorker:
    return ChipWorker(RunConfig(device_memory=1 << 20, poison=True))


TEXT = (
    r"memory behind the end of UINT8 \(1024,\) at 0x[0-9a-f]+ \(1 KiB\), allocated at \S+test_guards\.py:\d+ of "
    r"worker #\d+.* was overwritten; the first bad byte is 1031 bytes from its base, 7 behind its end"
)


def test_close_names_what_leaked_then_what_was_overwritten(
    poisoned: ChipWorker, caplog: pytest.LogCaptureFixture
) -> None:
    tensor = poisoned.alloc_tensor((1024,), torch.uint8)
    smash(poisoned, tensor, 7)
    with (
        caplog.at_level(logging.WARNING, "pypto.runtime.runtime_base"),
        pytest.raises(RuntimeError, match=f"^found at close: {TEXT}$") as raised,
    ):
        poisoned.close()
    assert raised.value.code == "guard_violated"
    assert "freed 1 tensor that the program was leaking" in caplog.text
    assert not poisoned.initialized
    poisoned.close()
    with poisoned:
        assert poisoned.memory_stats()["live"] == 0


def test_the_error_of_the_block_is_not_lost(poisoned: ChipWorker) -> None:
    def fail() -> None:
        with poisoned:
            smash(poisoned, poisoned.alloc_tensor((1024,), torch.uint8), 7)
            raise KeyError("the user's own")

    with pytest.raises(RuntimeError, match="found at close") as raised:
        fail()
    assert isinstance(raised.value.__context__, KeyError)


def test_free_frees_and_raises(poisoned: ChipWorker) -> None:
    tensor = poisoned.alloc_tensor((1024,), torch.uint8)
    smash(poisoned, tensor, 7)
    with pytest.raises(RuntimeError, match=f"^found at free: {TEXT}$"):
        poisoned.free_tensor(tensor)
    assert poisoned.memory_stats()["live"] == 0
    poisoned.close()


def test_a_worker_that_nobody_closed_reports_it_in_the_log(
    poisoned: ChipWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = ChipWorker(RunConfig(device_memory=1 << 20, poison=True))
    smash(worker, worker.alloc_tensor((1024,), torch.uint8), 7)
    with caplog.at_level(logging.WARNING, "pypto.runtime.runtime_base"):
        del worker
        gc.collect()
    assert re.search(f"closing the abandoned ChipWorker for a2a3sim device 0: found at close: {TEXT}", caplog.text)
    poisoned.close()
