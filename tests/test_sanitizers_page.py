"""The page on sanitizers: each example runs, and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "sanitizers.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("name", ["race", "uninit", "bounds"])
def test_the_example_prints_what_the_page_shows(name: str, tmp_path: Path) -> None:
    ((code, output),) = [example for example in EXAMPLES if f'sanitize="{name}"' in example[0]]
    path = tmp_path / f"{name}.py"
    path.write_text(code)
    done = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(f"{tmp_path}/", "") == output
