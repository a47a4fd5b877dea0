"""The page on ways to launch: its code runs, and the tables of what they cost are those that were measured."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "launching.md").read_text()


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)))
    done = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_tables_show_the_figures_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benches" / "python"))
    styles = importlib.import_module("styles")
    measured = json.loads(styles.FIGURES.read_text())
    counts = {(row["count"], row["resident"]) for row in measured["launches"]}
    assert {count for count, _ in counts} == set(styles.COUNTS)
    for page in styles.PAGES:
        assert styles.table(measured) in page.read_text(), f"{page}: run benches/python/styles.py --render"
