"""`RunConfig`: defaults, and what each field refuses."""

import dataclasses
import re
import warnings
from enum import Enum
from pathlib import Path

import pytest

from pypto.ir import BackendType, OptimizationStrategy
from pypto.runtime import ChipWorker, RunConfig

FIELDS = [
    "platform", "device_id", "rtol", "atol", "strategy", "backend_type", "dump_passes", "save_kernels",
    "save_kernels_dir", "codegen_only", "enable_chip_swimlane", "enable_dump_args", "enable_pmu", "enable_dep_gen",
    "enable_scope_stats", "compile_profiling", "diagnostic_phase", "disabled_diagnostics", "golden_data_dir",
    "aicpu_thread_num", "ring_task_window", "ring_heap", "ring_dep_pool", "distributed_config",
    "analyze_auto_scopes_for_deps", "memory_planner", "dump_ptoas_passes",
]  # fmt: skip


def test_fields_come_in_the_contract_s_order_and_ours_after_them() -> None:
    names = [field.name for field in dataclasses.fields(RunConfig)]
    own = ["device_memory", "poison", "cores", "packed_weights", "schedule_seed", "sanitize", "strict_memory"]
    assert names == [*FIELDS, *own, "queue_depth", "residency"]


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


@pytest.mark.parametrize(("field", "value", "error"), [
    ("device_memory", -5, ValueError), ("cores", 10**6, ValueError), ("queue_depth", 0, ValueError),
    ("residency", "sometimes", ValueError), ("packed_weights", float("nan"), ValueError),
    ("schedule_seed", -1, ValueError), ("sanitize", "spelling", ValueError), ("poison", "yes", TypeError),
])  # fmt: skip
def test_what_is_assigned_later_is_checked_when_a_worker_is_opened(
    field: str, value: object, error: type[Exception]
) -> None:
    config = RunConfig(device_memory=1 << 20)
    worker = ChipWorker(config)
    worker.close()
    setattr(config, field, value)
    with pytest.raises(error, match=f"{field} must be "):
        ChipWorker(config)
    with pytest.raises(error, match=f"{field} must be "):
        worker.init()


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


REFUSED: dict[str, tuple[object, type[Exception], str]] = {
    "strategy": (3, TypeError, "strategy must be an OptimizationStrategy, got 3"),
    "dump_passes": ("x", TypeError, "dump_passes must be True or False, got 'x'"),
    "save_kernels": (2, TypeError, "save_kernels must be True or False, got 2"),
    "save_kernels_dir": (3, TypeError, "save_kernels_dir must be a path or None, got 3"),
    "codegen_only": (None, TypeError, "codegen_only must be True or False, got None"),
    "enable_dump_args": (3, ValueError, "enable_dump_args must be from 0 to 2, got 3"),
    "enable_pmu": (-1, ValueError, "enable_pmu must be from 0 to .*, got -1"),
    "enable_dep_gen": ("on", TypeError, "enable_dep_gen must be True or False, got 'on'"),
    "enable_scope_stats": (1.0, TypeError, r"enable_scope_stats must be True or False, got 1\.0"),
    "compile_profiling": ([], TypeError, r"compile_profiling must be True or False, got \[\]"),
    "diagnostic_phase": ("POST_PASS", TypeError, "diagnostic_phase must be a DiagnosticPhase or None, got 'POST_PASS'"),
    "golden_data_dir": (3, TypeError, "golden_data_dir must be a path or None, got 3"),
    "aicpu_thread_num": (0, ValueError, "aicpu_thread_num must be a positive int or None, got 0"),
    "analyze_auto_scopes_for_deps": ("x", TypeError, "analyze_auto_scopes_for_deps must be True or False, got 'x'"),
    "memory_planner": ("PYPTO", TypeError, "memory_planner must be a MemoryPlanner or None, got 'PYPTO'"),
    "dump_ptoas_passes": ("x", TypeError, "dump_ptoas_passes must be True or False, got 'x'"),
    "packed_weights": (1.5, ValueError, r"packed_weights must be True, False or a share from 0 to 1, got 1\.5"),
    "schedule_seed": (-1, ValueError, r"schedule_seed must be an int from 0 to 2\*\*64 - 1 or None, got -1"),
    "queue_depth": (0, ValueError, "queue_depth must be a positive number of launches, at most 1048576, got 0"),
    "poison": (1, TypeError, "poison must be True, False or None, got 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_says_what_it_may_be(name: str) -> None:
    value, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        RunConfig(**{name: value})


def test_levels_of_diagnostics_may_be_switches() -> None:
    config = RunConfig(enable_dump_args=True, enable_pmu=True, enable_dep_gen=1, dump_passes=1)
    assert (config.enable_dump_args, config.enable_pmu, config.enable_dep_gen, config.dump_passes) == (1, 2, True, True)
    assert config.any_dfx_enabled()
    assert config.save_kernels


def test_the_table_of_fields_lists_them_all_with_their_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run_config.md").read_text().split("\n## Environment")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", page, re.M))
    config = RunConfig()
    defaults = {field.name: getattr(config, field.name) for field in dataclasses.fields(RunConfig)}
    shown = {name: value.name if isinstance(value, Enum) else repr(value) for name, value in defaults.items()}
    assert rows == {name: text.strip("'") for name, text in shown.items()}
