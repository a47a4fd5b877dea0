"""Names of the public interface that this version does not support. They exist, and say so when they are used."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NoReturn

from pypto import failures


def refuse(name: str, instead: str) -> NoReturn:
    """Raises the error of a name of `pypto.runtime` that is not supported."""
    raise failures.NOT_SUPPORTED(f"pypto.runtime.{name} is not supported in this version: {instead}")


class DistributedWorker:
    """Programs on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse("DistributedWorker", "programs run on one chip; use ChipWorker")


class DistributedRunHandle:
    """A launch on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse("DistributedRunHandle", "programs run on one chip; use ChipWorker")


def execute_distributed_compiled(*args: Any, **kwargs: Any) -> NoReturn:
    """Runs an artifact on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """
    refuse("execute_distributed_compiled", "programs run on one chip; use execute_compiled")


def ensure_pto_isa_root(*args: Any, **kwargs: Any) -> NoReturn:
    """Finds the vendor's instruction headers: the simulated chip needs none.

    Raises:
        NotImplementedError: Always.
    """
    refuse("ensure_pto_isa_root", "programs are not compiled with the vendor's headers")


def pto_isa_include_dir(*args: Any, **kwargs: Any) -> NoReturn:
    """The vendor's instruction headers: the simulated chip needs none.

    Raises:
        NotImplementedError: Always.
    """
    refuse("pto_isa_include_dir", "programs are not compiled with the vendor's headers")


def names_of(module: str, instead: str, private: Container[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names exist only in the vendor's runtime.

    A name can be imported; calling it raises `NotImplementedError`. Private names do not exist, but for those of
    `private`, which programs import.
    """

    def find(name: str) -> Any:
        if name.startswith("_") and name not in private:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise failures.NOT_SUPPORTED(f"{module}.{name} is not supported in this version: {instead}")

        refuse.__name__ = refuse.__qualname__ = name
        return refuse

    return find
