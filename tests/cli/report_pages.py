"""Makes reports by the command, and reads what they embed."""

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from pypto.cli import app

KERNELS = Path(__file__).parent / "kernels.py"


def made(path: Path, *words: object) -> Path:
    result = CliRunner().invoke(app, ["bench", *map(str, words), "--report", str(path)])
    assert result.exit_code == 0, result.output
    return path


def embedded(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)
