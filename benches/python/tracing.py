"""What recording costs the launch that is recorded."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kernels
import task_kernels
import torch
from measure import Result

from pypto import _pypto
from pypto.runtime import ChipWorker, RunConfig

SHAPE = (16, 16)
TILE = (128, 128)
CALLS = 500
SAMPLES = 61


def results() -> list[Result]:
    """A span of a small launch; a launch of a thousand tasks, with as little work as can be and with a tile each."""
    tiny = [torch.zeros(SHAPE), torch.ones(SHAPE)]
    tiles = [torch.zeros(TILE), torch.ones(TILE)]
    return [
        span([torch.ones(SHAPE) for _ in range(3)]),
        thousand("recording a launch of 1,000 tasks of 128x128", tiles),
        thousand("recording a launch of 1,000 tasks of 16x16", tiny),
    ]


def span(tensors: list[torch.Tensor]) -> Result:
    """Launches of three resident tensors with and without a recording, in turn; the difference for each span."""
    with launches(kernels.add, tensors) as timer:
        spans = spans_of(timer)
        off, on = turns(timer, CALLS, SAMPLES)
    each = statistics.median(b - a for a, b in zip(off, on, strict=True)) / CALLS / spans * 1e9
    note = f"{spans} spans; {statistics.median(off) / CALLS * 1e9:,.0f} ns a launch without"
    return Result("a span of a launch, recorded", each, 25.0, "ns", note=note)


def thousand(name: str, tensors: list[torch.Tensor]) -> Result:
    """What a recording adds to a launch of a thousand tasks, a span for each; short ones share clock readings."""
    with launches(task_kernels.tasks, tensors) as timer:
        spans = spans_of(timer)
        assert spans > task_kernels.STEPS
        # The buffers of the trace have room for 32,768 spans.
        calls = 20
        off, on = turns(timer, calls, SAMPLES)
    more = statistics.median(b / a for a, b in zip(off, on, strict=True)) - 1
    each = statistics.median(b - a for a, b in zip(off, on, strict=True)) / calls / spans * 1e9
    without = statistics.median(off) / calls * 1e6
    note = f"{spans:,} spans of {each:,.1f} ns; {without:,.0f} us a launch without"
    return Result(name, 100 * more, 5.0, "%", note=note)


@contextmanager
def launches(kernel: Any, tensors: list[torch.Tensor]) -> Iterator[timeit.Timer]:
    """A timer of launches with resident tensors, on one core."""
    with ChipWorker(config=RunConfig(cores=1)) as worker:
        handle = worker.register(kernel.compile(*tensors))
        resident = [worker.from_host(tensor) for tensor in tensors]
        names = {f"t{index}": tensor for index, tensor in enumerate(resident)}
        yield timeit.Timer(f"handle({', '.join(names)})", globals={"handle": handle} | names)
        for tensor in resident:
            worker.free_tensor(tensor)


def spans_of(timer: timeit.Timer) -> int:
    """How many spans a launch has."""
    with _pypto.Recording() as recording:
        timer.timeit(1)
        return len(recording.drain()[1])


def turns(timer: timeit.Timer, calls: int, samples: int) -> tuple[list[float], list[float]]:
    """Seconds of `calls` launches without and with a recording, in turn."""
    off, on = [], []
    for _ in range(samples):
        off.append(timer.timeit(calls))
        with _pypto.Recording() as recording:
            on.append(timer.timeit(calls))
            # Outside of the measured time, so that the next round finds room.
            assert recording.drain()[2] == 0
    return off, on
