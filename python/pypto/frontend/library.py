"""The program under construction: its kernels by specialisation, and what was read to build it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pypto.frontend.namespace import Captures
from pypto.ir.diagnostics import Diagnostic
from pypto.ir.nodes import Function

MAX_CALL_DEPTH: Final = 64
"""Functions that call each other this deeply are calling themselves."""


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

    def add(self, function: Function) -> None:
        """Adds a function under its name, or under a numbered one where that is taken."""
        base, number = function.name, 1
        while function.name in self.functions:
            function.name = f"{base}_{number}"
            number += 1
        self.functions[function.name] = function
