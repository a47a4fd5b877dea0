"""The bar of what takes long: on a terminal, after a second, and nowhere else."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto.runtime.progress import Progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal, True), (io.StringIO, False)])
def test_a_bar_appears_on_a_terminal_only(
    stream: type[io.StringIO], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", stream())
    monkeypatch.setattr("pypto.runtime.progress._PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("copying", 10) as progress:
        progress.advance(3)
        assert (progress._bar is not None) == shown
        import sys

        assert ("copying" in sys.stderr.getvalue()) == shown


def test_quick_work_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    with Progress("copying", 10) as progress:
        progress.advance(10)
        assert progress._bar is None


BENCHMARK = """
import torch, pypto.language as pl
from pypto.runtime import benchmark

@pl.jit
def slow(x: pl.Tensor[[1024, 1024], pl.FP32], out: pl.Out[pl.Tensor[[1024, 1024], pl.FP32]]):
    for row in pl.range(0, 1024, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[row : row + 16, :] = pl.exp(x[row : row + 16, :])
    return out

x, out = torch.ones(1024, 1024), torch.empty(1024, 1024)
compiled = slow.compile(x, out)
stats = benchmark(compiled, [x, out], rounds=ROUNDS)
while sum(stats.host_wall_us) < SECONDS * 1e6:  # a quick machine needs more rounds
    stats = benchmark(compiled, [x, out], rounds=4 * stats.rounds)
"""


def stderr_of(directory: Path, rounds: int, seconds: float, terminal: bool) -> str:
    """What a benchmark in a process of its own writes to standard error; of a terminal also what is erased again."""
    script = directory / "measured.py"
    script.write_text(BENCHMARK.replace("ROUNDS", str(rounds)).replace("SECONDS", str(seconds)))
    command = [sys.executable, str(script)]
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    if not terminal:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout == ""
        return done.stderr
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stderr=theirs, stdout=subprocess.DEVNULL) as process:
        os.close(theirs)
        pieces = []
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            pieces.append(piece)
    os.close(ours)
    assert process.returncode == 0
    return b"".join(pieces).decode()


def test_a_benchmark_of_more_than_a_second_has_a_bar_on_a_terminal(tmp_path: Path) -> None:
    shown = stderr_of(tmp_path, rounds=100, seconds=1.5, terminal=True)
    assert "benchmark" in shown
    assert "━" in shown


def test_a_quick_benchmark_has_no_bar_on_a_terminal(tmp_path: Path) -> None:
    assert stderr_of(tmp_path, rounds=2, seconds=0, terminal=True) == ""


def test_a_long_benchmark_writes_nothing_where_there_is_no_terminal(tmp_path: Path) -> None:
    assert stderr_of(tmp_path, rounds=100, seconds=1.5, terminal=False) == ""
