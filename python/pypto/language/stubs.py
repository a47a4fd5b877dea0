"""Functions that stand for operations: right names, signatures and docstrings; running them is an error that explains.

They are made when first looked up, so that importing the language costs nothing for names that are never used.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from pypto.language import ops
from pypto.language.errors import outside_kernel
from pypto.language.ops import wording

MARK = "__pypto__"
"""Attribute of every function that means something to the frontend: an operation's `Form`, or a construct's name."""


def stub(form: ops.Form) -> Callable[..., Any]:
    """The function for one form of an operation."""

    def operation(*args: Any, **kwargs: Any) -> Any:
        outside_kernel(form.spelling)

    kinds = inspect.Parameter
    parameters = []
    for param in form.params:
        bare = param.name.lstrip("*")
        stars = len(param.name) - len(bare)
        kind = (
            kinds.VAR_POSITIONAL
            if stars == 1
            else kinds.VAR_KEYWORD
            if stars
            else kinds.KEYWORD_ONLY
            if param.keyword_only
            else kinds.POSITIONAL_OR_KEYWORD
        )
        default = kinds.empty if param.default is ops.REQUIRED else param.default
        parameters.append(kinds(bare, kind, default=default))
    operation.__name__ = operation.__qualname__ = form.name
    operation.__module__ = ops.NAMESPACES[form.namespace]
    operation.__doc__ = wording.docstring(form)
    setattr(operation, "__signature__", inspect.Signature(parameters))  # noqa: B010  (functions declare no such attribute)
    setattr(operation, MARK, form)
    return operation


def construct(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a hand-written function as the construct `name` of the language."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, MARK, name)
        return function

    return mark


def lookup(namespace: str, name: str, into: dict[str, Any]) -> Any:
    """What `__getattr__` of a namespace module does: makes the stub and keeps it in the module."""
    form = ops.find(namespace, name)
    if form is None:
        module = ops.NAMESPACES[namespace]
        # With both, Python adds the name that comes closest.
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
    function = stub(form)
    into[name] = function
    return function
