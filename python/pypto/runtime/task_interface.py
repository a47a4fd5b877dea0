"""What a launch is made of, for tools that prepare one by hand: its settings, and its arguments as words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Ring = int | list[int] | None


@dataclass
class CallConfig:
    """Settings of one launch.

    On the simulated chip they change nothing; see the table in `docs/run_config.md`.

    Attributes:
        aicpu_thread_num: Scheduler threads of the device.
        ring_task_window: Tasks in flight, for all rings or for each of the four.
        ring_heap: Bytes of a heap ring.
        ring_dep_pool: Dependencies in flight.
        enable_chip_swimlane: Level of the timeline.
        enable_dump_args: Level of argument dumps.
        enable_pmu: Event of the performance counters.
        enable_dep_gen: Write the dependencies of tasks.
        enable_scope_stats: Write statistics of scopes.
        output_prefix: Directory of what diagnostics write; None where none is on.
    """

    aicpu_thread_num: int = 0
    ring_task_window: Ring = None
    ring_heap: Ring = None
    ring_dep_pool: Ring = None
    enable_chip_swimlane: int = 0
    enable_dump_args: int = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False
    output_prefix: str | None = None


@dataclass
class TaskArgs:
    """Checked arguments of one launch.

    Attributes:
        tensors: The tensor arguments, in order.
        scalars: The scalar arguments, in order, 64 bits each.
    """

    tensors: list[Any] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)
