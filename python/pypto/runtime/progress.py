"""A progress bar for what takes more than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress
    from typing_extensions import Self

_PATIENCE = 1.0
"""Seconds without a bar: what is over by then needs none, and would only flicker."""


class Progress:
    """Shows a bar on stderr once the work has taken a second; never where stderr is no terminal.

    Nothing is imported and nothing printed before, so that quick work costs two clock readings.

    Args:
        what: What is being done, shown before the bar.
        total: Steps; grows with `extend`.
    """

    def __init__(self, what: str, total: int = 0) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._begin = time.monotonic()
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def extend(self, steps: int) -> None:
        """There are `steps` more to do."""
        self._total += steps
        self._update()

    def advance(self, steps: int = 1) -> None:
        """`steps` are done."""
        self._done += steps
        self._update()

    def _update(self) -> None:
        if not self._shown or (self._bar is None and time.monotonic() - self._begin < _PATIENCE):
            return
        if self._bar is None:
            self._open()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=self._done, total=self._total)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._what, total=self._total)
        self._bar.start()

    def __enter__(self) -> Self:
        """The bar appears when it is due."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()
