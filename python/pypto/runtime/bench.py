"""`benchmark()`: host time and device time of a program, apart, and the bytes that crossed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures
from pypto.runtime import programs
from pypto.runtime.bench_stats import BenchmarkStats
from pypto.runtime.run_config import RunConfig
from pypto.runtime.settings import check_device_id, check_int
from pypto.runtime.spans import Recorder, TraceInvocation, TraceSpan
from pypto.runtime.worker import ChipWorker

if TYPE_CHECKING:
    from pypto._pypto import RegistrationHandle
    from pypto.ir import CompiledProgram

__all__ = ["BenchmarkStats", "TraceInvocation", "TraceSpan", "benchmark"]

_DRAIN_SPANS = 8192
"""Spans that may lie in the trace's buffers before they are taken out. Taking them out between two launches costs the
next launch its warm caches, so it happens as seldom as the buffers (32,768 spans for each thread) allow."""


def benchmark(
    compiled: CompiledProgram,
    args: Sequence[Any],
    *,
    rounds: int = 100,
    warmup: int = 3,
    platform: str | None = None,
    device_id: int | None = None,
    config: RunConfig | None = None,
    persistent: bool = False,
    reset_persistent_windows: bool | None = None,
    worker: ChipWorker | None = None,
) -> BenchmarkStats:
    """Launches a program `warmup + rounds` times with the same arguments and measures the last `rounds`.

    The program is registered once, before the first launch. It runs on `worker`, else on the active worker of its
    platform, else on one that is opened for the purpose and closed again. Resident tensors of that worker are welcome
    among the arguments: comparing both ways shows what residency is worth (`host_wall_us` shrinks, `device_wall_us`
    does not move). Outputs hold what the last launch wrote.

    Args:
        compiled: The program.
        args: The arguments of each launch.
        rounds: Measured launches.
        warmup: Launches before them.
        platform: Where to run; the program's platform if not given.
        device_id: Which device; 0 if not given.
        config: Platform, device and settings in one.
        persistent: For programs on several devices.
        reset_persistent_windows: For programs on several devices.
        worker: Where to run.

    Raises:
        TypeError: `compiled` is no compiled program, or an argument does not fit.
        ValueError: A number is wrong, or two settings exclude each other.
        RuntimeError: This build records no spans.
    """
    check_int("rounds", rounds)
    check_int("warmup", warmup)
    if rounds <= 0:
        raise failures.SETTING_VALUE(f"rounds must be positive, got {rounds}")
    if warmup < 0:
        raise failures.SETTING_VALUE(f"warmup must be non-negative, got {warmup}")
    if persistent or reset_persistent_windows is not None:
        raise failures.SETTINGS_CONFLICT(
            "persistent and reset_persistent_windows apply only to an L3 program, on several devices"
        )
    if config is not None and (platform is not None or device_id is not None):
        raise failures.SETTINGS_CONFLICT("pass either config or platform and device_id, not both")
    if worker is not None and (config is not None or platform is not None or device_id is not None):
        raise failures.SETTINGS_CONFLICT(
            "pass either worker or config, platform and device_id, not both: the worker has its own"
        )
    if config is not None and not isinstance(config, RunConfig):
        raise failures.BAD_CONFIG(f"config must be a RunConfig, got {type(config).__name__}")
    if worker is not None and not isinstance(worker, ChipWorker):
        raise failures.NOT_A_WORKER(f"worker must be a ChipWorker, got {type(worker).__name__}")
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise failures.SETTING_TYPE(f"args must be a sequence of arguments, got {type(args).__name__}; pass [a, b, c]")
    if device_id is not None:
        check_device_id(device_id)
    compiled = programs.check_compiled(compiled)
    if not _pypto.trace_available():
        raise failures.NO_SPANS("benchmark() needs spans, and this build was made with the feature trace-off")
    if worker is not None:
        return _measure(worker, compiled, args, rounds, warmup, config)
    config = config or RunConfig(platform=platform or compiled.platform, device_id=device_id or 0)
    runtime = programs.runtime_name(compiled)
    active = ChipWorker.current(level=2, platform=config.platform, device_id=config.device_id, runtime=runtime)
    if active is not None:
        return _measure(active, compiled, args, rounds, warmup, config)
    with ChipWorker(config, runtime=runtime) as own:
        return _measure(own, compiled, args, rounds, warmup, config)


def _measure(
    worker: ChipWorker,
    compiled: CompiledProgram,
    args: Sequence[Any],
    rounds: int,
    warmup: int,
    config: RunConfig | None,
) -> BenchmarkStats:
    handle = worker.register(compiled)
    with Recorder() as recorder:
        invocations = _launch_all(recorder, handle, args, warmup + rounds, config)
    if len(invocations) != warmup + rounds:
        raise failures.LOST_SPANS(
            f"captured {len(invocations)} of {warmup + rounds} launches; {recorder.dropped} spans were lost because "
            f"trace buffers were full"
        )
    measured = invocations[warmup:]
    for invocation in measured:
        invocation.task_name = _name_of(compiled, invocation.hid)
    return BenchmarkStats(
        device_wall_us=[invocation.device_wall_us for invocation in measured],
        host_wall_us=[invocation.host_wall_us for invocation in measured],
        rounds=rounds,
        warmup=warmup,
        invocations=measured,
        h2d_bytes=measured[-1].h2d_bytes,
        d2h_bytes=measured[-1].d2h_bytes,
        dropped_spans=recorder.dropped,
    )


def _launch_all(
    recorder: Recorder, handle: RegistrationHandle, args: Sequence[Any], count: int, config: RunConfig | None
) -> list[TraceInvocation]:
    """Launches `count` times and returns the launches of this thread."""
    tid = threading.get_native_id()
    mine: list[TraceInvocation] = []

    def take() -> int:
        taken = recorder.take()
        for invocation in taken:
            root = invocation.root()
            if root is not None and root.tid == tid:
                mine.append(invocation)
        return max((len(invocation.spans) for invocation in taken), default=1)

    take()  # what ended before the first launch
    mine.clear()
    waiting, interval = 0, 1
    for _ in range(count):
        handle(*args, config=config)
        waiting += 1
        if waiting >= interval:
            interval = max(1, _DRAIN_SPANS // take())
            waiting = 0
    take()
    return mine


def _name_of(compiled: CompiledProgram, fallback: str) -> str:
    return programs.core_program(compiled).name or fallback
