"""Which workers are active: a stack for each context, and what a thread without one of its own falls back to."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from pypto import failures

if TYPE_CHECKING:
    from pypto.runtime.worker import ChipWorker


class Binding(NamedTuple):
    """What a program must find equal in a worker to run there implicitly."""

    level: int
    platform: str
    device_id: int
    runtime: str

    def __str__(self) -> str:
        """`a2a3sim device 0`, and what is not usual."""
        text = f"{self.platform} device {self.device_id}"
        return text if self.runtime == "tensormap_and_ringbuffer" else f"{text}, runtime {self.runtime}"


Stack = tuple["ChipWorker", ...]

_STACK: ContextVar[Stack] = ContextVar("pypto_active_workers")
_entered: list[ChipWorker] = []
"""Every worker that some context has entered, in order. Changed under the interpreter's own lock, one call each."""


def stack() -> Stack:
    """The active workers of this context, the innermost last.

    A thread starts with an empty context, so a worker that the main thread entered would be invisible in it, and a call
    there would open a second device. A thread that never entered a worker therefore sees those of the process.
    """
    own = _STACK.get(None)
    if own is not None:
        return own
    if threading.current_thread() is threading.main_thread():
        return ()
    return tuple(_entered)


def own_stack() -> Stack:
    """The workers that this context has entered."""
    return _STACK.get(())


def innermost() -> ChipWorker | None:
    """The worker that this context entered last."""
    own = _STACK.get(None)
    return own[-1] if own else None


def push(worker: ChipWorker) -> None:
    """Makes `worker` the innermost one."""
    _STACK.set((*own_stack(), worker))
    _entered.append(worker)


def pop(worker: ChipWorker) -> None:
    """Undoes a push, whichever worker is the innermost now.

    Scopes that are left out of order must not leave a closed worker behind.

    Raises:
        ValueError: The push happened in another context.
    """
    own = own_stack()
    if not any(other is worker for other in own):
        raise failures.WRONG_CONTEXT(
            "this ChipWorker was entered in a different Context (another thread or task); "
            "leave it there, or call close()"
        )
    _STACK.set(tuple(other for other in own if other is not worker))
    forget(worker)


def forget(worker: ChipWorker) -> None:
    """Hides a worker from threads without a context of their own."""
    if worker in _entered:
        _entered.remove(worker)


def find(binding: Binding) -> ChipWorker | None:
    """The innermost active worker with this binding."""
    for worker in reversed(stack()):
        if worker.binding == binding:
            return worker
    return None
