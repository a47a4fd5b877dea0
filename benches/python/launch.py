"""What one launch of a tiny kernel costs from Python, beside torch doing the same addition; and what comes before."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable

import kernels
import torch
from measure import Paired, Result, paired

from pypto.runtime import ChipWorker, RunConfig

SHAPE = (16, 16)


def results() -> list[Result]:
    """Resident tensors, then host tensors, each beside `torch.add(a, b, out=c)`."""
    a, b = torch.randn(SHAPE), torch.randn(SHAPE)
    c = torch.empty(SHAPE)
    with ChipWorker(config=RunConfig()) as w:
        compiled = kernels.add.compile(a, b, c)
        handle = w.register(compiled)
        resident = [w.alloc_tensor(SHAPE, torch.float32, init=tensor) for tensor in (a, b, c)]
        names = {"handle": handle, "add": torch.add, "a": a, "b": b, "c": c}
        names |= dict(zip(("ra", "rb", "rc"), resident, strict=True))
        eager = "add(a, b, out=c)"
        rows = [
            row("launch, three resident tensors", 0.30, paired("handle(ra, rb, rc)", eager, names, calls=2000)),
            row("launch, three host tensors", 1.0, paired("handle(a, b, c)", eager, names, calls=2000)),
            each("register + unregister of a program that is known", lambda: w.register(compiled).unregister(), 1000),
            each("opening and closing a worker", lambda: ChipWorker(RunConfig(device_id=1)).close(), 20),
        ]
        for tensor in resident:
            w.free_tensor(tensor)
        return rows


def each(name: str, what: Callable[[], object], calls: int) -> Result:
    """Microseconds of a call, the median of rounds; shown for itself."""
    rounds = timeit.repeat(what, number=calls, repeat=9)
    return Result(name, statistics.median(rounds) / calls * 1e6, None, "us")


def row(name: str, target: float, times: Paired) -> Result:
    """A ratio to torch's time as a result."""
    note = f"{times.first_ns:,.0f} ns, torch {times.second_ns:,.0f} ns; ratio of the quickest {times.least:.3g}"
    return Result(name, times.ratio, target, "of torch", note=note)
