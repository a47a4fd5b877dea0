"""`debug/run.py` of a compiled directory: a script that runs what is in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TEXT: Final = '''"""Runs the program of this directory: python run.py [--platform NAME] [--validate]. See --help."""

import runpy
import sys
from pathlib import Path

sys.argv[1:1] = ["--work-dir", str(Path(__file__).resolve().parents[1])]
runpy.run_module("pypto.runtime.debug.replay", run_name="__main__")
'''


def write_run_script(work_dir: str | os.PathLike[str]) -> Path:
    """Writes the script and returns its path."""
    path = Path(work_dir) / "debug" / "run.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_TEXT)
    return path
