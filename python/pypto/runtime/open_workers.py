"""Workers that nobody closed: the warning about what they leak, and their end when they are collected or at exit."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import TYPE_CHECKING

from pypto import _pypto
from pypto.runtime.runtime_base import logger

if TYPE_CHECKING:
    from pypto.runtime.worker import ChipWorker

_NAMED = 20
"""Tensors that a warning names. A model that nobody freed has hundreds, from the same few lines."""

_open: weakref.WeakSet[ChipWorker] = weakref.WeakSet()


def add(worker: ChipWorker) -> None:
    """Makes sure that a worker is closed before the interpreter ends."""
    _open.add(worker)


def discard(worker: ChipWorker) -> None:
    """Forgets a worker that is closed."""
    _open.discard(worker)


def all_open() -> list[ChipWorker]:
    """The workers that are open, in no particular order."""
    return list(_open)


def warn_leaked(worker: str, leaked: list[str]) -> None:
    """Names what a close had to free, the first of many."""
    names = "".join(f"\n  {tensor}" for tensor in leaked[:_NAMED])
    if len(leaked) > _NAMED:
        names += f"\n  ... and {len(leaked) - _NAMED} more"
    logger.warning(
        "closing the ChipWorker for %s freed %s that the program was leaking; free them with free_tensor():%s",
        worker,
        "1 tensor" if len(leaked) == 1 else f"{len(leaked)} tensors",
        names,
    )


def close_abandoned(impl: _pypto.Worker, worker: str, pid: int) -> None:
    """Closes the device of a worker that was collected while open. There is nobody to raise at."""
    if pid != os.getpid():
        return
    leaked, damage = impl.close()
    if leaked:
        warn_leaked(worker, leaked)
    if damage is not None:
        logger.warning("closing the abandoned ChipWorker for %s: %s", worker, damage)


@atexit.register
def _close_at_exit() -> None:
    """Closes what is still open. Launches of other threads are stopped: the interpreter does not wait for them."""
    for worker in all_open():
        try:
            worker._close(stop=True)
        except Exception as error:
            logger.warning("closing the ChipWorker for %s at exit: %s", worker.binding, error)
