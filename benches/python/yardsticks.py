"""What this machine can do, from `yardsticks.c`: compiled once for this processor, called without Python's lock."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import queue
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

CPUS = os.sched_getaffinity(0)
SOURCE = Path(__file__).with_name("yardsticks.c")
# Which of the last three makes the quickest plain loops differs between processors: all are measured.
PEAKS = ("-O3", "-march=native")
PLAIN = {
    "plain C": ("-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512"),
    "plain C, 256 bits": ("-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=256"),
    "plain C, -O2": ("-O2", "-ftree-vectorize", "-march=native", "-ffast-math"),
}


@functools.cache
def library(flags: tuple[str, ...] = PEAKS) -> ctypes.CDLL:
    """The yardsticks, compiled with these flags."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "yardsticks.so"
        # libmvec, by way of libm, has the vector forms of expf that -ffast-math calls.
        command = ["cc", "-shared", "-fPIC", *flags, str(SOURCE), "-o", str(path), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        made = ctypes.CDLL(str(path))
    for name in ("fp32_operations", "bf16_operations"):
        getattr(made, name).restype = ctypes.c_double
    return made


class Team:
    """Calls a function of the library on some threads at once, each with its own part.

    Each thread keeps to a CPU of its own: a free one is often woken where another already works, and the peak of two
    cores was then measured as 0.5 to 0.9 of what it is.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.cpus = queue.SimpleQueue[int]()
        for cpu in sorted(CPUS)[:threads]:
            self.cpus.put(cpu)
        self.pool = ThreadPoolExecutor(threads, initializer=self.sit_down) if threads > 1 else None

    def sit_down(self) -> None:
        """Keeps the calling thread on the next CPU of the process, if one is left."""
        with contextlib.suppress(queue.Empty):
            os.sched_setaffinity(0, {self.cpus.get_nowait()})

    def run(self, function: Any, *parts: tuple[Any, ...]) -> None:
        """One call for each part."""
        if self.pool is None:
            return function(*parts[0])
        for done in [self.pool.submit(function, *part) for part in parts]:
            done.result()

    def peak(self, dtype: str) -> float:
        """Operations of one `run_peak`."""
        return float(getattr(library(), f"{dtype}_operations")()) * self.threads

    def run_peak(self, dtype: str) -> None:
        """The arithmetic peak of `fp32` or `bf16` on every thread."""
        self.run(getattr(library(), f"{dtype}_peak"), *[()] * self.threads)

    def read(self, buffer: torch.Tensor) -> None:
        """Reads all of it."""
        self.run(library().read_memory, *self.cut([buffer]))

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """The best copy."""
        self.run(library().copy_memory, *self.cut([target, source]))

    def cut(self, buffers: list[torch.Tensor]) -> list[tuple[Any, ...]]:
        """Equal parts of the buffers, whose sizes are multiples of `512 * threads`, and the size of a part."""
        nbytes = buffers[0].nbytes
        assert nbytes % (512 * self.threads) == 0, "parts are whole"
        part = nbytes // self.threads
        starts = range(0, nbytes, part)
        return [
            (*(ctypes.c_void_p(buffer.data_ptr() + start) for buffer in buffers), ctypes.c_size_t(part))
            for start in starts
        ]


def buffer(nbytes: int) -> torch.Tensor:
    """Touched memory in huge pages, as the arena has it: a mapping of its own, aligned to 2 MiB."""
    huge = 2 << 20
    room = torch.empty(nbytes + huge, dtype=torch.uint8)
    start = -room.data_ptr() % huge
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise(ctypes.c_void_p(room.data_ptr() + start), ctypes.c_size_t(nbytes), 14)  # MADV_HUGEPAGE
    return room[start : start + nbytes].fill_(1)
