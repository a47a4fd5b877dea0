"""`RunConfig`: how to compile, open a device and launch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from pypto import _pypto

if TYPE_CHECKING:
    from pypto.ir import BackendType, DiagnosticPhase, MemoryPlanner, OptimizationStrategy

PLATFORMS = ("a2a3sim", "a2a3", "a5sim", "a5")
"""Every valid platform. `a2a3` and `a5` are real chips, the others are simulated ones."""

_RINGS = 4
_DEP_POOL_MAX = 2**31 - 1
_DEVICE_ID_MAX = 2**31 - 1
_DEVICE_MEMORY_MAX = 2**63 - 1
"""Addresses of device memory have 63 bits. What a machine gives is less; it says so when a worker is opened."""


def backend_of(platform: str) -> BackendType:
    """The backend that compiles for `platform`.

    Raises:
        ValueError: The platform does not exist.
    """
    check_platform(platform)
    from pypto.ir import BackendType

    return BackendType.Ascend910B if platform.startswith("a2a3") else BackendType.Ascend950


def check_platform(platform: object) -> None:
    """Refuses a platform that does not exist.

    Raises:
        ValueError: It is none of `PLATFORMS`.
    """
    if platform not in PLATFORMS:
        raise ValueError(f"Invalid platform {platform!r}; expected one of {', '.join(PLATFORMS)}")


def _default_strategy() -> OptimizationStrategy:
    from pypto.ir import OptimizationStrategy

    return OptimizationStrategy.Default


@dataclass
class RunConfig:
    """How to compile, open a device and launch. All fields have defaults.

    `ChipWorker(config=...)` reads `platform`, `device_id`, `device_memory`, `poison` and `cores`; compiling reads the
    fields from `strategy` on. Fields are checked when the object is made, not when one is assigned later.

    Attributes:
        platform: One of `PLATFORMS`.
        device_id: Which device of the platform.
        rtol: Relative tolerance of a comparison with golden outputs.
        atol: Absolute tolerance of a comparison with golden outputs.
        strategy: Passes to run.
        backend_type: Always follows from `platform`; what is passed is ignored.
        dump_passes: Write the program after each pass.
        save_kernels: Keep the build directory.
        save_kernels_dir: Where to keep it.
        codegen_only: Compile, do not run.
        enable_chip_swimlane: Level of the timeline, 0 to 4; True is 4.
        enable_dump_args: Level of argument dumps: 1 tagged tensors, 2 all.
        enable_pmu: Event of the performance counters, 0 for none.
        enable_dep_gen: Write the dependencies of tasks.
        enable_scope_stats: Write statistics of scopes.
        compile_profiling: Write how long each pass took.
        diagnostic_phase: When to report diagnostics.
        disabled_diagnostics: Which diagnostics to leave out.
        golden_data_dir: Directory of inputs and expected outputs.
        aicpu_thread_num: Scheduler threads of the device.
        ring_task_window: Tasks in flight: a power of two, at least 4; or four of them, 0 for the default.
        ring_heap: Bytes of a heap ring: a power of two, at least 1024; or four.
        ring_dep_pool: Dependencies in flight, 4 to 2**31 - 1; or four.
        distributed_config: How to run on several devices.
        analyze_auto_scopes_for_deps: Look for dependencies in automatic scopes.
        memory_planner: Which planner places tiles.
        dump_ptoas_passes: Write the assembler's passes.
        device_memory: Bytes of device memory of a worker; None for half of the machine's memory.
        poison: Fill new device memory with NaN patterns and guard its ends; None follows `PYPTO_POISON`.
        cores: Simulated cores of a worker; None for one for each processor that the process may use.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A field has a wrong value.
    """

    platform: str = "a2a3sim"
    device_id: int = 0
    rtol: float = 1e-5
    atol: float = 1e-5
    strategy: OptimizationStrategy = field(default_factory=_default_strategy)
    backend_type: BackendType | None = None
    dump_passes: bool = False
    save_kernels: bool = False
    save_kernels_dir: str | None = None
    codegen_only: bool = False
    enable_chip_swimlane: int = 0
    enable_dump_args: int = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False
    compile_profiling: bool = False
    diagnostic_phase: DiagnosticPhase | None = None
    disabled_diagnostics: Any = None
    golden_data_dir: str | None = None
    aicpu_thread_num: int | None = None
    ring_task_window: int | list[int] | None = None
    ring_heap: int | list[int] | None = None
    ring_dep_pool: int | list[int] | None = None
    distributed_config: Any = None
    analyze_auto_scopes_for_deps: bool = False
    memory_planner: MemoryPlanner | None = None
    dump_ptoas_passes: bool = False
    device_memory: int | None = None
    poison: bool | None = None
    cores: int | None = None

    def __post_init__(self) -> None:
        """Checks the fields and derives those that follow from others."""
        self.backend_type = backend_of(self.platform)
        self.enable_chip_swimlane = _swimlane_level(self.enable_chip_swimlane)
        if self.any_dfx_enabled():
            self.save_kernels = True
        self.ring_task_window = _ring("ring_task_window", self.ring_task_window, _power_of_two(4))
        self.ring_heap = _ring("ring_heap", self.ring_heap, _power_of_two(1024))
        self.ring_dep_pool = _ring("ring_dep_pool", self.ring_dep_pool, _dep_pool)
        _check_range("device_memory", self.device_memory, _DEVICE_MEMORY_MAX, "bytes")
        _check_range("cores", self.cores, _pypto.MAX_CORES, "cores")
        _check_switch("poison", self.poison)

    @property
    def enable_l2_swimlane(self) -> int:
        """Deprecated name of `enable_chip_swimlane`."""
        return self.enable_chip_swimlane

    @enable_l2_swimlane.setter
    def enable_l2_swimlane(self, value: int) -> None:
        _warn_swimlane()
        self.enable_chip_swimlane = _swimlane_level(value)

    def any_dfx_enabled(self) -> bool:
        """Whether any switch for device diagnostics is on."""
        return bool(
            self.enable_chip_swimlane
            or self.enable_dump_args
            or self.enable_pmu
            or self.enable_dep_gen
            or self.enable_scope_stats
        )


def _swimlane_level(value: object) -> int:
    if isinstance(value, bool):
        return 4 if value else 0
    if not isinstance(value, int):
        raise TypeError(f"enable_chip_swimlane must be an int from 0 to 4, got {value!r}")
    if not 0 <= value <= 4:
        raise ValueError(f"enable_chip_swimlane must be from 0 to 4, got {value}")
    return value


def _power_of_two(least: int) -> tuple[Callable[[int], bool], str]:
    return lambda value: value >= least and value & (value - 1) == 0, f"a power of two, at least {least}"


_dep_pool = (lambda value: 4 <= value <= _DEP_POOL_MAX, f"from 4 to {_DEP_POOL_MAX}")


def _ring(name: str, value: Any, rule: tuple[Callable[[int], bool], str]) -> int | list[int] | None:
    """Checks a ring setting: one number for all rings, or one for each, 0 for the default of that ring."""
    holds, text = rule
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        if len(value) != _RINGS:
            raise ValueError(f"{name} must have exactly {_RINGS} entries, got {len(value)}")
        if not all(_is_int(entry) and (entry == 0 or holds(entry)) for entry in value):
            raise ValueError(f"each entry of {name} must be 0 or {text}, got {value!r}")
        return list(value)
    if not _is_int(value) or not holds(value):
        raise ValueError(f"{name} must be {text}, got {value!r}")
    return value


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def check_int(name: str, value: object) -> None:
    """Refuses what is no int; a bool is none.

    Raises:
        TypeError: With the name of the setting.
    """
    if not _is_int(value):
        raise TypeError(f"{name} must be an int, got {value!r}")


def check_device_id(device_id: int) -> None:
    """Refuses a number that no device can have.

    Raises:
        TypeError: It is no int.
        ValueError: It is negative, or more than 32 bits hold.
    """
    check_int("device_id", device_id)
    if not 0 <= device_id <= _DEVICE_ID_MAX:
        raise ValueError(f"device_id must be from 0 to {_DEVICE_ID_MAX}, got {device_id}")


def _check_range(name: str, value: object, most: int, unit: str) -> None:
    if value is not None and not (_is_int(value) and 0 < value <= most):
        raise ValueError(f"{name} must be a positive number of {unit}, at most {most}, got {value!r}")


def _check_switch(name: str, value: object) -> None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} must be True, False or None, got {value!r}")


def _warn_swimlane() -> None:
    warnings.warn("enable_l2_swimlane is deprecated; use enable_chip_swimlane", DeprecationWarning, stacklevel=3)


def _accept_deprecated_swimlane(init: Callable[..., None]) -> Callable[..., None]:
    """Lets a constructor take the old spelling. It is no field, so `dataclasses.replace` never sees it."""

    @functools.wraps(init)
    def wrapped(self: RunConfig, *args: Any, **kwargs: Any) -> None:
        if "enable_l2_swimlane" in kwargs:
            if "enable_chip_swimlane" in kwargs:
                raise ValueError("enable_l2_swimlane is an old name: pass only enable_chip_swimlane")
            _warn_swimlane()
            kwargs["enable_chip_swimlane"] = kwargs.pop("enable_l2_swimlane")
        init(self, *args, **kwargs)

    return wrapped


RunConfig.__init__ = _accept_deprecated_swimlane(RunConfig.__init__)  # type: ignore[method-assign]
