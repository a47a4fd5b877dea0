"""Tile kernels written in Python, run by a Rust runtime on an Ascend-style chip or its simulator.

`pypto.language` is what a kernel's author types, `pypto.ir` compiles it, `pypto.runtime` runs it. The parts are
imported when they are first used, and torch and numpy when a tensor is: `import pypto` alone costs milliseconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    from pypto._pypto import __version__
except ImportError as error:
    raise ImportError(
        "the Rust extension pypto._pypto is not built or does not fit this Python: run `make setup` or "
        "`maturin develop --release` in the source tree, or `pip install .`"
    ) from error

from pypto.errors import Error, InternalError, OutOfMemoryError, VerificationError

if TYPE_CHECKING:
    from pypto import backend, debug, ir, language, runtime
    from pypto.runtime.trace_file import trace

__all__ = [
    "Error",
    "InternalError",
    "OutOfMemoryError",
    "VerificationError",
    "__version__",
    "backend",
    "debug",
    "ir",
    "language",
    "runtime",
    "trace",
]

_PACKAGES = frozenset({"backend", "debug", "ir", "language", "runtime"})


def __getattr__(name: str) -> Any:
    """Imports a part of the package when it is first used."""
    if name in _PACKAGES:
        return importlib.import_module(f"pypto.{name}")
    if name == "trace":
        return importlib.import_module("pypto.runtime.trace_file").trace
    raise AttributeError(f"module 'pypto' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, those of parts that are not imported yet included."""
    return sorted({*globals(), *_PACKAGES, "trace"})
