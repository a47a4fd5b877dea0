"""Where commands put things, and what they leave behind in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def build_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Compiled programs land here, and imports of kernel files leave no trace."""
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path / "build"))
    monkeypatch.setenv("COLUMNS", "160")
    path = list(sys.path)
    yield tmp_path / "build"
    sys.path[:] = path
    sys.modules.pop("kernels", None)
