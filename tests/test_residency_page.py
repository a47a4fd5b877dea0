"""`docs/residency.md`: its blocks are one program, which runs; its links exist."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "residency.md"


def test_the_blocks_of_the_page_run_in_order(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'w' of 'layer' was uploaded 20 times without a change: 2.5 MiB" in done.stdout
    assert 'the memory budget of tag "kv cache" is 1048576 bytes (1 MiB)' in done.stdout
    assert {path.name for path in tmp_path.iterdir()} >= {"memory.json", "memory.pickle"}


def test_the_links_of_the_page_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)#:]+)\)", PAGE.read_text()) if "://" not in link]
    assert links
    for link in links:
        assert (PAGE.parent / link).exists(), link
