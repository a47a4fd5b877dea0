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


class OutOfMemoryError(MemoryError, RuntimeError):
    """Device memory cannot be had: no such block is left, or no room in a budget. The text says how much there is.

    A `RuntimeError` because programs written for PyPTO expect one; a `MemoryError` because that is what it is.
    """
