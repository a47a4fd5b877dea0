"""Tables of pages list what there is, and show the figures that were measured; links of the README lead somewhere."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

from pypto.cli import app

DOCS = ROOT / "docs"


def rows(text: str) -> list[str]:
    """What the first column of tables has between backticks."""
    return re.findall(r"^\| `([\w-]+)", text, re.M)


def test_the_page_on_the_command_line_lists_the_commands() -> None:
    shown = rows((DOCS / "command_line.md").read_text().split("## Which")[0])
    assert shown == [command.callback.__name__ for command in app.registered_commands if command.callback]


def test_the_page_on_testing_lists_fixtures_and_options(tmp_path: Path) -> None:
    def said(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout

    fixtures = re.findall(r"^(pypto_\w+)", said("--fixtures", "-q"), re.M)
    options = re.findall(r"^ +(--pypto-[\w-]+)", said("--help"), re.M)
    shown = rows((DOCS / "testing.md").read_text())
    assert (set(fixtures), set(options)) == (
        {name for name in shown if not name.startswith("--")},
        {name for name in shown if name.startswith("--")},
    )


def test_the_table_of_command_line_tools_lists_the_modules_that_say_what_to_use_instead() -> None:
    part = (DOCS / "run_config.md").read_text().split("## PyPTO's command-line tools")[1].split("\n## ")[0]
    shown = set(re.findall(r"^\| `pypto\.tools\.(\w+)`", part, re.M))
    assert shown == {path.stem for path in (ROOT / "python" / "pypto" / "tools").glob("[a-z]*.py")}


def test_the_tables_of_launch_styles_show_the_figures_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benches" / "python"))
    styles = importlib.import_module("styles")
    measured = json.loads(styles.FIGURES.read_text())
    assert {row["count"] for row in measured["launches"]} == set(styles.COUNTS)
    for page in styles.PAGES:
        assert styles.table(measured) in page.read_text(), f"{page}: run benches/python/styles.py --render"


@pytest.mark.parametrize("page", ["README.md", "docs/tuning.md"])
def test_figures_that_a_page_quotes_are_those_of_the_page_on_performance(page: str) -> None:
    begin, end = "<!-- measured: written by tools/performance.py -->", "<!-- measured: end -->"
    figures = (DOCS / "performance.md").read_text().splitlines()
    quoted = (ROOT / page).read_text().split(begin)[1].split(end)[0].strip().splitlines()
    assert quoted[0] in figures  # when, where, with what
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in quoted if line.startswith("|")][2:]
    assert rows
    for row in rows:
        for cell in row[1:]:
            assert not cell or any(f"| {cell} |" in line for line in figures if line.startswith(f"| {row[0]} |")), row


def test_the_page_on_benches_names_every_bench_and_every_question() -> None:
    page = (ROOT / "benches" / "README.md").read_text()
    core = re.findall(r'\[\[bench\]\]\nname = "(\w+)"', (ROOT / "Cargo.toml").read_text())
    assert core
    for name in core:
        assert f"\n| `{name}` |" in page, name
    folder = ROOT / "benches" / "python"
    questions = re.findall(r'"(\w+)"', (folder / "settings.py").read_text().split("QUESTIONS = (")[1].split(")")[0])
    assert questions
    script = (folder / "run.py").read_text()
    for question in questions:
        assert f"[{question}]" in page, question
    for option in set(re.findall(r'"(--\w+)"', script)):
        assert option in page, option


@pytest.mark.parametrize("page", ["README.md", "benches/README.md"])
def test_every_file_that_a_page_outside_of_docs_links_to_exists(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())
    assert links
    for link in links:
        assert (path.parent / link).exists(), link
