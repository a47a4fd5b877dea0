"""How long the steps of a compilation took: `report/pipeline_profile.txt` and `.json`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pypto.ir import artifacts


class Profile:
    """Times steps, each once."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures what happens inside."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = time.perf_counter() - begin

    def write(self, report: Path) -> None:
        """Writes both files into the directory `report`: steps in their order, milliseconds, and their sum."""
        steps = [{"name": name, "ms": seconds * 1e3} for name, seconds in self._seconds.items()]
        total = sum(self._seconds.values()) * 1e3
        artifacts.write_json(report / "pipeline_profile.json", {"steps": steps, "total_ms": total})
        width = max(len(name) for name in [*self._seconds, "total"])
        lines = [f"{name:<{width}}  {seconds * 1e3:10.3f} ms" for name, seconds in self._seconds.items()]
        (report / "pipeline_profile.txt").write_text("\n".join([*lines, f"{'total':<{width}}  {total:10.3f} ms", ""]))
