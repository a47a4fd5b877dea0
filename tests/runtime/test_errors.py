"""Exceptions of the core: class, text, and the stable name in `code`."""

from collections.abc import Callable

import core_programs as core
import pytest
import torch
from core_programs import Register

from pypto import _pypto


def freed(device: _pypto.Worker) -> _pypto.DeviceTensor:
    tensor = device.alloc_tensor((16, 16), torch.float32)
    device.free_tensor(tensor)
    return tensor


CASES: dict[str, tuple[type[Exception], Callable[[_pypto.Worker, _pypto.RegistrationHandle], object]]] = {
    "out_of_memory": (MemoryError, lambda device, _: device.malloc(1 << 40)),
    "unknown_address": (ValueError, lambda device, _: device.free(7)),
    "interior_pointer": (ValueError, lambda device, _: device.free(device.malloc(1024) + 1)),
    "freed_address": (ValueError, lambda device, _: device.copy_to(freed(device).data_ptr, torch.zeros(1))),
    "out_of_range": (ValueError, lambda device, _: device.copy_to(device.malloc(4), torch.zeros(2))),
    "freed_buffer": (ValueError, lambda device, handle: handle(freed(device), torch.ones(16, 16), torch.ones(16, 16))),
    "argument_type": (TypeError, lambda _, handle: handle(torch.ones(1), torch.ones(16, 16), torch.ones(16, 16))),
    "argument_value": (ValueError, lambda _, handle: handle(*[torch.ones(16, 16)] * 3)),
    "invalid_capacity": (ValueError, lambda *_: _pypto.Worker("a2a3sim", capacity=0)),
    "undecodable_program": (ValueError, lambda *_: _pypto.Program.decode(b"")),
}


@pytest.mark.parametrize("code", CASES)
def test_an_exception_says_its_code(device: _pypto.Worker, register: Register, code: str) -> None:
    kind, call = CASES[code]
    with pytest.raises(kind) as raised:
        call(device, register(core.add()))
    assert type(raised.value) is kind
    assert raised.value.code == code
    assert str(raised.value)


def test_a_closed_worker_has_a_code_too(device: _pypto.Worker) -> None:
    device.close()
    with pytest.raises(RuntimeError, match="requires an initialized ChipWorker") as raised:
        device.malloc(4)
    assert raised.value.code == "worker_closed"
