"""Recordings of spans."""

import os
from typing import TypeAlias, final

_Span: TypeAlias = tuple[int, int, int, str, int, int, int, str | None, int | None, int, bool]
"""`(tid, inv, depth, name, ts, dur, arg, attribute, core, timed_with, is_device)`; `ts`, `dur` in ns of the monotonic
clock, of which `timed_with` tasks share two readings."""

@final
class Recording:
    """Records spans of all threads while it is open."""

    def __new__(cls) -> Recording:
        """Starts recording."""

    def drain(self) -> tuple[int, list[_Span], int]:
        """Takes what ended since the last call: process, spans, and how many were lost because a buffer was full.

        Raises:
            RuntimeError: It was stopped.
        """

    def stop(self) -> None:
        """Stops recording."""

    def __enter__(self) -> Recording: ...
    def __exit__(self, *_exc: object) -> None: ...

@final
class TraceFile:
    """A recording that is written to a file while it goes on.

    Args:
        path: The file; it is replaced.
        format: `chrome`, `perfetto` or `strace`.

    Raises:
        OSError: The file cannot be written.
        ValueError: There is no such format.
    """

    def __new__(cls, path: str | os.PathLike[str], format: str) -> TraceFile: ...
    def close(self) -> int:
        """Ends the recording; returns how many spans were lost. A second call does nothing.

        Raises:
            OSError: The file could not be written.
        """

def mirror_trace(on: bool, *, device_spans: bool = True) -> None:
    """Prints `[STRACE]` lines after each launch, those of the device only with `device_spans`; or stops doing so."""

def trace_available() -> bool:
    """Whether this build records spans at all."""
