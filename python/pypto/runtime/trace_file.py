"""`pypto.trace`: a timeline of everything that happens while it is open, in a file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pypto import _pypto, failures

if TYPE_CHECKING:
    from typing_extensions import Self

FORMATS = {
    ".json": "chrome",
    ".pftrace": "perfetto",
    ".perfetto-trace": "perfetto",
    ".strace": "strace",
    ".txt": "strace",
    ".log": "strace",
}
"""The format for each ending of a file's name."""


class trace:
    """Records launches, tasks, copies and allocations of the whole process into a file, until it is closed.

    ```python
    with pypto.trace("run.json"):
        handle(x, weight, out)
    ```

    The file opens in Perfetto (ui.perfetto.dev) or `chrome://tracing`: a track for each host thread, for each core, for
    the copies, for the arena; arrows from a launch to its tasks; live bytes of each worker, from the first moment on,
    and launches in its queue. Tasks have their kernel's name and source line.
    Times of the host are those of `CLOCK_MONOTONIC`; the simulated device runs on the same clock.

    Args:
        path: The file; it is replaced. Its ending chooses the format: `.json` is Chrome's, `.pftrace` and
            `.perfetto-trace` Perfetto's own, which is smaller, `.strace`, `.txt` and `.log` are `[STRACE]` lines.

    Raises:
        OSError: The file cannot be written.
        ValueError: No format belongs to the ending.
        RuntimeError: This build records no spans.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        kind = FORMATS.get(self.path.suffix.lower())
        if kind is None:
            known = ", ".join(FORMATS)
            raise failures.TRACE_FORMAT(f"no trace format belongs to the ending of '{self.path}'; use one of {known}")
        if not _pypto.trace_available():
            raise failures.NO_SPANS("pypto.trace() needs spans, and this build was made with the feature trace-off")
        # For its error: this one has the path in it.
        self.path.open("wb").close()
        self._file = _pypto.TraceFile(self.path, kind)

    def close(self) -> None:
        """Writes what is left and closes the file. A second call does nothing.

        Raises:
            OSError: The file could not be written.
        """
        try:
            lost = self._file.close()
        except OSError as error:
            raise type(error)(f"'{self.path}' could not be written: {error}") from error
        if lost:
            warnings.warn(
                f"{lost:,} spans are missing in '{self.path}': they came faster than they could be written",
                RuntimeWarning,
                stacklevel=2,
            )

    def __enter__(self) -> Self:
        """Records from the construction on."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the file, also after an error: what led to it is what one wants to see."""
        self.close()

    def __repr__(self) -> str:
        return f"pypto.trace({str(self.path)!r})"
