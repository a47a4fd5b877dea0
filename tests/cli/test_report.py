"""`bench --report`: what is in the page. `test_report_in_a_browser.py` looks at it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_pages import KERNELS, embedded, made

from pypto.cli.report.recording import timeline
from pypto.runtime import BenchmarkStats


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("report")
    words = [f"{KERNELS}:scale", "--dim", "M=64", "--arg", "factor=2", "--resident", "x", "--rounds", "20"]
    return made(directory / "out.html", *words, "--save", directory / "kept.json").read_text()


@pytest.fixture(scope="module")
def data(page: str) -> Any:
    return embedded(page)


def test_the_page_needs_no_network(page: str) -> None:
    assert re.findall(r"""(?:src|href)=["']([^"']*)""", page) == ["data:,"]
    without_names = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|WebSocket", without_names)
    assert "default-src 'none'" in page


def test_nothing_is_left_of_the_template(page: str) -> None:
    assert not re.search(r"\{\{\w+\}\}", page)
    assert "<title>scale: pypto bench</title>" in page


def test_the_numbers_are_those_of_the_results(page: str, data: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    kept = tmp_path / "kept.json"
    made(path, f"{KERNELS}:double", "--rounds", 10, "--save", kept)
    saved = json.loads(kept.read_text())
    (result,) = embedded(path.read_text())["results"]
    assert result["stats"] == {key: saved[key] for key in saved if key not in ("invocations", "cold")}
    stats = BenchmarkStats.from_dict(saved)
    assert result["verdict"] == str(stats.verdict())
    assert result["cold"]["host_wall_us"] == stats.cold.host_wall_us
    rows = {row["name"]: row for row in result["tree"]}
    assert rows["chip.run"]["median_us"] == stats.host_wall_us_median
    assert rows["device_wall"]["max_us"] == stats.device_wall_us_max
    assert [row["level"] for row in result["tree"][:3]] == [0, 1, 2]


def test_of_several_tasks_the_tree_says_that_it_has_the_first(data: Any) -> None:
    names = [row["name"] for row in data["results"][0]["tree"]]
    assert "task, the first of 4" in names, "a task for 16 rows"
    assert {"sched", "orch"} < set(names)


def test_the_parts_of_a_launch_begin_with_the_device_s(data: Any) -> None:
    (result,) = data["results"]
    assert result["split"][0] == {
        "part": "the device's work",
        "us": result["stats"]["summary"]["device_wall_us"]["median"],
    }
    assert {part["part"]: part["us"] for part in result["split"][1:]} == result["stats"]["summary"]["verdict"][
        "host_costs"
    ]


def test_the_recording_goes_from_the_first_allocation_to_the_last_free(data: Any) -> None:
    recording = data["results"][0]["recording"]
    assert len(recording["launches"]) == 4
    assert [name for name in recording["counters"] if name.startswith("live_bytes of worker")]
    (values,) = recording["counters"].values()
    assert [value for _, value in values] == [0, 64 * 64 * 4, 0]
    first, last = recording["launches"][0], recording["launches"][-1]
    assert values[0][0] < values[1][0] < first[0] < sum(last) < values[2][0], "on one clock"
    assert recording["memory"]["live"] == 64 * 64 * 4
    assert recording["arguments"][0] == {"name": "x", "direction": "In", "what": "64x64 float32", "where": "resident"}
    assert [one["where"] for one in recording["arguments"]] == ["resident", "", "on the host"]
    assert {track["group"] for track in recording["tracks"]} == {"host", "device"}
    kernels = [
        slice[1] for track in recording["tracks"] if track["name"].startswith("core") for slice in track["slices"]
    ]
    assert len(kernels) == 4 * (64 // 16), "each launch runs a task for 16 rows"


def test_the_profile_is_that_of_the_kernel_with_its_notes(data: Any) -> None:
    profile = data["results"][0]["profile"]
    assert (profile["program"], profile["cores"]) == ("scale", 1)
    (step,) = profile["steps"]
    assert (step["runs"], step["flops"], step["device_bytes"]) == (64 // 16, 64 * 64, 2 * 4 * 64 * 64)
    assert step["us"] == pytest.approx(sum(one["us"] for one in step["operations"]))
    assert step["of_flop_peak"] == pytest.approx(step["gflop_per_s"] * 1e9 / profile["peaks"]["fp32"])
    assert profile["notes"][0].startswith("Measured: each step, by the clock.")


def test_machine_and_versions_are_there(data: Any) -> None:
    assert {"pypto", "torch", "processor", "load", "memory"} <= data["machine"].keys()
    assert "not of an Ascend chip" in data["note"]


def test_two_kernels_have_two_recordings_and_a_comparison(tmp_path: Path) -> None:
    path = made(tmp_path / "two.html", f"{KERNELS}:double", f"{KERNELS}:double", "--rounds", 10)
    found = embedded(path.read_text())
    assert [result["name"] for result in found["results"]] == ["double (first)", "double (second)"]
    assert all(result["recording"]["launches"] for result in found["results"])
    ratio = found["comparison"]["host"]
    medians = [result["stats"]["summary"]["host_wall_us"]["median"] for result in found["results"]]
    assert ratio["value"] == medians[0] / medians[1]
    assert ratio["low"] <= ratio["value"] <= ratio["high"]
    assert ratio["word"] in ("faster", "slower", "same")


def test_a_baseline_is_compared_and_has_no_recording(tmp_path: Path) -> None:
    kept = tmp_path / "old.json"
    kept.write_text(BenchmarkStats([1e6] * 10, [2e6] * 10, rounds=10).to_json())
    path = made(tmp_path / "one.html", f"{KERNELS}:double", "--rounds", 10, "--baseline", kept)
    found = embedded(path.read_text())
    assert [result["name"] for result in found["results"]] == ["double", str(kept)]
    assert found["results"][1]["recording"] is None
    assert found["results"][1]["profile"] is None
    assert found["comparison"]["host"]["word"] == "faster"


def test_a_name_cannot_end_the_script(tmp_path: Path) -> None:
    kept = tmp_path / "<b>{{script}}.json"
    kept.write_text(BenchmarkStats([1e6] * 10, [2e6] * 10, rounds=10).to_json())
    text = made(tmp_path / "one.html", f"{KERNELS}:double", "--rounds", 3, "--baseline", kept).read_text()
    assert embedded(text)["results"][1]["name"] == str(kept)
    assert "<b>" not in text


def event(begin: float, length: float, name: str = "chip.run", tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": begin, "dur": length}


NAMES = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "host"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main thread"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "nothing happens here"}},
]


def test_slices_stand_below_those_around_them() -> None:
    found = timeline(
        [*NAMES, event(110, 5, "a"), event(100, 50), event(115, 5, "b"), event(116, 2, "c"), event(150, 9)]
    )
    (track,) = found["tracks"]
    assert [(level, name, begin) for level, name, begin, *_ in track["slices"]] == [
        (0, "chip.run", 0),
        (1, "a", 10),
        (1, "b", 15),
        (2, "c", 16),
        (0, "chip.run", 50),
    ]
    assert found["launches"] == [(0, 50), (50, 9)]
    assert (found["left_out"], found["shown_from"]) == (0, 0)


def test_of_very_many_slices_the_last_are_kept() -> None:
    found = timeline([*NAMES, *(event(begin, 1) for begin in range(20_010))])
    assert found["left_out"] == 10
    assert len(found["tracks"][0]["slices"]) == 20_000
    assert len(found["launches"]) == 20_010, "their numbers stay"
    assert found["shown_from"] == 10


def test_a_recording_without_events_is_empty() -> None:
    assert timeline([]) == {"tracks": [], "launches": [], "counters": {}, "left_out": 0, "shown_from": 0.0}
