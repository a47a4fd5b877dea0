"""Case 18: a benchmark has exactly the samples of its launches, whatever else writes to standard error meanwhile."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig, benchmark, configure_log, log_level

BLOCK = b"x" * 4096  # as much as a pipe takes in one piece, and no end of a line in it


@contextlib.contextmanager
def noise() -> Iterator[None]:
    """A thread and a child process that write blocks without line ends to standard error."""
    stop, begun = threading.Event(), threading.Event()

    def write() -> None:
        while not stop.wait(0.0001):
            os.write(2, BLOCK)
            begun.set()

    script = f"""
import os, time
while True:
    os.write(2, {BLOCK!r})
    os.write(1, b".")
    time.sleep(0.0001)
"""
    thread = threading.Thread(target=write)
    thread.start()
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"."
        assert begun.wait(60)
        yield
    finally:
        stop.set()
        thread.join()
        child.kill()
        child.communicate()


def ones() -> torch.Tensor:
    return torch.ones(128, 128)


@pytest.mark.parametrize("printing", [False, True], ids=["silent", "printing spans too"])
@pytest.mark.parametrize("place", ["own worker", "active worker", "given worker"])
def test_there_is_one_sample_of_each_clock_for_each_round_amid_noise(
    place: str, printing: bool, K_add: ir.CompiledProgram, capfd: pytest.CaptureFixture[str]
) -> None:
    level = log_level()
    configure_log("timing" if printing else "error")
    out = torch.empty(128, 128)
    args = [ones(), ones(), out]
    try:
        with noise():
            if place == "own worker":
                stats = benchmark(K_add, args, rounds=20, warmup=3)
            elif place == "active worker":
                with ChipWorker(RunConfig()):
                    stats = benchmark(K_add, args, rounds=20, warmup=3)
            else:
                worker = ChipWorker(RunConfig())
                stats = benchmark(K_add, args, rounds=20, warmup=3, worker=worker)
                worker.close()
        assert log_level() == (25 if printing else 40), "a benchmark leaves the level of the log as it was"
    finally:
        configure_log(level)
        text = capfd.readouterr().err
    assert text.count("x") >= len(BLOCK), "there was noise, and it was not swallowed"
    assert (len(stats.host_wall_us), len(stats.device_wall_us), len(stats.invocations)) == (20, 20, 20)
    assert all(0 < device <= host for host, device in zip(stats.host_wall_us, stats.device_wall_us, strict=True))
    assert not stats.all_zero_device
    assert len({launch.inv for launch in stats.invocations}) == 20
    assert torch.equal(out, torch.full((128, 128), 2.0))


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"rounds": 0}, "rounds must be positive, got 0"),
        ({"rounds": -1}, "rounds must be positive, got -1"),
        ({"warmup": -1}, "warmup must be non-negative, got -1"),
    ],
)
def test_counts_that_cannot_be_are_refused(numbers: dict[str, int], text: str, K_add: ir.CompiledProgram) -> None:
    with pytest.raises(ValueError, match=text):
        benchmark(K_add, [ones(), ones(), ones()], **numbers)


def test_without_spans_there_is_an_error_with_the_reason_instead_of_an_empty_result(
    K_add: ir.CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pypto._pypto.trace_available", lambda: False)
    with pytest.raises(
        RuntimeError,
        match=r"^no \[STRACE\] markers captured across 103 launches, .*: this build was made with the feature",
    ) as e:
        benchmark(K_add, [ones(), ones(), ones()])
    assert e.value.code == "no_spans"  # type: ignore[attr-defined]
