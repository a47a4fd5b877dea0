"""The exceptions of the project. The runtime itself raises builtin ones; see each function."""

from __future__ import annotations


class Error(Exception):
    """Base of what the project raises about programs."""


class InternalError(RuntimeError):
    """A bug of this project, not of the program. Please report it with the text."""
