"""Handles that launch by way of their worker: of programs on a foreign device, and of workers of a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pypto import failures
from pypto._pypto import RegistrationHandle
from pypto.runtime.runtime_base import Worker

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram
    from pypto.runtime.run_config import RunConfig


class ForeignHandle:
    """What `RegistrationHandle(worker, cid, compiled)` gives; `isinstance` takes it for one."""

    __test__ = False

    def __init__(self, worker: Worker, cid: Any, compiled: CompiledProgram) -> None:
        if not isinstance(worker, Worker):
            raise failures.NOT_A_WORKER(
                f"the worker of a RegistrationHandle must be a Worker, got {type(worker).__name__}; "
                f"worker.register(compiled) makes a handle"
            )
        self.worker = worker
        self.cid = cid
        self.compiled = compiled
        self.closed = False

    def __call__(self, *args: Any, config: RunConfig | None = None) -> Any:
        """Launches the program."""
        if self.closed:
            raise failures.HANDLE_CLOSED(
                "RegistrationHandle has been unregistered (or its parent Worker was closed). Re-register the program "
                "with worker.register(...)"
            )
        return self.worker.run(self.compiled, *args, config=config)

    def bind(self, *args: Any) -> Any:
        """Not supported."""
        raise failures.NOT_SUPPORTED(_needs_ours("bind"))

    def submit(self, *args: Any, config: RunConfig | None = None) -> Any:
        """Not supported."""
        raise failures.NOT_SUPPORTED(_needs_ours("submit"))

    def unregister(self) -> None:
        """Makes this handle unusable. The device forgets the program when the worker is closed."""
        self.closed = True

    def __enter__(self) -> ForeignHandle:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.unregister()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` sees, as with the specs of `unittest.mock`: the real class is final."""
        return RegistrationHandle

    def __repr__(self) -> str:
        return f"RegistrationHandle({self.compiled!r}, cid={self.cid!r}{', closed' if self.closed else ''})"


class ForeignLauncher(NamedTuple):
    """What an implicit call finds instead of a handle that it may call itself."""

    handle: ForeignHandle
    fits: bool = False

    def launch(self, compiled: CompiledProgram, args: tuple[Any, ...], config: RunConfig) -> Any:
        """Launches with settings."""
        return self.handle(*args, config=config)


def _needs_ours(method: str) -> str:
    return (
        f"RegistrationHandle.{method}() needs a device of this package, and that of this handle is somebody else's: "
        f"call the handle, handle(*args), which launches and waits"
    )
