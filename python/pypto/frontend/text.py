"""DSL text: run as a Python module whose decorators build IR."""

from __future__ import annotations

import linecache
from types import ModuleType
from typing import Any

from pypto.ir.diagnostics import Diagnostic, Loc, error_for
from pypto.ir.nodes import Function, Program


def parse_function(text: str, filename: str) -> Function:
    """The IR of the single `@pl.function` in `text`."""
    found: Function = _single(text, filename, Function, "function")
    return found


def parse_program(text: str, filename: str) -> Program:
    """The IR of the single `@pl.program` in `text`."""
    found: Program = _single(text, filename, Program, "program")
    return found


def _single(text: str, filename: str, kind: type, what: str) -> Any:
    import pypto.language as pl

    # Sources are found through linecache, so text that is in no file gets an entry of its own.
    name = filename if filename != "<string>" else f"<pypto text {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        code = compile(text, name, "exec")
    except SyntaxError as error:
        raise error_for(
            [
                Diagnostic(
                    "syntax",
                    error.msg or "invalid syntax",
                    Loc(name, error.lineno or 1, max(0, (error.offset or 1) - 1)),
                    "correct the Python syntax",
                )
            ]
        ) from None
    module = ModuleType(name)
    vars(module)["pl"] = pl
    exec(code, vars(module))
    found = [value for value in vars(module).values() if isinstance(value, kind)]
    if len(found) != 1:
        raise ValueError(f"{filename} holds {len(found)} {what}s of the language; exactly one is expected")
    return found[0]
