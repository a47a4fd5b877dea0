"""What recording costs the launch that is recorded."""

from __future__ import annotations

import statistics
import timeit

import kernels
import torch
from measure import Result

from pypto import _pypto
from pypto.runtime import ChipWorker, RunConfig

SHAPE = (16, 16)
CALLS = 500
SAMPLES = 61


def results() -> list[Result]:
    """Launches of three resident tensors with and without a recording, in turn; the difference for each span."""
    tensors = [torch.ones(SHAPE) for _ in range(3)]
    with ChipWorker(config=RunConfig()) as w:
        handle = w.register(kernels.add.compile(*tensors))
        resident = [w.alloc_tensor(SHAPE, torch.float32, init=tensor) for tensor in tensors]
        names = {"handle": handle} | dict(zip("abc", resident, strict=True))
        launches = timeit.Timer("handle(a, b, c)", globals=names)
        with _pypto.Recording() as recording:
            launches.timeit(1)
            spans = len(recording.drain()[1])
        off, on = [], []
        for _ in range(SAMPLES):
            off.append(launches.timeit(CALLS))
            with _pypto.Recording() as recording:
                on.append(launches.timeit(CALLS))
                # Outside of the measured time, so that the next round finds room.
                assert recording.drain()[2] == 0
        for tensor in resident:
            w.free_tensor(tensor)
        each = statistics.median(b - a for a, b in zip(off, on, strict=True)) / CALLS / spans * 1e9
        note = f"{spans} spans; {statistics.median(off) / CALLS * 1e9:,.0f} ns a launch without"
        return [Result("a span of a launch, recorded", each, 25.0, "ns", note=note)]
