"""The exceptions of the project. The runtime itself raises builtin ones; see each function."""

from __future__ import annotations


class Error(Exception):
    """Base of what the project raises about programs."""


class VerificationError(Error):
    """A program breaks a rule of the IR.

    Sources are refused with `pypto.ir.KernelError`, which has a place, before a program is made of them. This is the
    class for programs that are made in another way.
    """


class InternalError(RuntimeError):
    """A bug of this project, not of the program. Please report it with the text."""
