"""Devices that tell more about launches than ordinary ones, and arguments on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pypto import _pypto, failures
from pypto.runtime.chip_memory import default_device_memory
from pypto.runtime.device_tensor import DeviceTensor


@contextmanager
def device(platform: str, cores: int, observe: str) -> Iterator[_pypto.Worker]:
    """A device that observes `steps` or `tasks`, closed afterwards with all that was allocated on it."""
    opened = _pypto.Worker(platform, 0, capacity=default_device_memory(), cores=cores, observe=observe)
    try:
        yield opened
    finally:
        opened.close()


def refuse_resident(name: str, args: Sequence[Any]) -> None:
    """Raises `ValueError` for tensors that lie on another device."""
    if any(isinstance(arg, DeviceTensor) for arg in args):
        raise failures.SETTING_VALUE(f"{name}() keeps all tensors on a device of its own: pass host tensors")


def is_tensor(arg: Any) -> bool:
    """Whether an argument is an array and no number."""
    return hasattr(arg, "__dlpack__") and getattr(arg, "shape", ()) != ()


def placed(on: _pypto.Worker, args: Sequence[Any]) -> list[Any]:
    """The arguments with a resident copy of each array."""
    return [_copy(on, arg) if is_tensor(arg) else arg for arg in args]


def _copy(on: _pypto.Worker, arg: Any) -> DeviceTensor:
    import torch

    host = torch.as_tensor(arg)
    return on.alloc_tensor(tuple(host.shape), host.dtype, init=host.contiguous())
