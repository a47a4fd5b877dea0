"""The command `pypto`, as its users type it."""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import pypto.language as pl
from pypto.cli import app
from pypto.runtime import BenchmarkStats

KERNELS = Path(__file__).parent / "kernels.py"


def pypto(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def answer(*words: object) -> dict[str, Any]:
    """What a command prints as JSON; it must succeed."""
    result = pypto(*words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def plain(result: Result) -> str:
    """Output without the frames that break its lines."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", result.output)


def test_a_kernel_runs_with_arguments_from_its_annotations() -> None:
    found = answer("run", f"{KERNELS}:double")
    (output,) = found["outputs"]
    assert (output["name"], output["shape"], output["dtype"], output["not_finite"]) == ("out", [32, 64], "float32", 0)
    assert output["minimum"] < 0 < output["maximum"]
    assert 0 < found["device_wall_us"] <= found["host_wall_us"]
    assert answer("run", f"{KERNELS}:double")["outputs"] == found["outputs"], "the same seed, the same numbers"
    assert answer("run", f"{KERNELS}:double", "--seed", 1)["outputs"] != found["outputs"]


def test_an_output_without_a_number_has_no_smallest_one() -> None:
    (output,) = answer("run", f"{KERNELS}:undefined")["outputs"]
    assert [output[name] for name in ("minimum", "maximum", "mean", "not_finite")] == [None, None, None, 16 * 32]
    assert "float32 - - - 512" in re.sub(r"[\s│]+", " ", pypto("run", f"{KERNELS}:undefined").output)


def test_a_resident_argument_changes_no_number() -> None:
    host = answer("run", f"{KERNELS}:double")
    assert answer("run", f"{KERNELS}:double", "--resident", "x,out")["outputs"] == host["outputs"]


def test_dimensions_and_scalars_come_from_the_command_line() -> None:
    base = answer("run", f"{KERNELS}:scale", "--dim", "M=48", "--arg", "factor=1")["outputs"][0]
    twice = answer("run", f"{KERNELS}:scale", "--dim", "M=48", "--arg", "factor=2.0")["outputs"][0]
    assert twice["shape"] == [48, 64]
    assert twice["maximum"] == 2 * base["maximum"]


def test_open_annotations_take_shapes_from_the_command_line() -> None:
    words = [word for name in ("a", "b", "out") for word in ("--arg", f"{name}=16x128:fp16")]
    (output,) = answer("run", f"{KERNELS}:add", *words)["outputs"]
    assert (output["shape"], output["dtype"]) == ([16, 128], "float16")


def test_arguments_come_from_a_function_of_the_file() -> None:
    (output,) = answer("run", f"{KERNELS}:listed")["outputs"]
    assert (output["minimum"], output["maximum"]) == (4.0, 4.0)


def test_a_program_class_runs_too() -> None:
    assert answer("run", f"{KERNELS}:Negate")["outputs"][0]["shape"] == [16, 32]


def test_without_json_a_person_can_read_it() -> None:
    text = pypto("run", f"{KERNELS}:double").output
    assert "32x64" in text
    assert re.search(r"double: host [\d,.]+ us, device [\d,.]+ us", text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.py"], "there is no file 'missing.py'"),
        ([KERNELS], "has several kernels: say which"),
        (
            [f"{KERNELS}:nothing"],
            "has no kernel 'nothing'; it has double, scale, add, listed, undefined, half, wrong, picked, Negate",
        ),
        ([f"{KERNELS}:scale", "--arg", "factor=1"], "dimension M of 'x' is dynamic: say --dim M=16"),
        ([f"{KERNELS}:scale", "--dim", "M=16"], "takes a scalar 'factor': say --arg factor=VALUE"),
        ([f"{KERNELS}:scale", "--dim", "M=0"], "--dim M takes a positive number, got '0'"),
        ([f"{KERNELS}:double", "--dim", "K=3"], "double has no dynamic dimension K"),
        ([f"{KERNELS}:add"], "the annotation of 'a' leaves its shape open: say --arg a=16x1024:fp32"),
        ([f"{KERNELS}:add", "--arg", "a=16"], "leaves its dtype open: say --arg a=16:fp32"),
        ([f"{KERNELS}:add", "--arg", "a=16x0:fp32"], "an extent is 0"),
        ([f"{KERNELS}:add", "--arg", "a=16x4:fp31"], "there is no dtype 'fp31'"),
        ([f"{KERNELS}:add", "--arg", "q=3"], "add has no parameter 'q'; it has a, b, out"),
        ([f"{KERNELS}:add", "--arg", "a"], "--arg takes NAME=VALUE, got 'a'"),
        ([f"{KERNELS}:double", "--resident", "w"], "--resident w: double has no such tensor; it has x, out"),
    ],
)
def test_a_wrong_command_line_is_answered_with_the_right_one(words: list[object], message: str) -> None:
    result = pypto("run", *words)
    assert result.exit_code == 2
    assert message in plain(result)


def test_a_benchmark_is_kept_and_compared(tmp_path: Path) -> None:
    kept = tmp_path / "old.json"
    first = answer("bench", f"{KERNELS}:double", "--rounds", 10, "--save", kept)
    assert BenchmarkStats.from_json(kept.read_text()).rounds == 10
    assert first["stats"]["summary"]["host_wall_us"]["count"] == 10
    second = answer("bench", f"{KERNELS}:double", "--rounds", 10, "--baseline", kept)
    assert second["against"] == str(kept)
    ratio = second["comparison"]["host"]
    assert 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
    text = pypto("bench", f"{KERNELS}:double", "--rounds", 10, "--baseline", kept).output
    assert f"double against {kept}:" in text.replace("\n", "")
    assert "of the baseline" in text


def test_two_kernels_are_measured_and_the_first_is_compared_with_the_second() -> None:
    words = ["--dim", "M=1024", "--arg", "factor=2.0", "--rounds", 10]
    found = answer("bench", f"{KERNELS}:scale", f"{KERNELS}:scale", *words)
    assert (found["kernel"], found["against"]) == ("scale (first)", "scale (second)")
    first, second = (BenchmarkStats.from_dict(found[key]) for key in ("stats", "other"))
    assert found["comparison"]["host"]["value"] == pytest.approx(first.host.median / second.host.median)


def test_kernels_of_one_name_are_told_apart_by_their_files(tmp_path: Path) -> None:
    copy = tmp_path / "copied.py"
    copy.write_text(KERNELS.read_text())
    words = ("bench", f"{KERNELS}:double", f"{copy}:double", "--rounds", 3)
    found = answer(*words)
    assert (found["kernel"], found["against"]) == (f"{KERNELS}:double", f"{copy}:double")
    shown = pypto(*words).output.replace("\n", "")
    assert f"{KERNELS}:double against {copy}:double:" in shown


def test_what_is_said_of_arguments_goes_to_those_of_two_kernels_that_have_them() -> None:
    words = ("bench", f"{KERNELS}:scale", f"{KERNELS}:double", "--rounds", 3, "--dim", "M=32", "--arg", "factor=2")
    found = answer(*words, "--resident", "x")
    assert (found["kernel"], found["against"]) == ("scale", "double")
    assert answer("bench", f"{KERNELS}:double", f"{KERNELS}:scale", *words[3:])["against"] == "scale"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dim", "K=3"), "scale has no dynamic dimension K; it has M"),
        (("--arg", "q=3"), "scale has no parameter 'q'; it has x, factor, out"),
        (("--resident", "w"), "--resident w: scale has no such tensor; it has x, out"),
        (("--resident", "factor"), "--resident factor: scale has no such tensor; it has x, out"),
    ],
)
def test_what_neither_of_two_kernels_has_is_refused(words: tuple[str, ...], message: str) -> None:
    given = ("--dim", "M=32", "--arg", "factor=2")
    result = pypto("bench", f"{KERNELS}:scale", f"{KERNELS}:double", *given, *words)
    assert result.exit_code == 2
    assert message in plain(result)


def test_fail_above_looks_at_the_ratio_and_its_interval(tmp_path: Path) -> None:
    kept = tmp_path / "old.json"
    for microseconds, code in ((1e-3, 3), (1e9, 0)):
        kept.write_text(BenchmarkStats([microseconds] * 10, [microseconds] * 10, rounds=10).to_json())
        result = pypto("bench", f"{KERNELS}:double", "--rounds", 10, "--baseline", kept, "--fail-above", "1.1")
        assert result.exit_code == code, result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([f"{KERNELS}:double", "--baseline", KERNELS], "a second kernel and --baseline: say one of both"),
        (["--fail-above", "1.1"], "--fail-above needs something to compare with: a second kernel, or --baseline FILE"),
        ([f"{KERNELS}:scale", "--fail-above", "-1"], "--fail-above takes a ratio above 0, as in 1.1; got -1"),
        ([f"{KERNELS}:scale", "--fail-above", "nan"], "--fail-above takes a ratio above 0, as in 1.1; got nan"),
    ],
)
def test_a_comparison_needs_one_other_side(words: list[object], message: str) -> None:
    result = pypto("bench", f"{KERNELS}:double", *words)
    assert result.exit_code == 2
    assert message in plain(result)


def test_a_timeline_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert answer("trace", f"{KERNELS}:double", "-o", path, "--rounds", 2)["launches"] == 2
    events = json.loads(path.read_text())["traceEvents"]
    assert len([event for event in events if event["name"] == "chip.run"]) == 2
    assert "ui.perfetto.dev" in pypto("trace", f"{KERNELS}:double", "-o", path).output


@pytest.mark.parametrize(
    ("command", "option", "endings"),
    [
        ("trace", "--output", ".json, .pftrace, .perfetto-trace, .strace, .txt, .log"),
        ("profile", "--roofline", ".png, .svg"),
    ],
)
def test_a_file_of_no_known_format_is_refused_before_anything_is_measured(
    command: str, option: str, endings: str, tmp_path: Path
) -> None:
    path = tmp_path / "out.xyz"
    result = pypto(command, f"{KERNELS}:nothing", option, path)
    assert result.exit_code == 2
    assert f"{option} writes {endings}; the ending of" in plain(result)
    assert not path.exists()


def test_what_is_resident_is_in_a_timeline_from_its_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    answer("trace", f"{KERNELS}:double", "-o", path, "--resident", "x,out")
    events = json.loads(path.read_text())["traceEvents"]
    counted = [event for event in events if event["ph"] == "C" and event["args"]["value"]]
    assert [event["args"]["value"] for event in counted] == [2 * 32 * 64 * 4]
    assert counted[0]["ts"] <= min(event["ts"] for event in events if event["ph"] == "X")


def test_the_memory_of_a_kernel_is_shown_with_what_it_needs() -> None:
    nbytes = 32 * 64 * 4
    found = answer("memory", f"{KERNELS}:double", "--resident", "x")
    needs, report = found["needs"], found["report"]
    assert needs["resident"] == nbytes, "x stays"
    assert nbytes <= needs["staging"] < 2 * nbytes, "out is copied, with some room"
    assert needs["total"] == sum(taken for part, taken in needs.items() if part != "total")
    assert (report["live"], report["tags"]) == (nbytes, {"argument x": {"live": nbytes, "peak": nbytes}})
    (buffer,) = report["live_buffers"]
    declared = 1 + KERNELS.read_text().splitlines().index("@pl.jit") + 1
    assert re.fullmatch(rf"FP32 \(32, 64\) at 0x[0-9a-f]+ \(8 KiB\), allocated at {KERNELS}:{declared}", buffer)
    text = pypto("memory", f"{KERNELS}:double", "--resident", "x").output
    assert f"{KERNELS}:{declared}\n" in text, "a path is not broken at the width of the terminal"
    for shown in ("tag argument x", "what double needs", f"{nbytes:,}", f"{needs['total']:,}"):
        assert shown in text
    assert "closed" not in text, "it is the report of a worker at work"
    copied = answer("memory", f"{KERNELS}:double")["needs"]
    assert copied["resident"] == 0
    assert copied["staging"] >= 2 * nbytes


@pytest.mark.parametrize(("name", "opens"), [("past.json", "ui.perfetto.dev"), ("past.pickle", "memory_viz")])
def test_the_past_of_the_memory_is_written(tmp_path: Path, name: str, opens: str) -> None:
    path = tmp_path / name
    output = pypto("memory", f"{KERNELS}:double", "--resident", "x,out", "--snapshot", path).output
    assert opens in output
    data = json.loads(path.read_text()) if path.suffix == ".json" else pickle.loads(path.read_bytes())
    taken = [event for event in data["device_traces"][0] if event["action"] == "alloc"]
    frames = [frame["name"] for event in taken for frame in event["frames"]]
    assert {"[argument x]", "[argument out]"} <= set(frames)


def test_the_ir_is_shown_after_each_pass() -> None:
    passes = answer("inspect", f"{KERNELS}:double")["passes"]
    assert list(passes) == ["frontend", "outline", "phases"]
    assert all("def double(" in text for text in passes.values())
    assert list(answer("inspect", f"{KERNELS}:double", "--pass", "outline")["passes"]) == ["outline"]
    assert "there is no pass 'x'; there are frontend, outline, phases" in plain(
        pypto("inspect", f"{KERNELS}:double", "--pass", "x")
    )


def test_long_lines_of_the_ir_are_wrapped_in_a_terminal_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (text,) = answer("inspect", f"{KERNELS}:double", "--pass", "outline")["passes"].values()
    assert max(map(len, text.splitlines())) > 40
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", pypto("inspect", f"{KERNELS}:double", "--pass", "outline").output)
    assert "".join(text.split()) in "".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 40


def test_the_ir_in_a_file_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (text,) = answer("inspect", f"{KERNELS}:double", "--pass", "outline")["passes"].values()
    shown = pypto("inspect", f"{KERNELS}:double", "--pass", "outline").output
    assert shown.rstrip() == f"# double: outline\n{text}".rstrip()
    assert pl.parse_program(shown).as_python() == text


def test_the_doctor_says_what_this_machine_is_like() -> None:
    found = answer("doctor")
    assert found["self_test"] == "passed"
    assert found["facts"]["torch"] == torch.__version__
    assert found["facts"]["CPUs of this process"] == f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"


def test_the_doctor_gives_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_ISA", "generic")
    assert any(finding.startswith("PYPTO_ISA=generic holds kernels") for finding in answer("doctor")["findings"])


def test_the_cache_lists_what_was_compiled_and_clears_only_that(build_directory: Path) -> None:
    assert answer("cache")["entries"] == []
    pypto("run", f"{KERNELS}:Negate")
    (build_directory / "notes").mkdir()
    (entry,) = answer("cache")["entries"]
    assert Path(entry["path"]).parent == build_directory
    assert entry["bytes"] > 0
    assert answer("cache", "--clear")["cleared"]
    assert [path.name for path in build_directory.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--version"], 0, "pypto "),
        (["run", f"{KERNELS}:wrong"], 1, "no_such_operation"),
        (["run", "missing.py"], 2, "there is no file"),
    ],
)
def test_the_command_ends_with_a_useful_code_and_no_traceback(words: list[str], code: int, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pypto.cli", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_python_shows_the_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\ndef kernel(:\n")
    done = subprocess.run(
        [sys.executable, "-m", "pypto.cli", "run", str(tmp_path / "broken.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert f'  File "{tmp_path / "broken.py"}", line 2\n    def kernel(:\n' in done.stderr
    assert "Traceback" not in done.stderr
