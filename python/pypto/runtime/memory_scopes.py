"""What memory is allocated for: budgets and tags, by context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from pypto import _pypto, failures


class _Entered(NamedTuple):
    impl: _pypto.Worker
    scope: _pypto.MemoryScope


_SCOPES: ContextVar[tuple[_Entered, ...]] = ContextVar("pypto_memory_scopes", default=())


def current(impl: _pypto.Worker) -> _pypto.MemoryScope | None:
    """The innermost scope of a worker in this context."""
    for entered in reversed(_SCOPES.get()):
        if entered.impl is impl:
            return entered.scope
    return None


@contextmanager
def scope(
    impl: _pypto.Worker, nbytes: int | None, tag: str, site: tuple[str, int] | None = None
) -> Iterator[_pypto.MemoryScope]:
    """See `ChipWorker.memory_budget`.

    Args:
        impl: The device.
        nbytes: The budget.
        tag: What the memory is for.
        site: File and line that allocations are put down to, where no user's code makes them.
    """
    if not isinstance(tag, str) or not tag:
        raise failures.SETTING_VALUE(f"tag must be a name, got {tag!r}")
    if nbytes is not None and (isinstance(nbytes, bool) or not isinstance(nbytes, int) or not 0 < nbytes < 2**63):
        raise failures.SETTING_VALUE(f"a memory budget must be a positive number of bytes or None, got {nbytes!r}")
    made = impl.memory_scope(tag, nbytes, current(impl), site)
    token = _SCOPES.set((*_SCOPES.get(), _Entered(impl, made)))
    try:
        yield made
    finally:
        _SCOPES.reset(token)
