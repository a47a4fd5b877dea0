"""`pl.parse`, `pl.loads` and their program forms: DSL text instead of decorated functions."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from pypto.language.frontdoor import frontend


def parse(text: str, filename: str = "<string>") -> Any:
    """The IR of the single function in `text`; `filename` stands in messages.

    Raises:
        ValueError: There is no function, or there are several.
        SyntaxError: It is no Python.
    """
    return frontend().parse_function(text, filename)


def loads(path: str | PathLike[str]) -> Any:
    """`parse` of the file at `path`."""
    return frontend().parse_function(Path(path).read_text(), str(path))


def parse_program(text: str, filename: str = "<string>") -> Any:
    """The IR of the single `@pl.program` class in `text`; `filename` stands in messages. Errors as of `parse`."""
    return frontend().parse_program(text, filename)


def loads_program(path: str | PathLike[str]) -> Any:
    """`parse_program` of the file at `path`."""
    return frontend().parse_program(Path(path).read_text(), str(path))
