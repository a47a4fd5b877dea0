"""Device memory that a test leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pypto.runtime import open_workers

if TYPE_CHECKING:
    from pypto._pypto import Buffer
    from pypto.runtime import ChipWorker

_NAMED = 20
"""Tensors that a message names; the others are counted."""


def snapshot() -> set[int]:
    """Addresses of all live allocations. One is never given out twice, so they are names."""
    return {buffer.base for buffer in _live()}


def since(before: set[int]) -> list[Buffer]:
    """What is live now and was not then."""
    return [buffer for buffer in _live() if buffer.base not in before]


def take(worker: ChipWorker) -> list[Buffer]:
    """What is live on a worker; it is freed, so that closing the worker does not name it a second time."""
    if not worker.initialized:
        return []
    left = worker.memory_report().live_buffers
    for buffer in left:
        worker.free(buffer.base)
    return left


def refuse(left: list[Buffer], *, failed: bool) -> None:
    """Fails the test where it passed and left something behind."""
    if not left or failed:
        return
    lines = [f"  {buffer.description}" for buffer in left[:_NAMED]]
    if len(left) > _NAMED:
        lines.append(f"  ... and {len(left) - _NAMED} more")
    count = "1 tensor" if len(left) == 1 else f"{len(left)} tensors"
    total = sum(buffer.nbytes for buffer in left)
    head = f"the test left {count} ({total:,} bytes) on the device; free them with free_tensor():"
    pytest.fail("\n".join([head, *lines]), pytrace=False)


def _live() -> list[Buffer]:
    return [
        buffer
        for worker in open_workers.all_open()
        if worker.initialized
        for buffer in worker.memory_report().live_buffers
    ]
