"""The job that this project exists for: a weight that stays on the device, seen from outside."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WEIGHT_BYTES = 1024 * 4096 * 2
BATCHES = (1, 16, 40)

Table = dict[tuple[int, str], list[float]]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "examples/runtime/resident_weight.py", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.fixture(scope="module")
def output() -> str:
    """What it prints. It compares its results with torch itself, and fails when they differ."""
    done = run()
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def table(output: str) -> Table:
    """Its table: rows and place of the weight to host wall, device wall, bytes to the device, bytes from it."""
    lines = [line.replace(",", "").split() for line in output.splitlines()]
    return {
        (int(line[0]), line[1]): [float(cell) for cell in line[2:]] for line in lines if line[:1] and line[0].isdigit()
    }


@pytest.mark.parametrize("rows", BATCHES)
def test_a_resident_weight_is_not_copied_in_any_launch(table: Table, rows: int) -> None:
    batch, out = rows * 1024 * 2, rows * 4096 * 2
    assert table[rows, "host"][2:] == [batch + WEIGHT_BYTES, out]
    assert table[rows, "resident"][2:] == [batch, out]


def test_the_host_wall_falls_where_the_copy_was_most_of_it(table: Table) -> None:
    assert table[1, "resident"][0] < table[1, "host"][0]


def test_the_device_wall_does_not_rise(table: Table) -> None:
    """Up to half again is what a busy machine makes of equal work."""
    host, resident = (sum(table[rows, place][1] for rows in BATCHES) for place in ("host", "resident"))
    assert resident < 1.5 * host


@pytest.mark.parametrize("rows", BATCHES)
def test_the_device_wall_is_part_of_the_host_wall_and_never_zero(table: Table, rows: int) -> None:
    for place in ("host", "resident"):
        host_wall, device_wall, *_ = table[rows, place]
        assert 0 < device_wall <= host_wall


@pytest.mark.parametrize("page", ["README.md", "docs/residency.md"])
def test_the_pages_show_what_it_prints(output: str, page: str) -> None:
    """Times differ from machine to machine; everything else must be the same."""
    shown = re.search(r"```text\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert shown is not None
    assert without_times(shown[1]) == without_times(output)


def without_times(text: str) -> list[list[str]]:
    return [["us" if re.fullmatch(r"\d+\.\d", word) else word for word in line.split()] for line in text.splitlines()]


def test_a_real_chip_that_is_missing_is_an_error_that_names_what_is_missing_and_nothing_falls_back() -> None:
    done = run("--platform", "a2a3")
    assert done.returncode != 0
    assert done.stdout == ""
    last_line = done.stderr.strip().splitlines()[-1]
    assert last_line.startswith("RuntimeError:")
    assert "driver" in last_line
    assert "a2a3sim" in last_line
