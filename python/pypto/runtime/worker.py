"""`ChipWorker`: one device of a chip, opened."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pypto import _pypto, environment, failures
from pypto._pypto import RegistrationHandle
from pypto.runtime import active, open_workers, programs, sanitizers, settings
from pypto.runtime.active import Binding
from pypto.runtime.chip_memory import ChipMemory, default_device_memory
from pypto.runtime.run_config import RunConfig
from pypto.runtime.task_interface import CallConfig

if TYPE_CHECKING:
    from typing_extensions import Self

    from pypto.ir import CompiledProgram

__all__ = ["RUNTIMES", "ChipWorker", "RegistrationHandle"]

_SimplerWorker: Any = None
"""A class of devices that is opened instead of those of this package. PyPTO's tests put theirs here: see
`pypto.runtime.foreign_worker`."""
_SimplerCallConfig: Any = CallConfig
"""What such a device gets as `prewarm_config`."""

RUNTIMES = ("tensormap_and_ringbuffer", "host_build_graph")
"""Kinds of runtime that a program can be built for. The simulated chip runs both in the same way."""


def _sanitizers(config: RunConfig) -> tuple[str, ...]:
    if config.sanitize is None:
        return sanitizers.parse("PYPTO_SANITIZE", os.environ.get("PYPTO_SANITIZE", ""), failures.BAD_SWITCH)
    return sanitizers.parse("sanitize", config.sanitize)


def _schedule_seed(config: RunConfig) -> int | None:
    if config.schedule_seed is None:
        return environment.number("PYPTO_SCHEDULE_SEED", settings.LARGEST_SEED)
    return config.schedule_seed


class _Launcher(NamedTuple):
    """A program that was run on a worker. It keeps neither of the two alive."""

    compiled: weakref.ref[Any]
    handle: RegistrationHandle
    fits: bool
    """Whether the program was compiled for this platform and runtime."""

    def launch(self, compiled: CompiledProgram, args: tuple[Any, ...], config: RunConfig) -> Any:
        """Launches with settings; diagnostics of the launch are what needs more than the handle."""
        if isinstance(config, RunConfig) and config.any_dfx_enabled():
            from pypto.runtime import dfx

            if dfx.wanted(config):
                return dfx.launch(compiled, config, args, lambda: self.handle(*args, config=config))
        return self.handle(*args, config=config)


class ChipWorker(ChipMemory):
    """One device of a chip: its memory, its programs, its launches.

    Data that several launches use is allocated once with `alloc_tensor` and passed wherever a program takes a tensor.
    Inside `with ChipWorker(...) as w:` compiled programs run on `w` when they are called. A worker may be shared by
    threads: launches run one after the other.

    Args:
        config: Platform, device and memory; `RunConfig()` if not given. Nothing else in it is read here.
        level: Always 2, one chip. Larger machines are for `DistributedWorker`.
        runtime: The kind of runtime that programs must be built for.
        enable_sdma: Whether programs may use the DMA engine between chips.
        auto_init: Whether to open the device now (the default) or in `init()`.

    Raises:
        TypeError: `config` is no `RunConfig`, or its `device_id` is no int.
        ValueError: The level, the runtime or the platform does not exist, `device_id` is negative, or an environment
            variable (`PYPTO_POISON`, `PYPTO_CORES`, `PYPTO_SCHEDULE_SEED`, ...) says what cannot be.
        RuntimeError: The device cannot be opened here; the text says what is missing.
        OutOfMemoryError: The machine refuses the address space.
    """

    def __new__(cls, *_args: Any, **_settings: Any) -> Self:
        """Makes a worker for a foreign device where there is one."""
        if _SimplerWorker is not None:
            from pypto.runtime import foreign_worker

            cls = cast("type[Self]", foreign_worker.class_for(cls))
        return super().__new__(cls)

    def __init__(
        self,
        config: RunConfig | None = None,
        *,
        level: int = 2,
        runtime: str = RUNTIMES[0],
        enable_sdma: bool = False,
        auto_init: bool | None = None,
    ) -> None:
        super().__init__()
        if level != 2:
            raise failures.BAD_LEVEL(
                f"ChipWorker only supports level=2, got {level!r}; several chips need a DistributedWorker"
            )
        if config is None:
            config = RunConfig()
        elif not isinstance(config, RunConfig):
            raise failures.BAD_CONFIG(f"config must be a RunConfig, got {type(config).__name__}")
        if runtime not in RUNTIMES:
            raise failures.SETTING_VALUE(f"runtime must be one of {', '.join(RUNTIMES)}, got {runtime!r}")
        settings.check_device_id(config.device_id)
        self._config = config
        self._binding = Binding(level, config.platform, config.device_id, runtime)
        self._enable_sdma = enable_sdma
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._launchers: dict[int, _Launcher] = {}
        self._lock = threading.RLock()
        self._entered = False
        if auto_init is None or auto_init:
            self.init()

    # Life cycle

    # So that `inspect.signature` and `help` show what a worker takes: they ask __new__ first, which lets all pass
    # as a subclass may take something else.
    __new__.__wrapped__ = __init__  # type: ignore[attr-defined]

    def init(self) -> None:
        """Opens the device; does nothing if it is open. After `close` this opens a new device.

        Raises:
            TypeError: A field of the `RunConfig` was assigned something of the wrong type.
            ValueError: The same with a wrong value, or an environment variable says what cannot be.
            RuntimeError: The device cannot be opened here; the text says what is missing.
            OutOfMemoryError: The machine refuses the address space.
        """
        with self._lock:
            if self._impl is not None:
                return
            config, binding = self._config, self._binding
            config.check_for_worker()
            impl = _pypto.Worker(
                binding.platform,
                binding.device_id,
                capacity=default_device_memory() if config.device_memory is None else config.device_memory,
                poison=environment.flag("PYPTO_POISON", False) if config.poison is None else config.poison,
                packed_weights=0.5 if config.packed_weights is True else float(config.packed_weights),
                cores=config.cores,
                schedule_seed=_schedule_seed(config),
                queue_depth=64 if config.queue_depth is None else config.queue_depth,
                sanitize=_sanitizers(config),
                residency=config.residency,
            )
            self._finalizer = weakref.finalize(self, open_workers.close_abandoned, impl, str(binding), os.getpid())
            self._finalizer.atexit = False  # `open_workers` does it, and stops running launches
            self._impl = impl
            open_workers.add(self)

    def close(self) -> None:
        """Waits for running and queued launches, frees what is still allocated, closes; does nothing if it is closed.

        Tensors and handles of this worker are dead afterwards. What had to be freed is named in one warning on the
        logger `pypto.runtime.runtime_base`.

        Raises:
            RuntimeError: Poison mode found memory that was overwritten. The device is closed nevertheless.
        """
        self._close(stop=False)

    def _close(self, *, stop: bool) -> None:
        impl = self._impl
        if impl is None:
            return
        if not impl.is_mine:
            # A fork of the process that opened the device: nothing here is ours to close.
            self._forget(impl)
            return
        with self._lock:
            if self._impl is not impl:
                return
            try:
                leaked, damage = impl.close(stop=stop)
            finally:
                if not impl.is_open:
                    self._forget(impl)
        # At interpreter exit (`stop`) nothing is said: everything ends then, and a list of it only alarms.
        if leaked and not stop:
            open_workers.warn_leaked(str(self._binding), leaked)
        if damage is not None:
            raise damage

    def _forget(self, impl: _pypto.Worker) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        self._launchers.clear()
        self._impl = None
        active.forget(self)
        open_workers.discard(self)

    def __enter__(self) -> Self:
        """Opens the device if it is closed, and makes this the worker that compiled programs find.

        Raises:
            ValueError: A worker with the same binding is already active in this context.
        """
        if any(worker.binding == self._binding for worker in active.own_stack()):
            raise failures.WORKER_ACTIVE(
                f"a ChipWorker for {self._binding} is already active in an enclosing scope. "
                f"Reuse the outer ChipWorker: ChipWorker.current(...) returns it"
            )
        self.init()
        active.push(self)
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the device.

        Raises:
            ValueError: The worker was entered in another thread or context. Nothing is closed then.
        """
        if self._entered:
            active.pop(self)
            self._entered = False
        self.close()

    @classmethod
    def current(
        cls, *, level: int, platform: str, device_id: int, runtime: str, require_sdma: bool = False
    ) -> ChipWorker | None:
        """The innermost active worker with this binding, or None.

        Args:
            level: Always 2, one chip.
            platform: Name of the platform.
            device_id: Number of the device.
            runtime: Kind of runtime.
            require_sdma: Whether it must have the DMA engine.

        Raises:
            RuntimeError: It was made without `enable_sdma=True` and `require_sdma` asks for it.
        """
        worker = active.find(Binding(level, platform, device_id, runtime))
        if worker is not None and require_sdma and not worker._enable_sdma:
            raise failures.NO_SDMA(
                "the active ChipWorker was created without enable_sdma=True; "
                "make it with ChipWorker(..., enable_sdma=True)"
            )
        return worker

    # Programs

    def run(self, compiled: CompiledProgram, *args: Any, config: RunConfig | None = None) -> Any:
        """Launches a program once. It is registered the first time.

        Args:
            compiled: What `ir.compile` or `kernel.compile` returned.
            *args: One for each parameter (in-place), or one for each that is no pure output (then outputs are made).
                Torch tensors, numpy arrays, other DLPack arrays, device tensors; numbers for scalars.
            config: Settings of this launch; its platform and device are ignored.

        Returns:
            None in-place; else the output, or a tuple of outputs.

        Raises:
            TypeError: An argument has the wrong type, rank, extent or dtype, or their number is wrong.
            ValueError: An argument cannot be used (not contiguous, not on the CPU, freed, another worker's), or the
                program was compiled for another platform or runtime.
            OverflowError: A number does not fit its parameter.
            RuntimeError: The worker is closed, or the launch failed.
        """
        known = self._launchers.get(id(compiled))
        if known is None or not known.fits or known.compiled() is not compiled:
            self._ready("run", 0)
            known = self._launcher(self._check_binding(compiled))
        return known.handle(*args) if config is None else known.launch(compiled, args, config)

    def register(self, compiled: CompiledProgram) -> RegistrationHandle:
        """Makes a program ready and returns a handle; calling the handle is a launch.

        Equal programs share one registration, whatever object they come in.

        Raises:
            TypeError: `compiled` is no compiled program.
            ValueError: It was compiled for another platform or runtime.
            RuntimeError: The worker is closed.
        """
        impl = self._ready("register", 0)
        compiled = self._check_binding(compiled)
        return programs.register(impl, compiled, self, compiled)

    def synchronize(self) -> None:
        """Waits until every launch before this call is over, queued ones and those of other threads included.

        Futures of queued launches are done then. What a launch raised stays with its future. Called by a callback of a
        future, it waits for launches only: other futures are told after the callback.

        Raises:
            RuntimeError: The worker is closed.
        """
        self._ready("synchronize", 0).synchronize()

    def _launcher(self, compiled: CompiledProgram) -> _Launcher:
        """The worker's own handle of a program, made the first time."""
        key, launchers = id(compiled), self._launchers
        known = launchers.get(key)
        if known is None or known.compiled() is not compiled:
            impl = self._ready("run", 0)
            known = _Launcher(
                weakref.ref(compiled, lambda _: launchers.pop(key, None)),
                programs.register(impl, compiled, None, None),
                compiled.platform == self.platform
                and programs.runtime_name(compiled) == self.runtime
                and (self._enable_sdma or not programs.needs_sdma(compiled)),
            )
            launchers[key] = known
        return known

    def _check_binding(self, program: Any) -> CompiledProgram:
        return self._check_compiled_binding(programs.check_compiled(program))

    def _check_compiled_binding(self, compiled: CompiledProgram) -> CompiledProgram:
        if compiled.platform != self.platform:
            raise failures.PLATFORM_MISMATCH(
                f"the program was compiled for platform {compiled.platform!r}, this worker has platform "
                f"{self.platform!r}. Use ChipWorker(config=RunConfig(platform={compiled.platform!r})), or compile for "
                f"{self.platform!r}"
            )
        runtime = programs.runtime_name(compiled)
        if runtime != self.runtime:
            raise failures.RUNTIME_MISMATCH(
                f"the program was compiled for runtime {runtime!r}, this worker has runtime {self.runtime!r}. "
                f"Use ChipWorker(..., runtime={runtime!r})"
            )
        if not self._enable_sdma and programs.needs_sdma(compiled):
            raise failures.NO_SDMA(
                "the program needs the DMA engine between chips, and this ChipWorker was created without "
                "enable_sdma=True; make it with ChipWorker(..., enable_sdma=True)"
            )
        return compiled

    # Properties

    @property
    def binding(self) -> Binding:
        """Level, platform, device and runtime together."""
        return self._binding

    @property
    def level(self) -> int:
        """Level of the machine: 2, one chip."""
        return self._binding.level

    @property
    def platform(self) -> str:
        """Name of the platform."""
        return self._binding.platform

    @property
    def device_id(self) -> int:
        """Number of the device."""
        return self._binding.device_id

    @property
    def runtime(self) -> str:
        """Kind of runtime."""
        return self._binding.runtime

    @property
    def initialized(self) -> bool:
        """Whether the device is open."""
        return self._impl is not None

    @property
    def aicpu_dlopen_count(self) -> int:
        """Distinct programs loaded on the device's scheduler since it was opened; 0 for `host_build_graph`."""
        return self._loaded() if self.runtime == RUNTIMES[0] else 0

    @property
    def host_dlopen_count(self) -> int:
        """Distinct programs loaded on the host since the device was opened; 0 but for `host_build_graph`."""
        return self._loaded() if self.runtime == RUNTIMES[1] else 0

    def _loaded(self) -> int:
        return 0 if self._impl is None else self._impl.counters()["registrations"]

    # What the methods above share

    def _check_arguments(self, compiled: CompiledProgram, args: Sequence[Any]) -> list[int]:
        """Checks one argument for each parameter as a launch would; the scalars as the device takes them."""
        impl = self._ready("run", 0)
        return _pypto.check_arguments(programs.register(impl, compiled, None, None), tuple(args))

    def __repr__(self) -> str:
        """Binding, and the number by which messages call the opened device."""
        impl = self._impl
        return f"<ChipWorker {self._binding}, {'closed' if impl is None else f'open as worker #{impl.id}'}>"
