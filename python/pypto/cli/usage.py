"""Errors of the person at the keyboard."""

from __future__ import annotations

import typer


class UsageError(typer.BadParameter):
    """The command line asks for something that does not exist or does not fit. Ends the command with code 2."""


PASSES = ("frontend", "outline", "phases")
"""After what `inspect` shows the IR."""

EXIT_FAILED = 1
"""A kernel was refused, or failed while it ran."""
EXIT_USAGE = 2
"""The command line was wrong."""
EXIT_SLOWER = 3
"""`bench --fail-above` found a ratio above the bound."""
