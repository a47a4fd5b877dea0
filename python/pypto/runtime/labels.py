"""Settings of a launch that steer nothing on the simulated chip, as its trace records them."""

from __future__ import annotations

from pypto.runtime.run_config import RunConfig
from pypto.runtime.settings import is_int

_FIELDS = (
    "enable_chip_swimlane", "enable_dump_args", "enable_pmu", "enable_dep_gen", "enable_scope_stats",
    "aicpu_thread_num", "ring_task_window", "ring_heap", "ring_dep_pool",
)  # fmt: skip


def of_launch(config: RunConfig) -> list[tuple[str, int]]:
    """The settings that were asked for, each as a number: a switch is 1, and four rings are four numbers.

    A field may be assigned unchecked after the object was made. The trace leaves out what is no number for it, as it
    must not fail a launch that the same setting does not fail without a trace.
    """
    found: list[tuple[str, int]] = []
    for name in _FIELDS:
        value = getattr(config, name)
        each = [(f"{name}_{ring}", entry) for ring, entry in enumerate(value)] if isinstance(value, list) else []
        found += [(key, int(entry)) for key, entry in each or [(name, value)] if _is_recorded(entry)]
    return found


def _is_recorded(value: object) -> bool:
    return value is True or (is_int(value) and 0 < value < 2**64)
