"""Programs over several ranks: how they would run, and that this version does not run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pypto import failures


@dataclass
class DistributedConfig:
    """Where the ranks of a program run. Checked and kept; programs over several ranks are not supported yet.

    Attributes:
        device_ids: One device for each rank, all different.
        num_sub_workers: Workers of the host beside them.
        runtime: The kind of runtime.
        aicpu_thread_num: Scheduler threads of a device; 0 for the default, else at least 2.

    Raises:
        ValueError: A field has a value that it cannot have.
    """

    device_ids: list[int] = field(default_factory=lambda: [0])
    num_sub_workers: int = 0
    runtime: str = "tensormap_and_ringbuffer"
    aicpu_thread_num: int = 0

    def __post_init__(self) -> None:
        """Checks the fields."""
        ids = self.device_ids
        if not ids or min(ids) < 0 or len(set(ids)) < len(ids):
            raise failures.SETTING_VALUE(f"device_ids must be different numbers from 0 on, at least one, got {ids!r}")
        if self.num_sub_workers < 0:
            raise failures.SETTING_VALUE(f"num_sub_workers must be non-negative, got {self.num_sub_workers!r}")
        if self.aicpu_thread_num < 0 or self.aicpu_thread_num == 1:
            raise failures.SETTING_VALUE(f"aicpu_thread_num must be 0 or at least 2, got {self.aicpu_thread_num!r}")


class DistributedCompiledProgram:
    """A compiled program over several ranks: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "programs over several ranks are not supported in this version: use @pl.jit on one chip"
        )
