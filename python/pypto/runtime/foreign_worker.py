"""A `ChipWorker` whose device is somebody else's: what programs put at `pypto.runtime.worker._SimplerWorker`.

PyPTO's `ChipWorker` drives an object of the vendor's runtime, and its tests replace the class of that object:

```python
monkeypatch.setattr("pypto.runtime.worker._SimplerWorker", FailingDevice)
with ChipWorker() as w: ...
```

The class is called with `level`, `device_id`, `platform`, `runtime` and `enable_sdma`. Its objects have
`init(prewarm_config=)` and `close()`; `malloc(nbytes)`, which returns an object with an int `base` and a method
`tensor`, and `free(buffer)`; `copy_to(buffer, array)` and `copy_from(array, buffer)` with a ctypes array over the host
memory; `register(program)`, whose result `run(registration, arguments, settings)` and `unregister(registration)` take.

Everything here is Python and takes microseconds: devices of this package do not come this way.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures
from pypto.runtime import active, open_workers, programs, worker
from pypto.runtime.foreign_handle import ForeignHandle, ForeignLauncher
from pypto.runtime.runtime_base import Worker
from pypto.runtime.worker import RUNTIMES, ChipWorker

if TYPE_CHECKING:
    import torch

    from pypto._pypto import DeviceTensor, RegistrationHandle
    from pypto.ir import CompiledProgram
    from pypto.runtime.run_config import RunConfig

_OPERATIONS = ("malloc", "free", "copy_to", "copy_from", "alloc_tensor", "run", "register", "synchronize", "buffer")
"""What a foreign device can do; the last one is for this package alone. Reports, budgets and views of memory need the
arena of this package."""


def class_for(cls: type[ChipWorker]) -> type[ChipWorker]:
    """The class to make instead of `cls` while there is a foreign device."""
    if issubclass(cls, ForeignWorker):
        return cls
    return ForeignWorker if cls is ChipWorker else type(cls.__name__, (cls, ForeignWorker), {"__doc__": cls.__doc__})


class ForeignWorker(ChipWorker):
    """See the module. Users see a `ChipWorker`."""

    _owned_tensors: dict[tuple[int, int], DeviceTensor] = {}  # noqa: RUF012  # each object has its own
    """Kept by the base class, as the device knows of no tensors."""

    _records_spans = False

    def __init__(
        self,
        config: RunConfig | None = None,
        *,
        level: int = 2,
        runtime: str = RUNTIMES[0],
        enable_sdma: bool = False,
        auto_init: bool | None = None,
    ) -> None:
        super().__init__(config, level=level, runtime=runtime, enable_sdma=enable_sdma, auto_init=False)
        self._impl: Any = None
        self._is_ready = False
        self._pid = os.getpid()
        self._buffers: dict[int, Any] = {}
        self._registered: dict[Any, tuple[Any, Any]] = {}
        self._handles: weakref.WeakSet[ForeignHandle] = weakref.WeakSet()
        if auto_init is None or auto_init:
            try:
                self.init()
            except Exception:
                with contextlib.suppress(Exception):
                    self.close()
                raise

    # Life cycle

    def init(self) -> None:
        """Opens the device. Where that fails it is closed at once; where that fails too, `close` tries it again."""
        with self._lock:
            if self._is_ready:
                return
            if self._impl is not None:
                raise failures.CLEANUP_PENDING(
                    f"the device of {self!r} could neither be opened nor closed: finish the cleanup with close() first"
                )
            binding = self._binding
            make: Any = worker._SimplerWorker
            impl = make(
                level=binding.level,
                device_id=binding.device_id,
                platform=binding.platform,
                runtime=binding.runtime,
                enable_sdma=self._enable_sdma,
            )
            self._impl, self._pid = impl, os.getpid()
            self._finalizer = weakref.finalize(self, _close_abandoned, impl, self._pid)
            self._finalizer.atexit = False
            try:
                impl.init(prewarm_config=worker._SimplerCallConfig())
            except BaseException:
                with contextlib.suppress(Exception):
                    impl.close()
                    self._end()
                raise
            self._is_ready = True
            open_workers.add(self)

    def _close(self, *, stop: bool) -> None:
        with self._lock:
            impl = self._impl
            if impl is None:
                return
            if self._pid != os.getpid():
                self._end()
                return
            if self._is_ready:
                self._close_owned_tensors()
                for _, registration in self._registered.values():
                    with contextlib.suppress(Exception):
                        impl.unregister(registration)
                for handle in self._handles:
                    handle.unregister()
                self._is_ready = False
            impl.close()
            self._end()

    def _end(self) -> None:
        """Forgets the device. Not before it is closed: a close that failed is tried again."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._owned_tensors.clear()
        self._buffers.clear()
        self._registered.clear()
        self._is_ready = False
        self._impl = None
        active.forget(self)
        open_workers.discard(self)

    @property
    def initialized(self) -> bool:
        """Whether the device is open."""
        return self._is_ready

    def _ready(self, operation: str, worker_id: int) -> Any:
        self._check_worker_id(operation, worker_id)
        if not self._is_ready:
            raise failures.WORKER_CLOSED(
                f"ChipWorker.{operation}() requires an initialized ChipWorker. Use `with chipworker:` or call "
                f"chipworker.init() first."
            )
        if operation not in _OPERATIONS:
            raise failures.NOT_SUPPORTED(
                f"ChipWorker.{operation}() needs a device of this package, and this one is somebody else's "
                f"(pypto.runtime.worker._SimplerWorker): it has {', '.join(_OPERATIONS[:-1])}"
            )
        return self._impl

    # Memory

    def alloc_tensor(
        self, shape: Sequence[int], dtype: torch.dtype, *, init: torch.Tensor | None = None, worker_id: int = 0
    ) -> DeviceTensor:
        """See `Worker.alloc_tensor`."""
        self._check_worker_id("alloc_tensor", worker_id)
        return Worker.alloc_tensor(self, shape, dtype, init=init)

    def free_tensor(self, t: DeviceTensor, *, worker_id: int = 0) -> None:
        """See `Worker.free_tensor`."""
        self._check_worker_id("free_tensor", worker_id)
        Worker.free_tensor(self, t)

    def malloc(self, nbytes: int, *, worker_id: int = 0) -> int:
        """Allocates bytes and returns their device address."""
        impl = self._ready("malloc", worker_id)
        if not isinstance(nbytes, int) or nbytes <= 0:
            raise failures.BAD_SIZE(f"nbytes must be a positive int, got {nbytes!r}")
        buffer = impl.malloc(nbytes)
        base = getattr(buffer, "base", None)
        if isinstance(base, bool) or not isinstance(base, int):
            impl.free(buffer)
            raise failures.NOT_A_BUFFER(f"malloc() of the device must return a Buffer with an int base, got {buffer!r}")
        if base <= 0:
            impl.free(buffer)
            raise failures.BAD_ADDRESS(f"malloc() of the device returned a Buffer at {base}, which is no address")
        self._buffers[base] = buffer
        return base

    def free(self, ptr: int, *, worker_id: int = 0) -> None:
        """Frees what `malloc` returned. Where the device refuses, it is still allocated."""
        impl = self._ready("free", worker_id)
        impl.free(self._allocation("free", ptr))
        del self._buffers[ptr]

    def copy_to(self, dst_dev_ptr: Any, src_host_ptr: Any, nbytes: int | None = None, *, worker_id: int = 0) -> None:
        """Copies from a host address to what `malloc` returned."""
        impl = self._ready("copy_to", worker_id)
        buffer = self._allocation("copy_to", dst_dev_ptr)
        impl.copy_to(buffer, _host("copy_to", src_host_ptr, nbytes))

    def copy_from(self, dst_host_ptr: Any, src_dev_ptr: Any, nbytes: int | None = None, *, worker_id: int = 0) -> None:
        """Copies from what `malloc` returned to a host address."""
        impl = self._ready("copy_from", worker_id)
        buffer = self._allocation("copy_from", src_dev_ptr)
        impl.copy_from(_host("copy_from", dst_host_ptr, nbytes), buffer)

    def _allocation(self, operation: str, ptr: Any) -> Any:
        if isinstance(ptr, _pypto.DeviceTensor):
            raise failures.NOT_SUPPORTED(
                f"{operation}() of a tensor needs a device of this package, and this one is somebody else's: pass "
                f"addresses and a size, t.data_ptr, host.data_ptr(), t.nbytes"
            )
        buffer = self._buffers.get(ptr) if isinstance(ptr, int) else None
        if buffer is None:
            raise failures.UNKNOWN_ADDRESS(
                f"{operation}(): {ptr!r} is not an allocation base of this ChipWorker (an interior pointer, or freed)"
            )
        return buffer

    def _buffer_for_ptr(self, ptr: int, *, worker_id: int = 0) -> Any:
        return self._buffers.get(ptr)

    def _require_owned_resident_tensor(self, t: DeviceTensor, label: str, *, worker_id: int | None = None) -> None:
        Worker._require_owned_resident_tensor(self, t, label, worker_id=worker_id)

    # Programs

    def run(self, compiled: CompiledProgram, *args: Any, config: RunConfig | None = None) -> Any:
        """Launches a program once."""
        self._ready("run", 0)
        return self._launch(self._check_binding(compiled), args, config)

    def register(self, compiled: CompiledProgram) -> RegistrationHandle:
        """Registers a program with the device."""
        self._ready("register", 0)
        compiled = self._check_binding(compiled)
        handle = ForeignHandle(self, self._registration(compiled), compiled)
        self._handles.add(handle)
        return handle  # type: ignore[return-value]

    def synchronize(self) -> None:
        """Does nothing: launches of a foreign device are over when they return."""
        self._ready("synchronize", 0)

    def _check_binding(self, program: Any) -> CompiledProgram:
        looks_compiled = all(hasattr(program, name) for name in ("platform", "chip_callable", "build_orch_args"))
        return self._check_compiled_binding(program if looks_compiled else programs.check_compiled(program))

    def _registration(self, compiled: CompiledProgram) -> Any:
        """What the device made of a program: one for each content, whatever object it comes in."""
        program = compiled.chip_callable
        key = program.encode() if isinstance(program, _pypto.Program) else id(program)
        known = self._registered.get(key)
        if known is None:
            # The program is kept, so that the address of one that is gone does not stand for another.
            known = self._registered[key] = (program, self._impl.register(program))
        return known[1]

    def _launch(self, compiled: CompiledProgram, args: tuple[Any, ...], config: RunConfig | None) -> Any:
        directory = None
        if config is not None and config.any_dfx_enabled():
            directory = Path(compiled.output_dir) / "dfx_outputs"
            directory.mkdir(parents=True, exist_ok=True)
        native, all_args, returns = compiled.build_orch_args(*args, worker=self)
        settings = compiled.build_call_config(config, dfx_dir=directory)
        self._impl.run(self._registration(compiled), native, settings)
        if not returns:
            return None
        outputs = tuple(all_args[position] for position in compiled.output_indices)
        return outputs[0] if len(outputs) == 1 else outputs

    def _check_arguments(self, compiled: CompiledProgram, args: Sequence[Any]) -> list[int]:
        import torch

        # A device of this package is asked, with host tensors where this worker's tensors stand.
        is_tensor = [isinstance(arg, _pypto.DeviceTensor) for arg in args]
        shown = [
            torch.empty(arg.shape, dtype=arg.dtype) if resident else arg
            for arg, resident in zip(args, is_tensor, strict=True)
        ]
        device = _pypto.Worker("a2a3sim", capacity=1 << 40, cores=1)
        try:
            scalars = _pypto.check_arguments(programs.register(device, compiled, None, None), tuple(shown))
        finally:
            device.close()
        for position, (arg, resident) in enumerate(zip(args, is_tensor, strict=True)):
            if resident:
                try:
                    self._require_owned_resident_tensor(arg, f"At position {position}")
                except TypeError as error:
                    raise failures.STALE_TENSOR(str(error)) from error
        return scalars

    def _launcher(self, compiled: CompiledProgram) -> Any:
        self._ready("run", 0)
        return ForeignLauncher(ForeignHandle(self, None, compiled))

    def _loaded(self) -> int:
        name = "aicpu_dlopen_count" if self.runtime == RUNTIMES[0] else "host_dlopen_count"
        return 0 if self._impl is None else int(getattr(self._impl, name, 0))

    def __repr__(self) -> str:
        """Binding, and whether the device is open."""
        return f"<ChipWorker {self._binding}, {'open' if self._is_ready else 'closed'}, foreign device>"


ForeignWorker.__name__ = ForeignWorker.__qualname__ = ChipWorker.__name__
"""What users have, and what messages call it."""


def _host(operation: str, address: Any, nbytes: Any) -> ctypes.Array[ctypes.c_char]:
    """The host side of a copy. The address is trusted, as it is by the device."""
    if not isinstance(nbytes, int) or nbytes <= 0:
        raise failures.BAD_SIZE(f"{operation}(): nbytes must be a positive int, got {nbytes!r}")
    if isinstance(address, bool) or not isinstance(address, int) or address <= 0:
        raise failures.BAD_ADDRESS(f"{operation}(): the host address must be a positive int, got {address!r}")
    return (ctypes.c_char * nbytes).from_address(address)


def _close_abandoned(impl: Any, pid: int) -> None:
    """Tries once more to close a device that nobody can close any more."""
    if pid == os.getpid():
        with contextlib.suppress(Exception):
            impl.close()
