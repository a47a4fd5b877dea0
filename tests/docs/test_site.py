"""What the build of the site does beside the ordinary. Runs where `make docs` has installed the extra `docs`."""

import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

pytest.importorskip("mkdocs", reason="the extra 'docs' is not installed")

CONFIG = f"""
site_name: a site
theme: {{name: mkdocs, highlightjs: false}}
use_directory_urls: false
plugins: []
hooks: [{ROOT / "tools" / "docs_hook.py"}]
"""


def build(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "mkdocs.yml").write_text(CONFIG)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(text)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_a_link_to_a_file_of_the_repository_leads_to_a_copy(tmp_path: Path) -> None:
    done = build(tmp_path, "[softmax](../examples/kernels/softmax.py) [benches](../benches/README.md)")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "index.html").read_text()
    copies = {"source/examples/kernels/softmax.py": "examples/kernels/softmax.py"}
    copies["source/benches/README.txt"] = "benches/README.md"
    for copy, original in copies.items():
        assert f'href="{copy}"' in page
        assert (tmp_path / "site" / copy).read_text() == (ROOT / original).read_text()


def test_a_link_to_a_file_that_does_not_exist_ends_the_build(tmp_path: Path) -> None:
    done = build(tmp_path, "[nothing](../examples/kernels/nothing.py)")
    assert done.returncode != 0
    assert "nothing.py" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        '<img src="https://example.org/x.png">',
        '<script src="//example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
    ],
)
def test_a_page_that_loads_something_from_the_network_ends_the_build(text: str, tmp_path: Path) -> None:
    done = build(tmp_path, text)
    assert done.returncode != 0
    assert "index.md loads something from the network" in done.stderr


def test_a_link_that_a_reader_may_follow_is_none_of_these(tmp_path: Path) -> None:
    assert build(tmp_path, "[elsewhere](https://example.org)").returncode == 0
