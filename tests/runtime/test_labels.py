"""Settings of a launch that steer nothing on the simulated chip are in its trace."""

from typing import Any

import pytest
import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig, TraceInvocation, benchmark, configure_log, execute_compiled, log_level
from pypto.runtime.runner import _DfxOpts
from pypto.runtime.spans import Recorder

PREFIX = "chip.run.config."

LABELS: dict[str, tuple[Any, dict[str, int]]] = {
    "enable_chip_swimlane": (True, {"enable_chip_swimlane": 4}),
    "enable_dump_args": (2, {"enable_dump_args": 2}),
    "enable_pmu": (4, {"enable_pmu": 4}),
    "enable_dep_gen": (True, {"enable_dep_gen": 1}),
    "enable_scope_stats": (True, {"enable_scope_stats": 1}),
    "aicpu_thread_num": (3, {"aicpu_thread_num": 3}),
    "ring_task_window": (16, {"ring_task_window": 16}),
    "ring_heap": ((1024, 0, 4096, 0), {"ring_heap_0": 1024, "ring_heap_2": 4096}),
    "ring_dep_pool": (2**31 - 1, {"ring_dep_pool": 2**31 - 1}),
}


def recorded(launch: TraceInvocation) -> dict[str, int]:
    spans = [span for span in launch.spans if span.name.startswith(PREFIX)]
    assert all((span.depth, span.is_device) == (2, False) for span in spans)
    return {span.name.removeprefix(PREFIX): int(span.attribute("value") or "") for span in spans}


def ones() -> torch.Tensor:
    return torch.ones(128, 128)


@pytest.mark.parametrize("style", ["run", "handle", "returning", "implicit"])
@pytest.mark.parametrize("name", LABELS)
def test_each_setting_is_a_span_of_its_launch_with_the_number_as_value(
    name: str, style: str, K_add: ir.CompiledProgram
) -> None:
    value, expected = LABELS[name]
    config = RunConfig(**{name: value})
    with ChipWorker() as worker:
        handle = worker.register(K_add)
        with Recorder() as recorder:
            if style == "run":
                worker.run(K_add, ones(), ones(), ones(), config=config)
            elif style == "handle":
                handle(ones(), ones(), ones(), config=config)
            elif style == "returning":
                handle(ones(), ones(), config=config)
            else:
                K_add(ones(), ones(), ones(), config=config)
            (launch,) = recorder.take()
    assert recorded(launch) == expected
    assert launch.by_name()["chip.run.config"].attribute("value") == str(len(expected))


def test_a_launch_without_such_settings_records_none_and_the_next_launch_inherits_none(
    worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    handle = worker.register(K_add)
    with Recorder() as recorder:
        handle(ones(), ones(), ones(), config=RunConfig(ring_heap=2048))
        handle(ones(), ones(), ones(), config=RunConfig())
        handle(ones(), ones(), ones())
        with pytest.raises(TypeError, match="Parameter 'a' expects shape"):
            handle(torch.ones(1), ones(), ones(), config=RunConfig(ring_heap=2048))
        handle(ones(), ones(), ones())
        launches = recorder.take()
    assert [recorded(launch) for launch in launches] == [
        {"ring_heap": 2048}, {}, {}, {"ring_heap": 2048}, {},
    ]  # fmt: skip
    assert [("chip.run.config" in launch.by_name()) for launch in launches] == [True, False, False, True, False]


def test_a_field_that_became_no_number_is_left_out_and_fails_no_launch(
    worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    config = RunConfig(ring_heap=1024)
    config.aicpu_thread_num = "many"  # type: ignore[assignment]
    config.ring_dep_pool = -3
    with Recorder() as recorder:
        worker.run(K_add, ones(), ones(), ones(), config=config)
        (launch,) = recorder.take()
    assert recorded(launch) == {"ring_heap": 1024}


def test_a_benchmark_shows_them_in_its_tree(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    with worker:
        stats = benchmark(K_add, [ones()] * 2 + [ones()], rounds=2, warmup=0, config=RunConfig(aicpu_thread_num=3))
    assert [recorded(launch) for launch in stats.invocations] == [{"aicpu_thread_num": 3}] * 2
    assert "`- aicpu_thread_num" in stats.format_tree(0)


def test_execute_compiled_takes_diagnostics_and_threads(K_add: ir.CompiledProgram) -> None:
    assert _DfxOpts() == _DfxOpts(0, 0, 0, False, False)
    args = [ones(), ones(), ones()]
    with Recorder() as recorder:
        execute_compiled(
            K_add, args, platform="a2a3sim", dfx=_DfxOpts(enable_pmu=2, enable_dep_gen=True), aicpu_thread_num=5
        )
        (launch,) = recorder.take()
    assert recorded(launch) == {"enable_pmu": 2, "enable_dep_gen": 1, "aicpu_thread_num": 5}
    with pytest.raises(ValueError, match="enable_chip_swimlane"):
        execute_compiled(K_add, args, platform="a2a3sim", dfx=_DfxOpts(enable_chip_swimlane=9))


def test_the_printed_spans_have_them_too(
    worker: ChipWorker, K_add: ir.CompiledProgram, capfd: pytest.CaptureFixture[str]
) -> None:
    level = log_level()
    configure_log("timing")
    try:
        worker.run(K_add, ones(), ones(), ones(), config=RunConfig(ring_task_window=8))
    finally:
        configure_log(level)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "name=chip.run.config.ring_task_window " in line]
    assert line.endswith(" value=8")
