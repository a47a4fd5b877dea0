"""Handles of programs on a foreign device; see `foreign_worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pypto import failures
from pypto._pypto import RegistrationHandle

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram
    from pypto.runtime.foreign_worker import ForeignWorker
    from pypto.runtime.run_config import RunConfig


class ForeignHandle:
    """A registered program of a foreign device; `isinstance` takes it for a `RegistrationHandle`."""

    __test__ = False

    def __init__(self, worker: ForeignWorker, cid: Any, compiled: CompiledProgram) -> None:
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
        raise failures.NOT_SUPPORTED("bind() needs a device of this package")

    def submit(self, *args: Any, config: RunConfig | None = None) -> Any:
        """Not supported."""
        raise failures.NOT_SUPPORTED("submit() needs a device of this package")

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
