"""`pypto cache`."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from pypto.ir import artifacts


@dataclass(frozen=True)
class Entry:
    """A compiled program on disk."""

    path: Path
    nbytes: int
    written: datetime


@dataclass(frozen=True)
class Cache:
    """The directory that `ir.compile` writes to when it is not told where."""

    directory: Path
    entries: tuple[Entry, ...]
    cleared: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "directory": str(self.directory),
            "cleared": self.cleared,
            "entries": [
                {"path": str(one.path), "bytes": one.nbytes, "written": one.written.isoformat()} for one in self.entries
            ],
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table and a sum."""
        total = sum(one.nbytes for one in self.entries)
        if self.cleared:
            yield f"removed {len(self.entries)} compiled programs from {self.directory} ({total / 1024:,.0f} KiB)"
            return
        if not self.entries:
            yield f"no compiled programs in {self.directory}"
            return
        table = Table()
        table.add_column("directory")
        table.add_column("KiB", justify="right")
        table.add_column("written")
        for one in self.entries:
            table.add_row(one.path.name, f"{one.nbytes / 1024:,.1f}", one.written.strftime("%Y-%m-%d %H:%M:%S"))
        yield table
        yield f"{len(self.entries)} compiled programs in {self.directory} ({total / 1024:,.0f} KiB)"


def look(clear: bool) -> Cache:
    """Lists what is there, and removes it where that is asked for. Other things in the directory stay."""
    directory = Path(os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output")
    entries = tuple(_entry(path) for path in sorted(directory.glob("*")) if _is_compiled(path))
    if clear:
        for one in entries:
            shutil.rmtree(one.path)
    return Cache(directory.resolve(), entries, clear)


def _is_compiled(path: Path) -> bool:
    return any((path / name).is_file() for name in (artifacts.SIDECAR, artifacts.ENTRIES))


def _entry(path: Path) -> Entry:
    nbytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Entry(path, nbytes, datetime.fromtimestamp(path.stat().st_mtime))
