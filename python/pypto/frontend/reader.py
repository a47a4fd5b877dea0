"""Everything that reads one function, wired together."""

from __future__ import annotations

import ast

from pypto.frontend.assigned import assigned_names
from pypto.frontend.builder import Builder
from pypto.frontend.calls import Calls
from pypto.frontend.expressions import Expressions
from pypto.frontend.invoke import is_launchable
from pypto.frontend.library import Library
from pypto.frontend.regions import Regions
from pypto.frontend.statements import Statements


class Reader:
    """Reads one function into the builder. `library` holds the kernels of the program that it belongs to."""

    def __init__(self, builder: Builder, library: Library) -> None:
        self.builder = builder
        self.library = library
        self.expressions = Expressions(self)
        self.calls = Calls(self)
        self.regions = Regions(self)
        self.statements = Statements(self)

    @property
    def assigned_somewhere(self) -> list[str]:
        """Names that the current function assigns anywhere, for messages."""
        return assigned_names(self.builder.frame.source.node.body)

    def calls_kernels(self, body: list[ast.stmt]) -> bool:
        """Whether a block calls a function that is launched (in contrast to spliced)."""
        frame = self.builder.frame
        for stmt in body:
            for node in ast.walk(stmt):
                if not isinstance(node, ast.Call):
                    continue
                func = node.func
                if isinstance(func, ast.Name) and is_launchable(frame.namespace.peek(func.id)):
                    return True
                if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
                    method = None if frame.methods is None else frame.methods.get(func.attr)
                    if is_launchable(method):
                        return True
        return False
