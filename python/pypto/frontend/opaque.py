"""What an opaque function is: a kernel, or orchestration code. Its body says."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from pypto.frontend.namespace import Captures, Namespace
from pypto.frontend.source import read
from pypto.ir.nodes import Function
from pypto.language.enums import FunctionType
from pypto.language.jit import JITFunction
from pypto.language.ops import BY_NAME, FORMS
from pypto.language.program import FunctionDecl, InlineFunction

_FUNCTIONS: Final = (Function, JITFunction, FunctionDecl, InlineFunction)
_MAX_DEPTH: Final = 16
"""Functions in functions that are looked into; whatever calls more deeply is orchestration code."""

_SCOPES: Final = frozenset({"at", "spmd", "cluster", "submit", "spmd_submit", "scope", "manual_scope"})

_EITHER: Final = frozenset(
    {"create_tensor", "create", "slice", "read", "write", "reshape", "transpose", "view", "dim", "reinterpret_view"}
)
"""What orchestration code may do too."""

_KNOWN: WeakKeyDictionary[Callable[..., Any], bool] = WeakKeyDictionary()


def computes(fn: Callable[..., Any], depth: int = 0) -> bool:
    """Whether a function computes on tiles or tensors outside any scope, so that it is a kernel itself.

    It may call macros and free `@pl.function`s that are kernels for the same reason: they are part of it then.
    """
    found = _KNOWN.get(fn)
    if found is None:
        found = _KNOWN[fn] = _computes(fn, depth)
    return found


def _part(obj: object, depth: int) -> bool | None:
    """Whether a called function is a part of a kernel that calls it; `None` for what is no function."""
    if not isinstance(obj, _FUNCTIONS):
        return None
    decl = obj.attrs["decl"] if isinstance(obj, Function) else obj
    opaque = isinstance(decl, FunctionDecl) and decl.type in (FunctionType.Opaque, FunctionType.Inline)
    if depth >= _MAX_DEPTH or not (opaque or isinstance(decl, InlineFunction)):
        return False
    return computes(decl.fn, depth + 1)


def _computes(fn: Callable[..., Any], depth: int) -> bool:
    works = False
    namespace = Namespace(fn, Captures())
    for node in ast.walk(read(fn).node):
        if not isinstance(node, ast.Call):
            continue
        func = node.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
            return False
        part = _part(namespace.peek(func.id), depth) if isinstance(func, ast.Name) else None
        if part is not None:
            if not part:
                return False
            works = True
            continue
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if name in _SCOPES:
            return False
        if name in _EITHER:
            continue
        form = FORMS["pl"].get(name) or FORMS["tile"].get(name)
        if form is not None and isinstance(func, ast.Attribute):
            works = works or bool(BY_NAME[form.op.name].core)
    return works
