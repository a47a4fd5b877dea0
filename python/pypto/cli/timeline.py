"""`pypto trace`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto.cli.session import Request, session
from pypto.cli.usage import check_ending
from pypto.runtime.trace_file import FORMATS, trace


@dataclass(frozen=True)
class Written:
    """A timeline on disk."""

    kernel: str
    path: Path
    launches: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"kernel": self.kernel, "path": str(self.path), "launches": self.launches}

    def __str__(self) -> str:
        """What was written, and what opens it."""
        opens = "any editor" if self.path.suffix in (".strace", ".txt", ".log") else "https://ui.perfetto.dev"
        launches = "1 launch" if self.launches == 1 else f"{self.launches:,} launches"
        return f"{launches} of {self.kernel} in {self.path}; open it with {opens}"


def write_timeline(request: Request, path: Path, launches: int) -> Written:
    """Launches a kernel while a timeline is recorded, after one launch that is not in it.

    Raises:
        UsageError: The ending of the file's name chooses no format.
    """
    check_ending("--output", path, FORMATS)
    with session(request) as opened:
        handle = opened.worker.register(opened.compiled)
        handle(*opened.arguments)
        with trace(path):
            for _ in range(launches):
                handle(*opened.arguments)
    return Written(opened.kernel.name, path, launches)
