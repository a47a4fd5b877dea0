"""Errors of the person at the keyboard."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer


class UsageError(typer.BadParameter):
    """The command line asks for something that does not exist or does not fit. Ends the command with code 2."""


def check_ending(option: str, path: Path, endings: Iterable[str]) -> None:
    """Refuses the name of a file whose ending chooses no format, before anything is measured.

    Raises:
        UsageError: It has another ending.
    """
    if path.suffix.lower() not in endings:
        raise UsageError(f"{option} writes {', '.join(endings)}; the ending of '{path}' is none of them")


PASSES = ("frontend", "outline", "phases")
"""After what `inspect` shows the IR."""

EXIT_FAILED = 1
"""A kernel was refused, or failed while it ran."""
EXIT_USAGE = 2
"""The command line was wrong."""
EXIT_SLOWER = 3
"""`bench --fail-above` found a ratio above the bound."""
