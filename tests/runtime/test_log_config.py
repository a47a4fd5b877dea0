"""Levels of the log, and the `[STRACE]` lines."""

import logging
import re
from collections.abc import Iterator

import pytest
import torch
from scripts import run_script

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


def without_spans(text: str) -> list[str]:
    """Lines of the log; at `info` launches print their spans too."""
    return [line for line in text.splitlines() if not line.startswith("[mono_ns=")]


QUICKLY = """
a, b, c = (torch.ones(128, 128) for _ in range(3))
import sample_kernels
from pypto import runtime
add = sample_kernels.compile_add()
"""


@pytest.mark.parametrize(
    ("level", "wanted"),
    [
        ("warn", []),
        (
            "info",
            [
                "pypto.runtime.dispatch: no ChipWorker for a2a3sim device 0 is active: opened one that lives until "
                "exit.",
                "pypto.runtime.notices: a2a3sim is a simulated device: its times are those of this machine's CPU, "
                "not of an Ascend chip.",
            ],
        ),
    ],
)
def test_a_plain_script_reads_each_notice_once_where_it_asked_for_it(level: str, wanted: list[str]) -> None:
    done = run_script(
        QUICKLY
        + f"""
runtime.configure_log({level!r})
for _ in range(2):
    add(a, b, c)
    runtime.benchmark(add, [a, b, c], rounds=1, warmup=0)
"""
    )
    assert done.returncode == 0, done.stderr
    lines = [re.sub(r"(until exit\.).*", r"\1", line) for line in without_spans(done.stderr)]
    assert lines == wanted


def test_a_program_that_configures_logging_decides_alone_where_it_goes() -> None:
    done = run_script(
        QUICKLY
        + """
import logging
logging.basicConfig(stream=sys.stdout, format="mine: %(name)s %(levelname)s", level=logging.INFO)
runtime.configure_log("info")
add(a, b, c)
"""
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, without_spans(done.stderr)) == ("mine: pypto.runtime.dispatch INFO\n", [])


@pytest.mark.parametrize(
    ("level", "synced"), [("debug", 10), (15, 20), ("info", 20), ("timing", 30), ("error", 40), ("null", 60), (99, 60)]
)
def test_the_package_s_logger_follows_in_its_own_levels(
    level: str | int, synced: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = logging.getLogger("pypto")
    monkeypatch.setattr(package, "level", package.level)
    configure_log(level, sync_pypto=True)
    assert package.level == synced
