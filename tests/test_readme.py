"""What the README says, run: its Python blocks and its links. The output that it shows: `test_main_job.py`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

# What a block's reader already has by then: the main job's kernel and data.
PRELUDE = """
import torch
from resident_weight import MyKernel, K, N
from pypto import ir
host_weight = torch.randn(K, N).to(torch.float16)
batches = [torch.randn(rows, K).to(torch.float16) for rows in (1, 16)]
"""
MEASURED = (
    PRELUDE
    + """
compiled = ir.compile(MyKernel, platform="a2a3sim")
batch, weight, out = batches[0], host_weight, torch.empty(1, N, dtype=torch.float16)
from pypto.runtime import ChipWorker
w = ChipWorker()
handle = w.register(compiled)
"""
)
BLOCKS = {
    "Write a kernel": ("", "assert torch.equal(c, a + b)"),
    "Keep data resident": (PRELUDE, "torch.testing.assert_close(out, batch @ host_weight, rtol=2**-9, atol=0.05)"),
    "Measure": (MEASURED, "w.close()\nassert stats.host_wall_us_median >= stats.device_wall_us_median > 0"),
}


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("title", BLOCKS)
def test_the_code_of_the_section_runs(title: str, tmp_path: Path) -> None:
    before, after = BLOCKS[title]
    code = "\n".join(re.findall(r"```python\n(.*?)```", section(title), flags=re.DOTALL))
    path = tmp_path / "block.py"
    path.write_text(f"{before}\n{code}\n{after}\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "examples" / "runtime")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_file_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


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
