"""The Python benches run: a few rounds of the questions that need no peer, and the page that is made of the results."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_quick_run_writes_one_table_as_text_and_json_and_says_which_peers_are_missing(tmp_path: Path) -> None:
    run = [sys.executable, str(ROOT / "benches" / "python" / "run.py"), "--quick", "--out", str(tmp_path)]
    done = subprocess.run([*run, "tasks", "launch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "results.json").read_text())
    missing = [name for name, version in written["versions"].items() if version.startswith("skipped")]
    assert all(f"{name} skipped: not installed" in done.stdout for name in missing)
    tiny = "1,000 tiny dependent tasks, above the arithmetic"
    rows = {(row["name"], row["threads"]): row for row in written["results"]}
    threads = {1, len(os.sched_getaffinity(0))}
    assert {(tiny, count) for count in threads} | {("launch, three resident tensors", 1)} <= rows.keys()
    assert rows[tiny, 1]["figures"].keys() == {"pypto", "arithmetic"}
    text = (tmp_path / "results.txt").read_text()
    assert text in done.stdout
    assert tiny in text


def test_the_page_takes_figures_between_its_marks_and_says_by_how_much_a_target_is_missed() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import performance
    finally:
        sys.path.pop(0)
    row = {"name": "softmax, 4096x1024", "measured": 0.5, "target": 0.4, "unit": "of torch", "met": False, "threads": 1}
    row |= {"at_least": False, "note": "", "figures": {"pypto": 1.0, "torch": 2.0}}
    aimless = row | {"name": "softmax on 2 threads", "threads": 2, "target": None, "met": None}
    unknown = row | {"name": "add, 128x128", "measured": None, "met": None, "note": "no peer of this row is installed"}
    run = {
        "date": "2026-01-01",
        "machine": "2 CPUs",
        "load": 0.1,
        "versions": {"torch": "2"},
        "results": [row, unknown, aimless],
    }
    page = f"before\n{performance.BEGIN}\nold\n{performance.END}\nafter"
    made = performance.replaced(page, performance.full(run))
    assert made.startswith("before\n")
    assert made.endswith("\nafter")
    assert "old" not in made
    assert "1 of 2 targets are missed." in made
    assert "| softmax, 4096x1024 | 1 | 0.5 of torch | ≤ 0.4 | **missed** by 25% |" in made
    near = {"results": [row | {"measured": 0.401}]}
    assert "**missed** by less than 1% |" in performance.full(run | near)
    assert "| softmax on 2 threads | 2 | 0.5 of torch |" in made.split("Shown for itself:")[1]
    assert "| add, 128x128 | 1 | skipped |  | no peer of this row is installed |" in made
    assert "| softmax, 4096x1024 | 0.5 of torch | ≤ 0.4 | **missed** by 25% |" in performance.short(run)
    product = row | {"name": "matmul 1024^3, FP32", "figures": {"pypto": 2.0, "torch": 4.0}}
    assert "| matmul 1024^3, FP32 | 1 | 0.5 of torch | pypto 2, torch 4 |" in performance.spoken_of(
        run | {"results": [row, product]}
    )
