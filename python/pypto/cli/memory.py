"""`pypto memory`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from pypto.cli.session import Request, session
from pypto.runtime import MemoryReport


@dataclass(frozen=True)
class Needs:
    """Bytes of device memory that the launches of one kernel take.

    Attributes:
        resident: Its arguments that stay on the device.
        staging: Copies of its host arguments, with room for larger ones.
        scratch: What it works in.
        packed: Packed forms of resident weights; the second launch makes them.
    """

    resident: int
    staging: int
    scratch: int
    packed: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.resident + self.staging + self.scratch + self.packed


@dataclass(frozen=True)
class Memory:
    """Device memory after a launch.

    Attributes:
        kernel: What was launched.
        needs: What it needs itself.
        report: The whole device.
        words: The report as text, from when the worker was open: later it would say that the worker is closed.
        snapshot: Where its past was written, if it was.
    """

    kernel: str
    needs: Needs
    report: MemoryReport
    words: str
    snapshot: Path | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        report = self.report.as_dict()
        report["live_buffers"] = [buffer.description for buffer in self.report.live_buffers]
        report["tags"] = {tag: {"live": live, "peak": peak} for tag, (live, peak) in self.report.tags.items()}
        return {
            "kernel": self.kernel,
            "needs": {**asdict(self.needs), "total": self.needs.total},
            "report": report,
            "snapshot": str(self.snapshot) if self.snapshot is not None else None,
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The report, and a table of what the kernel needs."""
        yield Text(self.words, no_wrap=True, overflow="ignore")
        table = Table(title=f"what {self.kernel} needs", title_justify="left", show_footer=True)
        table.add_column("", footer="together")
        table.add_column("bytes", footer=f"{self.needs.total:,}", justify="right")
        for what, nbytes in (
            ("arguments that stay on the device", self.needs.resident),
            ("copies of host arguments", self.needs.staging),
            ("memory to work in", self.needs.scratch),
            ("packed forms of weights", self.needs.packed),
        ):
            table.add_row(what, f"{nbytes:,}")
        yield table
        if self.snapshot is not None:
            opens = (
                "https://pytorch.org/memory_viz"
                if self.snapshot.suffix in (".pickle", ".pkl")
                else "https://ui.perfetto.dev"
            )
            yield f"The past of the memory is in {self.snapshot}; open it with {opens}"


def measure_memory(request: Request, launches: int, snapshot: Path | None) -> Memory:
    """Launches a kernel and looks at the memory while its arguments are there."""
    with session(request) as opened:
        handle = opened.worker.register(opened.compiled)
        for _ in range(launches):
            handle(*opened.arguments)
        report = opened.worker.memory_report()
        words = str(report)
        if snapshot is not None:
            opened.worker.memory_snapshot(snapshot)
    needs = Needs(report.live, report.staging, report.scratch, report.packed)
    return Memory(opened.kernel.name, needs, report, words, snapshot)
