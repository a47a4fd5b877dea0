"""Programs over several ranks: how they would run, and that this version does not run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class DistributedConfig:
    """Where the ranks of a program run. Accepted and kept; programs over several ranks are not supported yet."""

    device_ids: list[int] = field(default_factory=lambda: [0])
    num_sub_workers: int = 0
    runtime: str = "tensormap_and_ringbuffer"
    aicpu_thread_num: int = 0


class DistributedCompiledProgram:
    """A compiled program over several ranks: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "programs over several ranks are not supported in this version: use @pl.jit on one chip"
        )
