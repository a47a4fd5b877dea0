"""What this machine can do: measured once by the extension's own loops and kept in the user's cache."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pypto import _pypto
from pypto.runtime import machine


@dataclass(frozen=True)
class Peaks:
    """Peaks of some threads together, for one instruction set. Bytes and operations in a second.

    Attributes:
        isa: Instruction set of the kernels: `generic`, `avx2` or `avx512`.
        threads: How many threads were measured at once.
        read: Bytes read from memory that no cache holds.
        copy: Bytes copied there, read and written bytes together.
        cached_read: Bytes read from the second-level cache.
        fp32: FP32 operations; a multiply-add is two.
        bf16: The same of BF16 with sums in FP32.
        int8: The same of INT8 with sums in INT32.
    """

    isa: str
    threads: int
    read: float
    copy: float
    cached_read: float
    fp32: float
    bf16: float
    int8: float

    @property
    def memory(self) -> float:
        """Bytes that can pass between memory and a kernel: of reading and of copying the larger."""
        return max(self.read, self.copy)

    def arithmetic(self, dtype: str) -> float:
        """The peak of products, in operations a second; FP16 has none of its own, since kernels widen it.

        Args:
            dtype: Type of the elements, as the language names it: `FP32`, `FP16`, `BF16` or `INT8`.
        """
        return {"BF16": self.bf16, "INT8": self.int8}.get(dtype, self.fp32)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


def peaks(threads: int = 1, *, fresh: bool = False) -> Peaks:
    """The peaks of `threads` threads of this machine.

    The first time on a machine they are measured, which takes about a second; then they are read from
    `$XDG_CACHE_HOME/pypto/peaks.json` (`~/.cache` where that is not set).

    Args:
        threads: How many threads work at once: the cores of the simulated chip.
        fresh: Measure again.

    Raises:
        ValueError: There are no such numbers of threads, or `PYPTO_ISA` cannot be had.
    """
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pypto" / "peaks.json"
    cpus = len(os.sched_getaffinity(0))
    key = f"{machine.processor()}, {cpus} CPUs, {_pypto.instruction_set()}, {threads} threads, {_pypto.__version__}"
    known = _read(path)
    if key not in known or fresh:
        known[key] = _pypto.measure_peaks(threads)
        _write(path, known)
    return Peaks(**known[key])


def _read(path: Path) -> dict[str, Any]:
    # What cannot be read is measured again.
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        names = set(Peaks.__dataclass_fields__)
        if isinstance(found, dict):
            return {key: one for key, one in found.items() if isinstance(one, dict) and set(one) == names}
    return {}


def _write(path: Path, known: dict[str, Any]) -> None:
    # Without a place to keep them they are measured each time. A file is never seen half-written.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(known, indent=1))
        new.replace(path)
