"""Files of users that fail, kernels that read places from tensors, and files to write that have no directory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import KERNELS, answer, plain, pypto

ADD = """
import torch

import pypto.language as pl


@pl.jit
def add(a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, 1.0)
    return out


def add_args():
"""


@pytest.mark.parametrize(
    ("source", "line", "error"),
    [
        ("x = 1\ny = {}['rows']\n", 2, "KeyError: 'rows', while the file was imported"),
        ("assert False\n", 1, "AssertionError, while the file was imported"),
        ("import no_such_module_anywhere\n", 1, "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        (f"{ADD}    return 1 / 0\n", 15, "ZeroDivisionError: division by zero, while add_args() made the arguments"),
        ("import sys\n\nsys.exit(0)\n", 3, 'help: put what only a script does below `if __name__ == "__main__":`'),
    ],
)
def test_a_file_that_fails_is_answered_with_its_line_and_no_traceback(
    source: str, line: int, error: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(source)
    command = [sys.executable, "-m", "pypto.cli", "run", "mine.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"mine.py:{line}: " in done.stderr
    assert error in done.stderr


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "add_args() returned int: return the arguments in a tuple or a list, or a mapping, for a, out"),
        ("return [torch.zeros(16, 16)]", "add_args() returned 1 arguments for a, out"),
        ("return {'b': 3}", "add_args() returned 'b'; add has a, out"),
    ],
)
def test_a_function_that_returns_other_arguments_is_refused(body: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{ADD}    {body}\n")
    result = pypto("run", file)
    assert result.exit_code == 2
    assert message in plain(result)


@pytest.mark.parametrize("seed", range(4))
def test_places_that_a_kernel_reads_from_a_tensor_are_in_bounds(seed: int) -> None:
    (output,) = answer("run", f"{KERNELS}:picked", "--seed", seed)["outputs"]
    assert output["minimum"] < 0 < output["maximum"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dim", "N=3"], "scale has no dynamic dimension N; it has M"),
        (
            ["--dim", "M=16", "--arg", "x=32x64", "--arg", "out=32x64"],
            "--dim M changes nothing: out, x come from --arg",
        ),
        (["--dim", "M=99999999999"], "there is no memory for 'x', 99999999999x64: say a smaller --dim or --arg"),
    ],
)
def test_an_extent_that_cannot_be_meant_is_refused(words: list[str], message: str) -> None:
    result = pypto("run", f"{KERNELS}:scale", "--arg", "factor=1", *words)
    assert result.exit_code == 2
    assert message in plain(result)


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "--save"),
        ("bench", "--report"),
        ("profile", "--roofline"),
        ("trace", "-o"),
        ("memory", "--snapshot"),
        ("inspect", "--graph"),
    ],
)
def test_a_file_in_no_directory_is_refused_before_anything_is_measured(words: tuple[str, str], tmp_path: Path) -> None:
    command, option = words
    result = pypto(command, "no_such_kernel.py", option, tmp_path / "missing" / "out.svg")
    assert result.exit_code == 2
    assert f"there is no directory '{tmp_path / 'missing'}': make it, or name another file" in plain(result)


def test_a_baseline_that_is_none_is_named_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text("{}")
    result = pypto("bench", "no_such_kernel.py", "--baseline", file)
    assert result.exit_code == 2
    assert f"--baseline {file}: this is no benchmark" in plain(result)
    assert "pypto bench --save writes one" in plain(result)


def test_two_kernels_are_measured_in_turn() -> None:
    found = answer("bench", f"{KERNELS}:double", f"{KERNELS}:picked", "--rounds", 25)
    ours, theirs = ([one["inv"] for one in found[name]["invocations"]] for name in ("stats", "other"))
    assert len(ours) == len(theirs) == found["stats"]["rounds"] == found["other"]["rounds"] == 25
    assert ours[0] < theirs[0] < ours[-1] < theirs[-1]
    assert {one["times"] for one in found["stats"]["advice"]} <= {25}
