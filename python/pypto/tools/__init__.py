"""Command lines of PyPTO that this version does not have: each says which command of `pypto` does it."""

from __future__ import annotations

import sys


def refuse(module: str, instead: str) -> int:
    """Says that a command is not supported, and what is there instead. Returns the exit code of wrong usage."""
    print(f"{module} is not supported in this version: {instead}", file=sys.stderr)
    return 2
