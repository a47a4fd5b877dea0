"""Levels of the log, and the `[STRACE]` lines."""

import re
from collections.abc import Iterator

import pytest
import torch

from pypto import ir, runtime
from pypto.runtime import ChipWorker, configure_log, log_config, log_level

LINE = re.compile(
    r"\[mono_ns=\d+\]\[T0x[0-9a-f]+\]\[TIMING\] \w+: \[STRACE\] v=1 pid=\d+ tid=\d+ inv=(\d+) hid=[0-9a-f]+ "
    r"depth=(\d+) name=(\S+) ts=\d+ dur=\d+((?: \w+=\S+)*)"
)


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    level = log_level()
    yield
    configure_log(level)


def launch(worker: ChipWorker, compiled: ir.CompiledProgram) -> None:
    worker.run(compiled, *(torch.ones(128, 128) for _ in range(3)))


def test_levels_have_names() -> None:
    for name, level in [("debug", 10), ("info", 20), ("timing", 25), ("warn", 30), ("error", 40), ("null", 60)]:
        configure_log(name)
        assert log_level() == level
    configure_log(17)
    assert log_level() == 17
    configure_log("no such level")
    assert log_level() == 25
    assert runtime.log_level is log_config.current_level


def test_nothing_is_printed_before_it_is_asked_for(
    worker: ChipWorker, K_add: ir.CompiledProgram, capfd: pytest.CaptureFixture[str]
) -> None:
    assert log_level() > 25
    launch(worker, K_add)
    assert capfd.readouterr().err == ""


def test_at_timing_each_launch_prints_its_spans(
    worker: ChipWorker, K_add: ir.CompiledProgram, capfd: pytest.CaptureFixture[str]
) -> None:
    launch(worker, K_add)
    configure_log("timing")
    launch(worker, K_add)
    launch(worker, K_add)
    lines = [line for line in capfd.readouterr().err.splitlines() if "[STRACE]" in line]
    spans = [LINE.fullmatch(line) for line in lines]
    assert all(spans), lines
    found = [(int(span[1]), span[3]) for span in spans if span is not None]
    numbers = sorted({inv for inv, _ in found})
    assert len(numbers) == 2
    for number in numbers:
        names = [name for inv, name in found if inv == number]
        assert names[-1] == "chip.run", "children come before parents"
        for name in ("chip.run.bind", "chip.run.h2d.a", "chip.run.d2h.c", "chip.run.runner_run.device_wall"):
            assert name in names
    device = next(line for line in lines if "device_wall " in line)
    assert device.endswith(" clk=dev")
    configure_log("warn")
    launch(worker, K_add)
    assert capfd.readouterr().err == ""


def test_the_environment_is_followed_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    configure_log("warn")
    monkeypatch.setenv("PYPTO_RUNTIME_LOG", "error")
    log_config.apply_environment()
    assert log_level() == 40
    monkeypatch.setenv("PYPTO_RUNTIME_LOG", "35")
    log_config.apply_environment()
    assert log_level() == 35
    monkeypatch.delenv("PYPTO_RUNTIME_LOG")
    log_config.apply_environment()
    assert log_level() == 35


def test_spans_of_the_device_can_be_left_out(
    worker: ChipWorker, K_add: ir.CompiledProgram, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMPLER_DEVICE_STRACE_ENABLE", "0")
    configure_log("timing")
    launch(worker, K_add)
    text = capfd.readouterr().err
    assert "name=chip.run.runner_run " in text
    assert "clk=dev" not in text
