"""Spans of launches as data and as trees."""

import pytest
import torch

from pypto import _pypto, ir
from pypto.runtime import ChipWorker, TraceInvocation, TraceSpan
from pypto.runtime.span_tree import format_tree
from pypto.runtime.spans import Recorder


def span(name: str, ts: int, dur: int, attrs: str = "") -> TraceSpan:
    return TraceSpan(1, 2, 3, "ab", name.count(".") - 1, name, ts, dur, attrs)


RUN = [
    span("chip.run.bind.args", 1100, 50, "args=3"),
    span("chip.run.bind", 1050, 200),
    span("chip.run.runner_run.device_wall", 0, 700, "clk=dev"),
    span("chip.run.runner_run", 1300, 800),
    span("chip.run", 1000, 1200),
]


def test_a_span_knows_its_clock_and_its_words() -> None:
    device = span("x", 0, 1500, "bytes=4096 core=1 clk=dev")
    assert device.is_device
    assert device.dur_us == 1.5
    assert (device.attribute("bytes"), device.attribute("core"), device.attribute("other")) == ("4096", "1", None)
    assert not span("x", 0, 1, "clk=device").is_device


def test_an_invocation_finds_its_walls() -> None:
    invocation = TraceInvocation(1, 3, "ab", RUN)
    assert invocation.root() is RUN[-1]
    assert (invocation.host_wall_us, invocation.device_wall_us, invocation.effective_us) == (1.2, 0.7, 0.0)
    assert (invocation.task, invocation.task_name) == ("ab", "ab")
    empty = TraceInvocation(1, 3, "ab")
    assert empty.root() is None
    assert (empty.host_wall_us, empty.device_wall_us, empty.h2d_bytes) == (0.0, 0.0, 0)


def test_the_effective_time_covers_orchestration_and_tasks() -> None:
    wall = "chip.run.runner_run.device_wall"
    invocation = TraceInvocation(1, 3, "ab", [span(f"{wall}.orch", 100, 500), span(f"{wall}.sched", 300, 900)])
    assert invocation.effective_us == 1.1


def test_the_first_of_several_spans_with_one_name_counts() -> None:
    invocation = TraceInvocation(1, 3, "ab", [span("chip.run", 0, 1000), span("chip.run", 0, 9000)])
    assert invocation.by_name()["chip.run"].dur == 1000


def test_a_tree_nests_by_name_and_orders_by_begin() -> None:
    assert format_tree(RUN) == "\n".join(
        [
            "chip.run                 1.2us",
            "|- bind                  0.2us",
            "|  `- args               0.1us",
            "`- runner_run            0.8us",
            "   `- device_wall [dev]  0.7us",
        ]
    )
    assert format_tree(RUN[-1:], us=False) == "chip.run  1200ns"
    assert format_tree([]) == ""


def test_a_tree_shows_the_columns_that_are_asked_for() -> None:
    text = format_tree(RUN[:2], value_fn=lambda span: [str(span.dur), span.attrs])
    assert text == "chip.run.bind  200\n`- args         50  args=3"


def test_a_column_may_be_a_text() -> None:
    assert (
        format_tree(RUN[:2], value_fn=lambda span: f"{span.dur} ns") == "chip.run.bind  200 ns\n`- args         50 ns"
    )


def test_a_recorder_gives_whole_launches(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b, c = torch.ones(128, 128), torch.ones(128, 128), torch.empty(128, 128)
    worker.run(K_add, a, b, c)
    with Recorder() as recorder:
        assert recorder.take() == []
        for _ in range(3):
            worker.run(K_add, a, b, c)
        launches = recorder.take()
    assert len(launches) == 3
    numbers = [launch.inv for launch in launches]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    for launch in launches:
        assert (launch.h2d_bytes, launch.d2h_bytes) == (2 * a.nbytes, c.nbytes)
        names = launch.by_name()
        for name in ("chip.run", "chip.run.bind", "chip.run.bind.args", "chip.run.h2d.a", "chip.run.h2d.b",
                     "chip.run.d2h.c", "chip.run.runner_run", "chip.run.runner_run.device_wall",
                     *(f"chip.run.runner_run.device_wall.{part}" for part in ("orch", "sched", "task"))):  # fmt: skip
            assert name in names
        assert "chip.run.h2d.c" not in names
        assert names["chip.run.runner_run.device_wall"].is_device
        assert names["chip.run.runner_run.device_wall"].ts == 0
        assert names["chip.run.h2d.a"].attribute("bytes") == str(a.nbytes)
        assert launch.device_wall_us < launch.host_wall_us
        root = launch.root()
        assert root is not None
        assert root.depth == 0


def test_a_stopped_recording_says_so() -> None:
    recording = _pypto.Recording()
    recording.stop()
    with pytest.raises(RuntimeError, match="the recording was stopped"):
        recording.drain()
