"""The program under construction: its kernels by specialisation, and what was read to build it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pypto.frontend.namespace import Captures
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.nodes import Function

if TYPE_CHECKING:
    from pypto.frontend.builder import Builder

MAX_CALL_DEPTH: Final = 64
"""Functions that call each other this deeply are calling themselves."""

MAX_STATEMENTS: Final = 50_000
"""Statements of one program as they are read, a few seconds of work. More is a runaway `pl.unroll`."""


@dataclass(slots=True)
class Library:
    """Kernels of one program. A kernel is specialised per call site; equal argument types share one.

    A kernel that was refused is `None` in `kernels`, so that its mistakes are reported once.
    `refused` says that some statement was left out, which some diagnostic must then explain.
    """

    captures: Captures = field(default_factory=Captures)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    kernels: dict[Any, Function | None] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    refused: bool = False
    statements: int = 0

    def count(self, builder: Builder, node: ast.stmt) -> None:
        """Counts one statement that is read. Gives up at once where there are too many: each further one costs time."""
        self.statements += 1
        if self.statements > MAX_STATEMENTS:
            builder.report(
                "value",
                f"this program has more than {MAX_STATEMENTS} statements once loops are unrolled and functions spliced",
                node,
                "loop with pl.range instead of pl.unroll",
            )
            raise error_for(self.diagnostics)

    def add(self, function: Function) -> None:
        """Adds a function under its name, or under a numbered one where that is taken."""
        base, number = function.name, 1
        while function.name in self.functions:
            function.name = f"{base}_{number}"
            number += 1
        self.functions[function.name] = function
