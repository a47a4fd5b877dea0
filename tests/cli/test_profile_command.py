"""`pypto profile`, as its users type it. What a profile says is tested with `profile()`."""

from pathlib import Path

import pytest
from test_cli import KERNELS, answer, plain, pypto


def test_a_profile_is_a_table_or_json() -> None:
    words = ("profile", f"{KERNELS}:scale", "--dim", "M=48", "--arg", "factor=2", "--launches", 3)
    found = answer(*words)
    (step,) = found["steps"]
    assert (found["cores"], found["launches"], step["runs"], step["kind"]) == (1, 3, 3, "chain")
    assert step["flops"] == 48 * 64
    assert step["device_bytes"] == 2 * 4 * 48 * 64
    table = pypto(*words)
    assert table.exit_code == 0
    assert "chain of 3 x3" in table.stdout
    assert "out[row : row + 16, :] = pl.mul(x[row : row + 16, :], factor)" in table.stdout


def test_the_source_stands_beside_its_costs() -> None:
    shown = pypto("profile", f"{KERNELS}:double", "--source", "--launches", 1)
    assert shown.exit_code == 0, shown.output
    (line,) = [line for line in shown.stdout.splitlines() if line.endswith("out[:] = pl.mul(x, 2.0)")]
    assert line.split("|")[0].split()[1:] == ["100%", "16.4k", "2.0k"]
    assert "Percentages are of what this machine can do" in shown.stdout


def test_a_plot_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "roof.svg"
    shown = pypto("profile", f"{KERNELS}:double", "--roofline", path, "--launches", 1, "--cores", 2)
    assert shown.exit_code == 0, shown.output
    assert f"roofline in {path}" in shown.stdout.replace("\n", "")
    assert "<svg" in path.read_text()


def test_a_program_class_can_be_profiled() -> None:
    assert answer("profile", f"{KERNELS}:Negate", "--launches", 1)["program"] == "Negate"


@pytest.mark.parametrize("command", ["profile", "inspect"])
def test_a_command_line_of_bench_fits_commands_that_keep_everything_on_the_device(command: str) -> None:
    assert pypto(command, f"{KERNELS}:double", "--resident", "x,out").exit_code == 0
    refused = pypto(command, f"{KERNELS}:double", "--resident", "w")
    assert refused.exit_code == 2
    assert "--resident w: double has no such tensor; it has x, out" in plain(refused)


def test_with_several_cores_a_profile_says_that_its_tasks_run_one_after_the_other() -> None:
    words = ("profile", f"{KERNELS}:scale", "--dim", "M=48", "--arg", "factor=2", "--launches", 3)
    text = "Tasks ran one after the other here, the steps of each on 2 cores"
    assert text in plain(pypto(*words, "--cores", 2))
    assert "one after the other" not in plain(pypto(*words))
