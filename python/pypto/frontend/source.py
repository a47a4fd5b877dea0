"""From a Python function to its syntax tree, without running it."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

from pypto.ir.diagnostics import Diagnostic, Loc, error_for

MAX_SOURCE = 1 << 20
MAX_LINES = 20_000
"""Characters and lines of one function. Source beyond this was generated, and compiling it would take minutes."""


@dataclass(frozen=True, slots=True)
class Source:
    """The tree of one function definition. Line numbers in the tree plus `offset` are those of the file."""

    file: str
    offset: int
    text: str
    node: ast.FunctionDef

    def loc(self, node: ast.AST) -> Loc:
        """Where a node of this tree stands in the file. Columns are counted in characters."""
        line = getattr(node, "lineno", 1)
        col = getattr(node, "col_offset", 0)
        end = getattr(node, "end_col_offset", 0) if getattr(node, "end_lineno", line) == line else 0
        if not self.text.isascii():  # the parser counts columns in UTF-8 bytes
            encoded = linecache.getline(self.file, line + self.offset).encode()
            col, end = (len(encoded[:count].decode(errors="ignore")) for count in (col, end or 0))
        return Loc(self.file, line + self.offset, col, end or 0)


_SOURCES: WeakKeyDictionary[Callable[..., Any], Source] = WeakKeyDictionary()


def read(fn: Callable[..., Any]) -> Source:
    """The source of a function; read once. `SyntaxError` (with a place) where it cannot be read."""
    source = _SOURCES.get(fn)
    if source is None:
        source = _SOURCES[fn] = _read(fn)
    return source


def register(fn: Callable[..., Any], source: Source) -> None:
    """Says what the source of a function is, for functions that are in no file."""
    _SOURCES[fn] = source


def _read(fn: Callable[..., Any]) -> Source:
    code = fn.__code__
    quick = _quickly(code, fn.__globals__)
    if quick is not None:
        return quick
    place = Loc(code.co_filename, code.co_firstlineno, 0)
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError, IndexError) as error:
        raise error_for(
            [
                Diagnostic(
                    "syntax",
                    f"the source of {fn.__name__!r} cannot be read: {error}",
                    place,
                    "define kernels in a file, not at the prompt or in a string given to exec()",
                )
            ]
        ) from None
    return from_text("".join(lines), code.co_filename, first)


def _quickly(code: CodeType, module: dict[str, Any]) -> Source | None:
    """The source, where the lines that the bytecode names say how far it goes.

    `inspect` finds the end of a function by tokenizing it, which takes five times as long as parsing it.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, module)
    first = code.co_firstlineno
    last = max((line for _, _, line in code.co_lines() if line is not None), default=first)
    if not 1 <= first <= last <= len(lines):
        return None
    margin = _indentation(lines[first - 1])
    # The last statement may go on, or be a constant that has no bytecode.
    while last < len(lines) and (not lines[last].strip() or _indentation(lines[last]) > margin):
        last += 1
    try:
        return from_text("".join(lines[first - 1 : last]), code.co_filename, first)
    except SyntaxError:
        return None


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def from_text(text: str, file: str, first: int) -> Source:
    """The single function definition in `text`, which starts at line `first` of `file`."""
    lines = text.count("\n")
    if len(text) > MAX_SOURCE or lines > MAX_LINES:
        what = f"{len(text)} characters" if len(text) > MAX_SOURCE else f"{lines} lines"
        limits = f"at most {MAX_SOURCE} characters on {MAX_LINES} lines are read"
        hint = "split it into functions decorated with @pl.jit.inline"
        raise error_for(
            [Diagnostic("syntax", f"this function has {what} of source; {limits}", Loc(file, first, 0), hint)]
        )
    # A definition inside a class or a factory is indented. Wrapping it in a block keeps its columns, which dedenting
    # would shift, and leaves the text of multi-line strings alone.
    indented = text[:1] in (" ", "\t")
    try:
        module = ast.parse("if 1:\n" + text if indented else text)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise _syntax_error(error, text, file, first) from None
    body: list[ast.stmt] = module.body[0].body if indented else module.body  # type: ignore[attr-defined]
    node = body[0]
    if not isinstance(node, ast.FunctionDef):
        raise error_for(
            [
                Diagnostic(
                    "syntax",
                    "expected a function definition (`def`)",
                    Loc(file, first, 0),
                    "decorate a function written with def, not a lambda or a class",
                )
            ]
        )
    return Source(file, first - (2 if indented else 1), textwrap.dedent(text), node)


def _syntax_error(error: Exception, text: str, file: str, first: int) -> Exception:
    if isinstance(error, SyntaxError):
        line = (error.lineno or 1) + first - (2 if text[:1] in (" ", "\t") else 1)
        return error_for(
            [
                Diagnostic(
                    "syntax",
                    error.msg or "invalid syntax",
                    Loc(file, line, max(0, (error.offset or 1) - 1)),
                    "correct the Python syntax",
                )
            ]
        )
    return error_for(
        [
            Diagnostic(
                "syntax",
                "this function nests too deeply to be read",
                Loc(file, first, 0),
                "split it into functions decorated with @pl.jit.inline",
            )
        ]
    )
