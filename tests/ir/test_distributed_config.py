"""`DistributedConfig` is checked, though programs over several ranks are not supported yet."""

from typing import Any

import pytest

from pypto.ir.distributed_compiled_program import DistributedConfig


def test_defaults() -> None:
    config = DistributedConfig()
    assert (config.device_ids, config.num_sub_workers, config.aicpu_thread_num) == ([0], 0, 0)
    assert config.runtime == "tensormap_and_ringbuffer"
    assert DistributedConfig([3, 1], 2, "host_build_graph", 2).device_ids == [3, 1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("device_ids", []),
        ("device_ids", [-1]),
        ("device_ids", [0, 1, 0]),
        ("num_sub_workers", -1),
        ("aicpu_thread_num", -1),
        ("aicpu_thread_num", 1),
    ],
)
def test_values_that_cannot_be_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{field} must be .*got"):
        DistributedConfig(**{field: value})
