"""What memory costs from Python: allocating and freeing, and moving a large tensor to the device."""

from __future__ import annotations

import numpy as np
import torch
import yardsticks
from device import Bench
from measure import Contest, Result, paired

MIB = 1 << 20


def results(threads: int, seconds: float) -> list[Result]:
    """Allocations of two sizes, and an upload beside the best copy."""
    with Bench(threads) as bench:
        allocations = allocation(bench) if threads == 1 else []
        return [*allocations, upload(bench, Contest(threads, seconds))]


def allocation(bench: Bench) -> list[Result]:
    """64 KiB and 1 MiB in turn: the cost must not grow with the size."""
    names = {"w": bench.worker, "dtype": torch.float32, "small": (128, 128), "large": (512, 512)}
    small, large = (f"w.free_tensor(w.alloc_tensor({size}, dtype))" for size in ("small", "large"))
    times = paired(large, small, names, calls=1000)
    note = f"{times.first_ns:,.0f} ns, of 64 KiB {times.second_ns:,.0f} ns"
    return [
        Result("alloc_tensor + free_tensor of 64 KiB", times.second_ns / 1e3, 2.0, "us"),
        # Two medians of equal work differ by a few per cent; a cost that grew with the size would be 16 times as high.
        Result("the same of 1 MiB", times.ratio, 1.05, "of 64 KiB", note=note),
    ]


def upload(bench: Bench, contest: Contest) -> Result:
    """256 MiB to the device, beside the best copy and `memmove` between buffers in huge pages, all touched before."""
    source, target = yardsticks.buffer(256 * MIB), yardsticks.buffer(256 * MIB)
    resident = bench.resident(source)
    team = yardsticks.Team(contest.threads)
    contest.add("best copy", "copy(target, source)", {"copy": team.copy, "target": target, "source": source})
    names = {"to": resident.data_ptr, "source": source.data_ptr(), "nbytes": source.nbytes}
    contest.add("pypto", "copy_to(to, source, nbytes)", names | {"copy_to": bench.worker.copy_to})
    contest.add("torch", "target.copy_(source)", {"target": target, "source": source})
    arrays = {"target": target.numpy(), "source": source.numpy()}
    contest.add("numpy", "copyto(target, source)", arrays | {"copyto": np.copyto})
    times = contest.times()
    speed = times["best copy"] / times["pypto"]
    note = f"{source.nbytes / times['pypto'] / 1e6:.1f} GB/s"
    more = {"note": note, "at_least": True, "threads": contest.threads, "figures": times}
    return Result("upload of 256 MiB", speed, 0.95, "of the best copy's speed", **more)
