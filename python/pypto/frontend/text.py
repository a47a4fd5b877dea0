"""DSL text: read like a Python module, but never run.

What stands at the top of the text is evaluated as far as annotations are: imports of this package, constants,
`pl.dynamic`, and decorated functions and classes. Everything else is passed over; a kernel that needs it says so.
"""

from __future__ import annotations

import ast
import copy
import importlib
import linecache
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from pypto.frontend.annotations import Unreadable, evaluate, plain
from pypto.frontend.namespace import Captures, Namespace
from pypto.frontend.source import MAX_SOURCE, Source, register
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
    # Sources are found through linecache, so text that is in no file gets an entry of its own.
    name = filename if filename != "<string>" else f"<pypto text {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = _Module(text, name)
    found = [value for value in module.scope.values() if isinstance(value, kind)]
    if len(found) != 1:
        raise ValueError(f"{filename} holds {len(found)} {what}s of the language; exactly one is expected")
    return found[0]


def _syntax_error(message: str, loc: Loc) -> Exception:
    return error_for([Diagnostic("syntax", message, loc, "correct the Python syntax")])


class _Module:
    """The names at the top of a text."""

    def __init__(self, text: str, name: str) -> None:
        import pypto.language as pl

        self.text, self.name = text, name
        self.scope: dict[str, Any] = {"__name__": name, "pl": pl}
        if len(text) > MAX_SOURCE:
            raise _syntax_error(f"the text has {len(text)} characters; at most {MAX_SOURCE} are read", Loc(name, 1, 0))
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            place = Loc(name, error.lineno or 1, max(0, (error.offset or 1) - 1))
            raise _syntax_error(error.msg or "invalid syntax", place) from None
        except (RecursionError, MemoryError, ValueError):
            raise _syntax_error("the text nests too deeply to be read", Loc(name, 1, 0)) from None
        self.namespace = Namespace(FunctionType((lambda: None).__code__, self.scope), Captures())
        for stmt in tree.body:
            self._statement(stmt)

    def _statement(self, stmt: ast.stmt) -> None:
        if isinstance(stmt, ast.Import):
            for alias in stmt.names:
                self._import(alias)
        elif isinstance(stmt, ast.ImportFrom):
            self._import_from(stmt)
        elif isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
            try:
                self.scope[stmt.targets[0].id] = plain(stmt.value, self.namespace)
            except (Unreadable, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError):
                return
        elif isinstance(stmt, ast.FunctionDef) and stmt.decorator_list:
            self.scope[stmt.name] = self._decorated(stmt, self._function(stmt, stmt.name))
        elif isinstance(stmt, ast.ClassDef) and stmt.decorator_list:
            members = {
                member.name: self._decorated(member, self._function(member, f"{stmt.name}.{member.name}"))
                for member in stmt.body
                if isinstance(member, ast.FunctionDef)
            }
            self.scope[stmt.name] = self._decorated(stmt, type(stmt.name, (), members))

    def _import(self, alias: ast.alias) -> None:
        if alias.name.split(".")[0] == "pypto":
            module = self._module(alias.name)
            self.scope[alias.asname or "pypto"] = module if alias.asname else importlib.import_module("pypto")
        elif alias.name == "math":
            self.scope[alias.asname or "math"] = math

    def _import_from(self, stmt: ast.ImportFrom) -> None:
        if stmt.level or (stmt.module or "").split(".")[0] != "pypto":
            return
        module = self._module(stmt.module or "")
        for alias in stmt.names:
            if hasattr(module, alias.name):
                self.scope[alias.asname or alias.name] = getattr(module, alias.name)
            elif alias.name != "*":
                self.scope[alias.asname or alias.name] = self._module(f"{stmt.module}.{alias.name}")

    @staticmethod
    def _module(name: str) -> ModuleType | None:
        try:
            return importlib.import_module(name)
        except ImportError:
            return None

    def _decorated(self, node: ast.FunctionDef | ast.ClassDef, value: Any) -> Any:
        for decorator in reversed(node.decorator_list):
            try:
                decorate = evaluate(decorator, self.namespace)
            except (Unreadable, TypeError, ValueError, AttributeError, LookupError, RecursionError) as error:
                place = Loc(self.name, decorator.lineno, decorator.col_offset)
                hint = "write @pl.function(...), @pl.program or another decorator of the language"
                text = f"the decorator of {node.name!r} cannot be read: {error}"
                raise error_for([Diagnostic("syntax", text, place, hint)]) from None
            if not getattr(decorate, "__module__", "").startswith("pypto.language"):
                place = Loc(self.name, decorator.lineno, decorator.col_offset)
                hint = "write @pl.function(...), @pl.program or another decorator of the language"
                text = f"{node.name!r} has a decorator that is none of the language"
                raise error_for([Diagnostic("syntax", text, place, hint)])
            value = decorate(value)
        return value

    def _function(self, node: ast.FunctionDef, qualified: str) -> Callable[..., Any]:
        """A function object that nobody calls: without decorators, annotations and defaults there is nothing to run."""
        bare = copy.copy(node)
        bare.decorator_list, bare.returns = [], None
        bare.args = copy.copy(node.args)
        bare.args.defaults, bare.args.kw_defaults = [], [None for _ in node.args.kwonlyargs]
        for kind in ("posonlyargs", "args", "kwonlyargs"):
            names = [ast.copy_location(ast.arg(argument.arg), argument) for argument in getattr(node.args, kind)]
            setattr(bare.args, kind, names)
        try:
            code = compile(ast.Module([bare], []), self.name, "exec")
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            place = Loc(self.name, getattr(error, "lineno", None) or node.lineno, 0)
            raise _syntax_error(getattr(error, "msg", None) or "this function nests too deeply", place) from None
        exec(code, self.scope)  # defines the function, whose name is then bound to what the decorators make of it
        function: FunctionType = self.scope.pop(node.name)
        function.__qualname__ = qualified
        try:
            function.__defaults__ = tuple(plain(value, self.namespace) for value in node.args.defaults) or None
        except (Unreadable, TypeError, ValueError, AttributeError, LookupError, RecursionError) as error:
            text = f"a default of {node.name!r} cannot be read: {error}"
            place = Loc(self.name, node.lineno, node.col_offset)
            raise error_for([Diagnostic("type", text, place, "write a number or a constant's name")]) from None
        register(function, Source(self.name, 0, self.text, node))
        return function
