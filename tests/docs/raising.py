"""Which exceptions a public function can raise, as far as its source and that of what it calls tells."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from pypto.failures import Failure

MAX_DEPTH = 6
"""Calls that are followed: what lies deeper is an accident rather than an answer to an argument."""
Raised = tuple[type[BaseException], str]
NOT_DOCUMENTED = (AssertionError, NotImplementedError, StopIteration, KeyboardInterrupt)
"""A bug of ours, what a subclass has to define, and what Python itself does with."""


def raised_by(function: Any, owner: type | None = None) -> dict[type[BaseException], str]:
    """The exceptions that leave a function, and by way of which functions; `owner` is its class."""
    return dict(_raised(_plain(function), owner, MAX_DEPTH))


@functools.cache
def _raised(function: Callable[..., Any], owner: type | None, depth: int) -> tuple[Raised, ...]:
    found: dict[type[BaseException], str] = {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return ()
    if not isinstance(tree, ast.FunctionDef):
        return ()
    for node, caught in _outside_of_handlers(tree.body, ()):
        if isinstance(node, ast.Raise):
            error = _exception(node.exc, function)
            if error is not None and not issubclass(error, (*NOT_DOCUMENTED, *caught)):
                found.setdefault(error, function.__qualname__)
        elif isinstance(node, ast.Call) and depth:
            called, of = _called(node.func, function, owner)
            if called is not None and called is not function:
                for error, way in _raised(called, of, depth - 1):
                    if not issubclass(error, caught):
                        found.setdefault(error, f"{function.__qualname__} > {way}")
    return tuple(found.items())


def _outside_of_handlers(
    nodes: list[Any], caught: tuple[type[BaseException], ...]
) -> Iterator[tuple[ast.AST, tuple[type[BaseException], ...]]]:
    """All nodes, each with the exceptions that are caught around it; nested functions are not run here."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        yield node, caught
        if isinstance(node, ast.Try):
            names = [name for handler in node.handlers for name in _names(handler.type)]
            inner = tuple(error for error in map(_builtin, names) if error is not None)
            yield from _outside_of_handlers(node.body, (*caught, *inner))
            for part in (*(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                yield from _outside_of_handlers(part, caught)
        else:
            yield from _outside_of_handlers(list(ast.iter_child_nodes(node)), caught)


def _names(node: ast.expr | None) -> list[str]:
    if node is None:
        return ["BaseException"]
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _builtin(name: str) -> type[BaseException] | None:
    value = getattr(builtins, name, None)
    return value if inspect.isclass(value) and issubclass(value, BaseException) else None


def _exception(node: ast.expr | None, function: Callable[..., Any]) -> type[BaseException] | None:
    """What `raise` raises: a class, or one of `failures`; None where that is decided elsewhere."""
    value = _value(node.func if isinstance(node, ast.Call) else node, function)
    if isinstance(value, Failure):
        return value.exception
    return value if inspect.isclass(value) and issubclass(value, BaseException) else None


def _called(
    node: ast.expr, function: Callable[..., Any], owner: type | None
) -> tuple[Callable[..., Any] | None, type | None]:
    """The function of this package that is called, and its class."""
    of = None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        value, of = inspect.getattr_static(owner, node.attr, None) if owner else None, owner
    else:
        value = _value(node, function)
    if inspect.isclass(value):
        value, of = vars(value).get("__init__"), value
    value = _plain(value)
    ours = inspect.isfunction(value) and value.__module__.startswith("pypto")
    return (value, of) if ours else (None, None)


def _value(node: ast.expr | None, function: Callable[..., Any]) -> Any:
    """What a name or a dotted name means inside of a function."""
    if isinstance(node, ast.Name):
        return inspect.unwrap(function).__globals__.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        value = _value(node.value, function)
        return getattr(value, node.attr, None) if inspect.ismodule(value) or inspect.isclass(value) else None
    return None


def _plain(value: Any) -> Any:
    """The function behind a method, a property or what wraps it."""
    if isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, functools.partial):
        value = value.func
    return inspect.unwrap(value) if callable(value) else value
