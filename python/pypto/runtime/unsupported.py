"""Names of the public interface that this version does not support. They exist, and say so when they are used."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"pypto.runtime.{name} is not supported in this version: {instead}")


class DistributedWorker:
    """Programs on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("DistributedWorker", "programs run on one chip; use ChipWorker")


class DistributedRunHandle:
    """A launch on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("DistributedRunHandle", "programs run on one chip; use ChipWorker")


class StackedDeviceTensor:
    """A tensor on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("StackedDeviceTensor", "programs run on one chip; use ChipWorker.alloc_tensor")


def execute_distributed_compiled(*args: Any, **kwargs: Any) -> NoReturn:
    """Runs an artifact on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("execute_distributed_compiled", "programs run on one chip; use execute_compiled")


def ensure_pto_isa_root(*args: Any, **kwargs: Any) -> NoReturn:
    """Finds the vendor's instruction headers: the simulated chip needs none.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("ensure_pto_isa_root", "programs are not compiled with the vendor's headers")


def pto_isa_include_dir(*args: Any, **kwargs: Any) -> NoReturn:
    """The vendor's instruction headers: the simulated chip needs none.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("pto_isa_include_dir", "programs are not compiled with the vendor's headers")
