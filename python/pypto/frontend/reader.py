"""Everything that reads one function, wired together."""

from __future__ import annotations

import ast
from typing import Any

from pypto.frontend.assigned import assigned_names
from pypto.frontend.builder import Builder
from pypto.frontend.calls import Calls
from pypto.frontend.expressions import Expressions
from pypto.frontend.invoke import is_launchable, is_spliced
from pypto.frontend.library import Library
from pypto.frontend.namespace import Namespace
from pypto.frontend.regions import Regions
from pypto.frontend.source import read
from pypto.frontend.statements import Statements


class Reader:
    """Reads one function into the builder. `library` holds the kernels of the program that it belongs to."""

    def __init__(self, builder: Builder, library: Library) -> None:
        self.builder = builder
        self.library = library
        self.expressions = Expressions(self)
        self.calls = Calls(self)
        self.regions = Regions(self)
        self.statements: Statements = Statements(self)

    @property
    def assigned_somewhere(self) -> list[str]:
        """Names that the current function assigns anywhere, for messages."""
        return assigned_names(self.builder.frame.source.node.body)

    def survey(self, body: list[ast.stmt]) -> tuple[bool, bool]:
        """Whether a block calls a function that is launched, and whether it asks which block it is.

        Spliced functions are looked into.
        """
        frame = self.builder.frame
        return _survey(body, frame.namespace, frame.methods, set())


def _survey(
    body: list[ast.stmt], namespace: Namespace, methods: dict[str, Any] | None, visited: set[Any]
) -> tuple[bool, bool]:
    calls = asks = False
    for stmt in body:
        for node in ast.walk(stmt):
            if isinstance(node, (ast.Attribute, ast.Name)):
                asks = asks or getattr(node, "attr", getattr(node, "id", "")) in ("get_block_idx", "get_subblock_idx")
            if not isinstance(node, ast.Call):
                continue
            func, callee = node.func, None
            if isinstance(func, ast.Name):
                callee = namespace.peek(func.id)
            elif isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
                callee = None if methods is None else methods.get(func.attr)
            fn: Any = getattr(callee, "fn", None)
            if is_launchable(callee):
                calls = True
            elif is_spliced(callee) and fn not in visited:
                visited.add(fn)
                inner = _survey(read(fn).node.body, Namespace(fn, namespace.captures), methods, visited)
                calls, asks = calls or inner[0], asks or inner[1]
    return calls, asks
