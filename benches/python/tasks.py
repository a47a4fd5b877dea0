"""What a task costs above its arithmetic, and what all cores bring against one where the arithmetic is the limit."""

from __future__ import annotations

import ctypes
import functools

import product_kernels
import row_kernels
import task_kernels
import torch
from device import Bench
from measure import Contest, Result
from yardsticks import Team, library


def results(threads: int, seconds: float) -> list[Result]:
    """The first at any number of threads, the second where there are several."""
    contests = functools.partial(Contest, threads, seconds)
    return [tiny(contests()), *(cores(contests, threads) if threads > 1 else [])]


def tiny(contest: Contest) -> Result:
    """A launch of dependent tasks in turn with the bare arithmetic of all of them in C."""
    with Bench(contest.threads) as bench:
        a, b = torch.zeros(16, 16), torch.ones(16, 16)
        bench.add(contest, task_kernels.tasks, a, b)
        addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (a, b)]
        adds = functools.partial(library().plain_adds, *addresses, ctypes.c_size_t(task_kernels.STEPS))
        contest.add("arithmetic", "adds()", {"adds": adds})
        times = contest.times()
    each = (times["pypto"] - times["arithmetic"]) * 1e6 / task_kernels.STEPS
    name = "1,000 tiny dependent tasks, above the arithmetic"
    return Result(name, each, 60.0, "ns a task", threads=contest.threads, figures=times)


def cores(contests: functools.partial[Contest], threads: int) -> list[Result]:
    """Two workers in turn, and bare arithmetic: what the machine's cores bring when nothing is scheduled."""
    side = 1024
    floats = [torch.rand(side, side) - 0.5 for _ in range(2)]
    halves = [tensor.to(torch.bfloat16) for tensor in floats]
    integers = [torch.randint(-128, 128, (side, side), dtype=torch.int8) for _ in range(2)]
    out = torch.empty(side, side)
    q, k, v = (torch.randn(1024, 128) for _ in range(3))
    few, many = torch.randn(1024, 1024), torch.randn(4096, 1024)
    cases = {
        "matmul 1024^3, FP32": (product_kernels.product, *floats, out),
        "matmul 1024^3, BF16": (product_kernels.product, *halves, out),
        "matmul 1024^3, INT8": (product_kernels.product, *integers, out.int()),
        "attention, 1 head, 1024x128": (product_kernels.attention, q, k, v, torch.empty_like(q)),
        "softmax, 1024x1024": (row_kernels.softmax, few, torch.empty_like(few)),
        "softmax, 4096x1024": (row_kernels.softmax, many, torch.empty_like(many)),
    }
    # It does not fit the caches: two cores wait for memory.
    shown = {"softmax, 4096x1024"}
    rows = []
    alone, team = Team(1), Team(threads)
    for name, (kernel, *args) in cases.items():
        contest = contests()
        for label, peak in (("peak of one core", alone), ("peak", team)):
            contest.add(label, "run('fp32')", {"run": peak.run_peak})
        with Bench(1) as one, Bench(threads) as all_cores:
            one.add(contest, kernel, *args, name="one core")
            all_cores.add(contest, kernel, *args)
            times = contest.times()
        # The target is stated for two cores where arithmetic is the limit; what else they bring is shown.
        target = 1.9 if threads == 2 and name not in shown else None
        speedup = times["one core"] / times["pypto"]
        note = f"bare arithmetic {threads * times['peak of one core'] / times['peak']:.3g} times"
        label = f"{threads} cores against one: {name}"
        rows.append(Result(label, speedup, target, "times", note, at_least=True, threads=threads, figures=times))
    return rows
