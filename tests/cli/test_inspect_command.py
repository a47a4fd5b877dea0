"""`pypto inspect`: on-chip memory and task graphs. The IR by pass is tested with the other commands."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from test_cli import KERNELS, answer, plain, pypto

import pypto.language as pl
from pypto.cli.graph import drawing
from pypto.runtime import ChipWorker, RunConfig, task_graph
from pypto.runtime.profiling import Task

SVG = "{http://www.w3.org/2000/svg}"


@pl.jit
def stages(x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]):
    left = pl.create_tensor([32, 64], dtype=pl.FP32)
    right = pl.create_tensor([32, 64], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="first"):
        left[:] = pl.mul(x, 2.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="second"):
        right[:] = pl.mul(x, 3.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="third"):
        out[:] = pl.add(left, right)
    return out


def test_the_memory_map_says_what_lies_in_each_buffer_at_once() -> None:
    (one,) = answer("inspect", f"{KERNELS}:double")["memory"]
    assert (one["buffer"], one["used"], one["capacity"]) == ("Vec", 32 * 64 * 4, 192 * 1024)
    assert Path(one["file"]) == KERNELS
    assert KERNELS.read_text().splitlines()[one["line"] - 1].strip() == "out[:] = pl.mul(x, 2.0)"
    assert [(tile["type"], tile["nbytes"]) for tile in one["tiles"]] == [("pl.Tile[[32, 64], pl.FP32]", 32 * 64 * 4)]
    shown = pypto("inspect", f"{KERNELS}:double", "--memory")
    assert shown.exit_code == 0
    assert "double: on-chip buffers" in shown.stdout
    assert "192 4%" in plain(shown)
    assert "def double" not in shown.stdout


def test_what_is_more_than_a_chip_has_is_in_the_map(tmp_path: Path) -> None:
    words = [word for name in ("a", "b", "out") for word in ("--arg", f"{name}=256x256:fp32")]
    (one,) = answer("inspect", f"{KERNELS}:add", *words)["memory"]
    assert one["used"] == 2 * 256 * 256 * 4 > one["capacity"]
    assert len(one["tiles"]) == 2


def test_a_task_waits_for_those_whose_memory_it_reads() -> None:
    x, out = torch.ones(32, 64), torch.zeros(32, 64)
    first, second, last = task_graph(stages.compile(x, out), x, out)
    assert [task.kernel for task in (first, second, last)] == ["first", "second", "third"]
    assert [task.waits for task in (first, second, last)] == [(), (), (0, 1)]
    assert {task.file for task in (first, last)} == {__file__}
    assert first.line < last.line
    assert torch.equal(out, torch.zeros(32, 64)), "arguments stay as they are"


@pytest.mark.parametrize("other", [("--memory",), ("--pass", "outline")])
def test_a_task_graph_comes_alone(other: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "tasks.svg"
    shown = pypto("inspect", f"{KERNELS}:double", "--graph", path, *other)
    assert shown.exit_code == 2
    assert "--graph draws the tasks and shows nothing else" in plain(shown)
    assert not path.exists()


def test_a_task_graph_needs_host_tensors() -> None:
    x, out = torch.ones(32, 64), torch.zeros(32, 64)
    with ChipWorker(RunConfig(cores=1)) as worker:
        resident = worker.from_host(x)
        with pytest.raises(ValueError, match=r"task_graph\(\) keeps all tensors on a device of its own"):
            task_graph(stages.compile(x, out), resident, out)
        worker.free_tensor(resident)


def test_the_graph_is_an_svg_with_a_box_for_each_task_and_an_arrow_for_each_wait(tmp_path: Path) -> None:
    path = tmp_path / "tasks.svg"
    found = answer("inspect", f"{KERNELS}:scale", "--dim", "M=48", "--arg", "factor=2", "--graph", path)
    # All three are given all of `out`, so each waits for the one before it.
    assert [task["waits"] for task in found["tasks"]] == [[], [0], [1]]
    root = ElementTree.fromstring(path.read_text())
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    line = found["tasks"][0]["line"]
    assert titles[1] == f"task 1: {found['tasks'][1]['kernel']}, {KERNELS}:{line}; waits for 0"
    shown = pypto("inspect", f"{KERNELS}:double", "--graph", path)
    assert f"1 task of double in {path}; open it with a browser" in shown.stdout.replace("\n", "")
    refused = pypto("inspect", f"{KERNELS}:double", "--graph", tmp_path / "tasks.png")
    assert refused.exit_code == 2
    assert "--graph writes .svg; the ending of" in plain(refused)


def box_places(text: str) -> list[tuple[int, int]]:
    return [(int(x), int(y)) for x, y in re.findall(r'</title><rect x="(\d+)" y="(\d+)"', text)]


def test_each_task_stands_below_what_it_waits_for() -> None:
    waits = [(), (), (0, 1), (2,), (0,), (3, 4)]
    text = drawing("k", [Task("a<b", "k.py", 3, 1 + number, waits=one) for number, one in enumerate(waits)])
    places = box_places(text)
    for number, one in enumerate(waits):
        assert all(places[other][1] < places[number][1] for other in one)
    assert len(set(places)) == len(places), "no two tasks lie on each other"
    assert text.count('marker-end="url(#tip)"') == sum(map(len, waits))
    ElementTree.fromstring(text)
    assert "task 5: a&lt;b, k.py:3, 6 blocks; waits for 3, 4" in text


def test_a_wide_layer_goes_on_below_and_very_many_tasks_are_counted() -> None:
    places = box_places(drawing("k", [Task("k", "k.py", 1, 1, ()) for _ in range(40)]))
    assert len({y for _, y in places}) == 3
    assert len(set(places)) == 40
    text = drawing("k", [Task("k", "k.py", 1, 1, ()) for _ in range(1000)])
    assert "1,000 tasks, each below those that it waits for, 400 more are not shown" in text
    assert len(box_places(text)) == 600
