"""`profile()`: launches a program on a device that times each step."""

from __future__ import annotations

import statistics
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures
from pypto.runtime import call_args, programs
from pypto.runtime.bench import benchmark
from pypto.runtime.device_tensor import DeviceTensor
from pypto.runtime.profiling.observed import device, is_tensor, placed, refuse_resident
from pypto.runtime.profiling.peaks import peaks
from pypto.runtime.profiling.result import Operation, Profile, Step, attributed
from pypto.runtime.run_config import RunConfig
from pypto.runtime.settings import check_int
from pypto.runtime.worker import ChipWorker

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram


def profile(
    compiled: CompiledProgram,
    *args: Any,
    launches: int = 20,
    warmup: int = 3,
    cores: int = 1,
    fresh_peaks: bool = False,
) -> Profile:
    """Says where the device time of a program goes: time, bytes and flops of each step and operation.

    The program is launched on a device of its own, whose plan is the ordinary one: what is executed as one is timed as
    one. Elementwise operations and row reductions are fused into chains, which run chunk by chunk in registers, so the
    clock can time a chain and not its operations; their parts are attributed, and marked so (`Operation.measured`).
    Tasks run one after the other. All tensors are resident, so weights are packed once, before the first launch.

    Args:
        compiled: The program.
        *args: One for each parameter, on the host, or one for each that is no pure output. Nothing is written to them.
        launches: Measured launches; each time is the median of them.
        warmup: Launches before them.
        cores: Cores of the simulated chip, which share the work of each step. With one, times add up to work.
        fresh_peaks: Measure the peaks of this machine again.

    Raises:
        TypeError: `compiled` is no compiled program, or an argument does not fit.
        ValueError: A number is wrong, or an argument is resident on another worker.
        RuntimeError: This build records no spans, or the device failed.
    """
    for name, value, least in (("launches", launches, 1), ("warmup", warmup, 0), ("cores", cores, 1)):
        check_int(name, value)
        if value < least:
            raise failures.SETTING_VALUE(f"{name} must be at least {least}, got {value}")
    compiled = programs.check_compiled(compiled)
    refuse_resident("profile", args)
    whole = call_args.with_outputs(compiled, args)
    found = _launched(compiled, whole, launches, warmup, cores)
    config = RunConfig(platform=compiled.platform, cores=cores)
    runtime, sdma = programs.runtime_name(compiled), programs.needs_sdma(compiled)
    # Not entered: the program that asks may be inside a worker of the same platform and device.
    with closing(ChipWorker(config, runtime=runtime, enable_sdma=sdma)) as worker:
        resident = [worker.from_host(arg) if is_tensor(arg) else arg for arg in whole]
        stats = benchmark(compiled, resident, rounds=launches, warmup=warmup, worker=worker)
        for tensor in resident:
            if isinstance(tensor, DeviceTensor):
                worker.free_tensor(tensor)
    limits = peaks(cores, fresh=fresh_peaks)
    return Profile(compiled.name, launches, cores, stats.device.median, limits, _steps(found, limits.memory))


def _launched(
    compiled: CompiledProgram, args: list[Any], launches: int, warmup: int, cores: int
) -> list[list[dict[str, Any]]]:
    """The steps of each launch as the extension tells them."""
    with device(compiled.platform, cores, "steps") as chip:
        handle = programs.register(chip, compiled, None, None)
        resident = placed(chip, args)
        for _ in range(warmup):
            handle(*resident)
        _pypto.take_profile(handle)
        found = []
        for _ in range(launches):
            handle(*resident)
            taken = _pypto.take_profile(handle)
            assert taken is not None, "the device was opened for profiles"
            found.append(taken["steps"])
        return found


def _steps(found: list[list[dict[str, Any]]], memory: float) -> tuple[Step, ...]:
    """The median of each step's times, and its operations; steps that never ran are left out."""
    times = [statistics.median(launch[index]["ns"] for launch in found) / 1e3 for index in range(len(found[0]))]
    total = sum(times)
    steps = []
    for us, raw in zip(times, found[-1], strict=True):
        if not raw["runs"]:
            continue
        operations = attributed(raw["kind"], us, [_operation(one) for one in raw["operations"]], memory)
        order = sorted(operations, key=_in_order) if raw["kind"] == "chain" else operations
        share = us / total if total else 0.0
        steps.append(Step(raw["kernel"], raw["kind"], raw["file"], raw["line"], raw["runs"], us, share, tuple(order)))
    return tuple(steps)


def _in_order(one: Operation) -> tuple[str, int, int]:
    """By place; on one line loads come first and stores last."""
    return (one.file, one.line, {"load": 0, "store": 2}.get(one.name, 1))


def _operation(raw: dict[str, Any]) -> Operation:
    return Operation(
        name=raw["name"],
        file=raw["file"],
        line=raw["line"],
        dtype=raw["dtype"],
        us=None,
        measured=False,
        flops=raw["operations"],
        device_bytes=raw["device_bytes"],
        tile_bytes=raw["tile_bytes"],
        alone_us=raw["alone_ns"] / 1e3,
    )
