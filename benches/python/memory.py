"""What memory costs from Python: allocating and freeing, and moving a large tensor to the device."""

from __future__ import annotations

import ctypes

import torch
from measure import Result, paired

from pypto.runtime import ChipWorker, RunConfig

MIB = 1 << 20


def results() -> list[Result]:
    """Allocations of two sizes, and an upload beside a plain copy."""
    with ChipWorker(config=RunConfig()) as w:
        return [*allocation(w), upload(w)]


def allocation(w: ChipWorker) -> list[Result]:
    """64 KiB and 1 MiB in turn: the cost must not grow with the size."""
    names = {"w": w, "dtype": torch.float32, "small": (128, 128), "large": (512, 512)}
    small, large = (f"w.free_tensor(w.alloc_tensor({size}, dtype))" for size in ("small", "large"))
    times = paired(large, small, names, calls=1000)
    note = f"{times.first_ns:,.0f} ns, of 64 KiB {times.second_ns:,.0f} ns"
    return [
        Result("alloc_tensor + free_tensor of 64 KiB", times.second_ns / 1e3, 2.0, "us"),
        # Two medians of equal work differ by a few per cent; a cost that grew with the size would be 16 times as high.
        Result("the same of 1 MiB", times.ratio, 1.05, "of 64 KiB", note=note),
    ]


def upload(w: ChipWorker) -> Result:
    """64 MiB to the device, beside `memmove` between two host buffers that were touched before."""
    nbytes = 64 * MIB
    source, target = (torch.ones(nbytes, dtype=torch.uint8) for _ in range(2))
    resident = w.alloc_tensor((nbytes // 4,), torch.float32, init=torch.zeros(nbytes // 4))
    names = {
        "memmove": ctypes.memmove,
        "copy_to": w.copy_to,
        "source": source.data_ptr(),
        "target": target.data_ptr(),
        "device": resident.data_ptr,
        "nbytes": nbytes,
    }
    times = paired("memmove(target, source, nbytes)", "copy_to(device, source, nbytes)", names, calls=1, samples=31)
    w.free_tensor(resident)
    speed = [nbytes / nanoseconds for nanoseconds in (times.second_ns, times.first_ns)]
    note = f"{speed[0]:.1f} GB/s, memmove {speed[1]:.1f} GB/s"
    return Result("upload of 64 MiB", times.ratio, 0.9, "of memmove's speed", note=note, at_least=True)
