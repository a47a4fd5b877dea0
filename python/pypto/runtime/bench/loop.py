"""`benchmark()`: host time and device time of a program, apart, and the bytes that crossed."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures
from pypto.runtime import advice, notices, programs
from pypto.runtime.bench.stats import BenchmarkStats
from pypto.runtime.bench.summary import Summary
from pypto.runtime.progress import Progress
from pypto.runtime.run_config import RunConfig
from pypto.runtime.settings import check_device_id, check_int
from pypto.runtime.spans import Recorder, TraceInvocation
from pypto.runtime.worker import ChipWorker

if TYPE_CHECKING:
    from pypto._pypto import RegistrationHandle
    from pypto.ir import CompiledProgram

_DRAIN_SPANS = 8192
"""Spans that may lie in the trace's buffers before they are taken out. Taking them out between two launches costs the
next launch its warm caches, so it happens as seldom as the buffers (32,768 spans for each thread) allow."""

_STABLE_SPREAD = 0.01
_STABLE_ROUNDS = 20
_STABLE_SECONDS = 10.0


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
    until: str | None = None,
) -> BenchmarkStats:
    """Launches a program `warmup + rounds` times with the same arguments and measures the last `rounds`.

    The program is registered once, before the first launch. It runs on `worker`, else on the active worker of its
    platform, else on one that is opened for the purpose and closed again. Resident tensors of that worker are welcome
    among the arguments: comparing both ways shows what residency is worth (`host_wall_us` shrinks, `device_wall_us`
    does not move); `advice` of the result names the arguments that are worth it. Outputs hold what the last launch
    wrote.

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
        until: `"stable"` repeats the `rounds` until the 95 % intervals of the medians of host wall and device wall
            reach no further than 1 % to either side, or 10 s have passed; `BenchmarkStats.stable` says which.

    A run of more than a second shows a progress bar where stderr is a terminal.

    Raises:
        TypeError: `compiled` is no compiled program, or an argument does not fit.
        ValueError: A number is wrong, or two settings exclude each other.
        RuntimeError: This build, or the device of somebody else's that it runs on, records no spans.
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
    if until not in (None, "stable"):
        raise failures.SETTING_VALUE(f'until must be "stable" or None, got {until!r}')
    if device_id is not None:
        check_device_id(device_id)
    compiled = programs.check_compiled(compiled)
    if not _pypto.trace_available():
        raise failures.NO_SPANS(_no_markers(warmup + rounds, "this build was made with the feature trace-off"))
    plan = _Plan(rounds, warmup, until == "stable")
    if worker is not None:
        return _measure(worker, compiled, args, plan, config)
    place = config or RunConfig(platform=platform or compiled.platform, device_id=device_id or 0)
    runtime = programs.runtime_name(compiled)
    active = ChipWorker.current(level=2, platform=place.platform, device_id=place.device_id, runtime=runtime)
    if active is not None:
        return _measure(active, compiled, args, plan, config)
    with ChipWorker(place, runtime=runtime, enable_sdma=programs.needs_sdma(compiled)) as own:
        return _measure(own, compiled, args, plan, config)


def _no_markers(launches: int, why: str) -> str:
    return f"no [STRACE] markers captured across {launches} launches, of which benchmark() makes its statistics: {why}"


@dataclass(frozen=True)
class _Plan:
    """How often to launch."""

    rounds: int
    warmup: int
    until_stable: bool


def _measure(
    worker: ChipWorker, compiled: CompiledProgram, args: Sequence[Any], plan: _Plan, config: RunConfig | None
) -> BenchmarkStats:
    if not worker._records_spans:
        why = "the device is somebody else's (pypto.runtime.worker._SimplerWorker) and records none"
        raise failures.NO_SPANS(_no_markers(plan.warmup + plan.rounds, why))
    notices.simulated_device(worker.platform)
    begin = time.perf_counter()
    handle = worker.register(compiled)
    register_us = (time.perf_counter() - begin) * 1e6
    with Recorder() as recorder, Progress("benchmark") as progress:
        launches = _Launches(recorder, handle, args, config, progress)
        launches.add(plan.warmup)
        stable = _launch(launches, plan)
    measured = launches.ended[plan.warmup :]
    for invocation in launches.ended:
        invocation.task_name = programs.core_program(compiled).name or invocation.hid
    return BenchmarkStats(
        device_wall_us=[invocation.device_wall_us for invocation in measured],
        host_wall_us=[invocation.host_wall_us for invocation in measured],
        rounds=len(measured),
        warmup=plan.warmup,
        invocations=measured,
        h2d_bytes=measured[-1].h2d_bytes,
        d2h_bytes=measured[-1].d2h_bytes,
        advice=advice.of_benchmark(compiled, measured[-1].task_name, measured),
        dropped_spans=recorder.dropped,
        cold=launches.ended[0],
        register_us=register_us,
        stable=stable,
    )


def _launch(launches: _Launches, plan: _Plan) -> bool | None:
    """Makes the measured launches; says whether the medians came to rest, where that was asked for."""
    if not plan.until_stable:
        launches.add(plan.rounds)
        return None
    deadline = time.monotonic() + _STABLE_SECONDS
    rounds = plan.rounds
    while True:
        launches.add(rounds)
        measured = launches.ended[plan.warmup :]
        clocks = (
            [one.host_wall_us for one in measured],
            [one.device_wall_us for one in measured],
        )
        if len(measured) >= _STABLE_ROUNDS and all(Summary.of(clock).spread <= _STABLE_SPREAD for clock in clocks):
            return True
        if time.monotonic() >= deadline:
            return False
        # Doubling, since the interval shrinks with the root of their number; not beyond the deadline.
        seconds = statistics.median(clocks[0]) / 1e6
        rounds = max(1, min(len(measured), int((deadline - time.monotonic()) / max(seconds, 1e-9))))


class _Launches:
    """Launches with the same arguments and keeps the spans of this thread's launches."""

    def __init__(
        self,
        recorder: Recorder,
        handle: RegistrationHandle,
        args: Sequence[Any],
        config: RunConfig | None,
        progress: Progress,
    ) -> None:
        self._recorder = recorder
        self._handle = handle
        self._args = args
        self._config = config
        self._progress = progress
        self._tid = threading.get_native_id()
        self._interval = 1
        self.ended: list[TraceInvocation] = []
        self._take()  # what ended before the first launch
        self.ended.clear()

    def add(self, count: int) -> None:
        """Launches `count` times.

        Raises:
            RuntimeError: The trace lost one of the launches.
        """
        wanted = len(self.ended) + count
        waiting = 0
        self._progress.extend(count)
        for _ in range(count):
            self._handle(*self._args, config=self._config)
            waiting += 1
            if waiting >= self._interval:
                self._interval = max(1, _DRAIN_SPANS // self._take())
                self._progress.advance(waiting)
                waiting = 0
        self._take()
        self._progress.advance(waiting)
        if len(self.ended) != wanted:
            raise failures.LOST_SPANS(
                f"captured {len(self.ended)} of {wanted} launches; {self._recorder.dropped} spans were lost because "
                f"trace buffers were full"
            )

    def _take(self) -> int:
        """Takes out the spans recorded so far; returns how many the largest launch had."""
        taken = self._recorder.take()
        for invocation in taken:
            root = invocation.root()
            if root is not None and root.tid == self._tid:
                self.ended.append(invocation)
        return max((len(invocation.spans) for invocation in taken), default=1)
