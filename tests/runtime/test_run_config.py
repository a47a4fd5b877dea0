"""`RunConfig`: defaults, and what each field refuses."""

import dataclasses
import warnings

import pytest

from pypto.ir import BackendType, OptimizationStrategy
from pypto.runtime import RunConfig

FIELDS = [
    "platform", "device_id", "rtol", "atol", "strategy", "backend_type", "dump_passes", "save_kernels",
    "save_kernels_dir", "codegen_only", "enable_chip_swimlane", "enable_dump_args", "enable_pmu", "enable_dep_gen",
    "enable_scope_stats", "compile_profiling", "diagnostic_phase", "disabled_diagnostics", "golden_data_dir",
    "aicpu_thread_num", "ring_task_window", "ring_heap", "ring_dep_pool", "distributed_config",
    "analyze_auto_scopes_for_deps", "memory_planner", "dump_ptoas_passes",
]  # fmt: skip


def test_fields_come_in_the_contract_s_order_and_ours_after_them() -> None:
    names = [field.name for field in dataclasses.fields(RunConfig)]
    assert names == [*FIELDS, "device_memory", "poison", "cores"]


def test_defaults() -> None:
    config = RunConfig()
    assert (config.platform, config.device_id, config.rtol, config.atol) == ("a2a3sim", 0, 1e-5, 1e-5)
    assert config.strategy is OptimizationStrategy.Default
    assert not config.any_dfx_enabled()
    assert not config.save_kernels
    unset = ("ring_task_window", "ring_heap", "ring_dep_pool", "aicpu_thread_num", "device_memory", "poison", "cores")
    assert all(getattr(config, name) is None for name in unset)


@pytest.mark.parametrize("platform", ["a2a3sim", "a2a3", "a5sim", "a5"])
def test_the_backend_follows_from_the_platform(platform: str) -> None:
    expected = BackendType.Ascend910B if platform.startswith("a2a3") else BackendType.Ascend950
    for given in BackendType:
        assert RunConfig(platform=platform, backend_type=given).backend_type is expected


@pytest.mark.parametrize("platform", ["", "a2a3 ", "A2A3", "cuda", "sim", None, 3])
def test_other_platforms_are_refused(platform: object) -> None:
    with pytest.raises(ValueError, match=r"Invalid platform .* a2a3sim, a2a3, a5sim, a5"):
        RunConfig(platform=platform)


@pytest.mark.parametrize(("value", "level"), [(True, 4), (False, 0), (0, 0), (3, 3), (4, 4)])
def test_swimlane_levels(value: int, level: int) -> None:
    config = RunConfig(enable_chip_swimlane=value)
    assert config.enable_chip_swimlane == level
    assert type(config.enable_chip_swimlane) is int


@pytest.mark.parametrize("value", ["4", 1.0, None])
def test_a_swimlane_level_is_an_int(value: object) -> None:
    with pytest.raises(TypeError, match="enable_chip_swimlane must be an int from 0 to 4"):
        RunConfig(enable_chip_swimlane=value)


@pytest.mark.parametrize("value", [-1, 5])
def test_a_swimlane_level_is_within_its_range(value: int) -> None:
    with pytest.raises(ValueError, match="enable_chip_swimlane must be from 0 to 4"):
        RunConfig(enable_chip_swimlane=value)


@pytest.mark.parametrize(
    "switch",
    [
        {"enable_chip_swimlane": 1},
        {"enable_dump_args": 1},
        {"enable_pmu": 2},
        {"enable_dep_gen": True},
        {"enable_scope_stats": True},
    ],
    ids=lambda switch: next(iter(switch)),
)
def test_device_diagnostics_keep_the_kernels(switch: dict) -> None:
    config = RunConfig(**switch)
    assert config.any_dfx_enabled()
    assert config.save_kernels


RINGS = {
    "ring_task_window": ([4, 8, 1 << 20], [0, 2, 3, 5, -4, 1 << 20 | 1]),
    "ring_heap": ([1024, 1 << 30], [0, 512, 1023, 1025, -1024]),
    "ring_dep_pool": ([4, 5, 2**31 - 1], [0, 3, -1, 2**31]),
}
GOOD_RINGS = [(name, value) for name, (good, _) in RINGS.items() for value in good]
BAD_RINGS = [(name, value) for name, (_, bad) in RINGS.items() for value in [*bad, True, 1024.0, "1024"]]


@pytest.mark.parametrize(("name", "value"), GOOD_RINGS)
def test_rings_take_one_number_or_four(name: str, value: int) -> None:
    assert getattr(RunConfig(**{name: value}), name) == value
    assert getattr(RunConfig(**{name: (value, 0, value, 0)}), name) == [value, 0, value, 0]


@pytest.mark.parametrize(("name", "value"), BAD_RINGS)
def test_rings_refuse_the_rest(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        RunConfig(**{name: value})
    if value != 0 or isinstance(value, bool):
        with pytest.raises(ValueError, match=name):
            RunConfig(**{name: [0, 0, 0, value]})


@pytest.mark.parametrize("entries", [[], [0], [0, 0, 0], [0] * 5])
def test_rings_are_four(entries: list[int]) -> None:
    with pytest.raises(ValueError, match="exactly 4 entries"):
        RunConfig(ring_heap=entries)


@pytest.mark.parametrize("name", ["device_memory", "cores"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "8"])
def test_sizes_are_positive_ints(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a positive number"):
        RunConfig(**{name: value})


def test_the_old_name_of_the_swimlane_warns() -> None:
    with pytest.warns(DeprecationWarning, match="enable_l2_swimlane is deprecated"):
        config = RunConfig(enable_l2_swimlane=2)
    assert config.enable_chip_swimlane == 2
    with pytest.warns(DeprecationWarning, match="use enable_chip_swimlane"):
        config.enable_l2_swimlane = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert config.enable_l2_swimlane == config.enable_chip_swimlane == 4
        assert dataclasses.replace(config, device_id=1).enable_chip_swimlane == 4
    with pytest.raises(ValueError, match="pass only enable_chip_swimlane"):
        RunConfig(enable_l2_swimlane=1, enable_chip_swimlane=1)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        RunConfig(enable_l3_swimlane=1)
