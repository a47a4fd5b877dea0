"""`RunConfig`: how to compile, open a device and launch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures
from pypto.runtime import sanitizers, settings

if TYPE_CHECKING:
    from pypto.ir import BackendType, DiagnosticPhase, MemoryPlanner, OptimizationStrategy

PLATFORMS = ("a2a3sim", "a2a3", "a5sim", "a5")
"""Every valid platform. `a2a3` and `a5` are real chips, the others are simulated ones."""

RESIDENCY = ("off", "advise", "auto")
"""What a worker can do about host arguments that do not change."""

_DEP_POOL_MAX = 2**31 - 1
_PMU_MAX = 2**31 - 1
_PMU_DEFAULT = 2
"""The event that `True` stands for: utilization of the pipes."""
_COMPILE_SWITCHES = (
    "dump_passes", "save_kernels", "codegen_only", "compile_profiling", "analyze_auto_scopes_for_deps",
    "dump_ptoas_passes",
)  # fmt: skip
_QUEUE_DEPTH_MAX = 2**20
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
        raise failures.UNKNOWN_PLATFORM(f"Invalid platform {platform!r}; expected one of {', '.join(PLATFORMS)}")


def _default_strategy() -> OptimizationStrategy:
    from pypto.ir import OptimizationStrategy

    return OptimizationStrategy.Default


@dataclass
class RunConfig:
    """How to compile, open a device and launch. All fields have defaults.

    `ChipWorker(config=...)` reads `platform`, `device_id`, `device_memory`, `poison`, `cores`, `packed_weights`,
    `schedule_seed`, `sanitize`, `queue_depth` and `residency`; `docs/run_config.md` says who reads which of the others.
    Fields are checked when the object is made, not when one is assigned later.

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
        enable_dump_args: Write the arguments of a launch: 1 tagged tensors, 2 all.
        enable_pmu: Event of the performance counters, 0 for none.
        enable_dep_gen: Write the dependencies of tasks.
        enable_scope_stats: Write statistics of scopes.
        compile_profiling: Write how long each step of compiling took.
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
        strict_memory: Refuse kernels that keep more on chip than the real chip has room for, instead of warning.
        dump_ptoas_passes: Write the assembler's passes.
        device_memory: Bytes of device memory of a worker; None for half of the machine's memory.
        poison: Fill new device memory with NaN patterns and guard its ends; None follows `PYPTO_POISON`.
        cores: Simulated cores of a worker; None for one for each processor that the process may use.
        packed_weights: Keep a packed form beside resident matrices that products use again and again: the share of the
            device memory that these may take, True for a half, False for none.
        queue_depth: How many submitted launches of a worker may be under way; `submit` waits where there are more. None
            for 64.
        schedule_seed: Run independent tasks of a launch in a random order that follows from it, for tests of programs;
            None follows `PYPTO_SCHEDULE_SEED`.
        sanitize: Sanitizers that check each launch: `"race"`, `"uninit"`, `"bounds"`, several as an iterable or
            separated by commas, `()` for none; None follows `PYPTO_SANITIZE`.
        residency: What to do about host arguments that do not change: `off` nothing, `advise` counts them for
            `ChipWorker.advice`, `auto` counts them and keeps a copy of them on the device.

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
    packed_weights: bool | float = True
    schedule_seed: int | None = None
    sanitize: str | Iterable[str] | None = None
    strict_memory: bool = False
    queue_depth: int | None = None
    residency: str = "off"

    def __post_init__(self) -> None:
        """Checks the fields and derives those that follow from others."""
        self.backend_type = backend_of(self.platform)
        self._check_compiling()
        self._check_diagnostics()
        self.ring_task_window = settings.ring("ring_task_window", self.ring_task_window, settings.power_of_two(4))
        self.ring_heap = settings.ring("ring_heap", self.ring_heap, settings.power_of_two(1024))
        self.ring_dep_pool = settings.ring("ring_dep_pool", self.ring_dep_pool, settings.between(4, _DEP_POOL_MAX))
        settings.check_aicpu_threads(self.aicpu_thread_num)
        settings.check_instance("strict_memory", self.strict_memory, bool, "True, False")
        self.check_for_worker()

    def check_for_worker(self) -> None:
        """Checks the fields that a worker is opened with. Fields can be assigned, so opening one checks them again.

        Raises:
            TypeError: A field has the wrong type.
            ValueError: A field has a wrong value.
        """
        settings.check_range("device_memory", self.device_memory, _DEVICE_MEMORY_MAX, "bytes")
        settings.check_range("cores", self.cores, _pypto.MAX_CORES, "cores")
        if self.residency not in RESIDENCY:
            raise failures.SETTING_VALUE(f"residency must be one of {', '.join(RESIDENCY)}, got {self.residency!r}")
        settings.check_range("queue_depth", self.queue_depth, _QUEUE_DEPTH_MAX, "launches")
        settings.check_share("packed_weights", self.packed_weights)
        settings.check_seed("schedule_seed", self.schedule_seed)
        self.sanitize = None if self.sanitize is None else sanitizers.parse("sanitize", self.sanitize)
        settings.check_instance("poison", self.poison, bool, "True, False")

    def _check_compiling(self) -> None:
        from pypto import ir

        for name in _COMPILE_SWITCHES:
            setattr(self, name, settings.switch(name, getattr(self, name)))
        for name in ("save_kernels_dir", "golden_data_dir"):
            settings.check_path(name, getattr(self, name))
        if not isinstance(self.strategy, ir.OptimizationStrategy):
            raise failures.SETTING_TYPE(f"strategy must be an OptimizationStrategy, got {self.strategy!r}")
        settings.check_instance("diagnostic_phase", self.diagnostic_phase, ir.DiagnosticPhase, "a DiagnosticPhase")
        settings.check_instance("memory_planner", self.memory_planner, ir.MemoryPlanner, "a MemoryPlanner")

    def _check_diagnostics(self) -> None:
        self.enable_chip_swimlane = settings.level("enable_chip_swimlane", self.enable_chip_swimlane, 4, 4)
        self.enable_dump_args = settings.level("enable_dump_args", self.enable_dump_args, 2, 1)
        self.enable_pmu = settings.level("enable_pmu", self.enable_pmu, _PMU_MAX, _PMU_DEFAULT)
        for name in ("enable_dep_gen", "enable_scope_stats"):
            setattr(self, name, settings.switch(name, getattr(self, name)))
        if self.any_dfx_enabled():
            self.save_kernels = True

    @property
    def enable_l2_swimlane(self) -> int:
        """Deprecated name of `enable_chip_swimlane`."""
        return self.enable_chip_swimlane

    @enable_l2_swimlane.setter
    def enable_l2_swimlane(self, value: int) -> None:
        _warn_swimlane()
        self.enable_chip_swimlane = settings.level("enable_chip_swimlane", value, 4, 4)

    def any_dfx_enabled(self) -> bool:
        """Whether any switch for device diagnostics is on."""
        return bool(
            self.enable_chip_swimlane
            or self.enable_dump_args
            or self.enable_pmu
            or self.enable_dep_gen
            or self.enable_scope_stats
        )


def _warn_swimlane() -> None:
    warnings.warn("enable_l2_swimlane is deprecated; use enable_chip_swimlane", DeprecationWarning, stacklevel=3)


def _accept_deprecated_swimlane(init: Callable[..., None]) -> Callable[..., None]:
    """Lets a constructor take the old spelling. It is no field, so `dataclasses.replace` never sees it."""

    @functools.wraps(init)
    def wrapped(self: RunConfig, *args: Any, **kwargs: Any) -> None:
        if "enable_l2_swimlane" in kwargs:
            if "enable_chip_swimlane" in kwargs:
                raise failures.SETTINGS_CONFLICT("enable_l2_swimlane is an old name: pass only enable_chip_swimlane")
            _warn_swimlane()
            kwargs["enable_chip_swimlane"] = kwargs.pop("enable_l2_swimlane")
        init(self, *args, **kwargs)

    return wrapped


RunConfig.__init__ = _accept_deprecated_swimlane(RunConfig.__init__)  # type: ignore[method-assign]
