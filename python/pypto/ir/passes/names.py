"""Names for functions that passes make."""

from __future__ import annotations

from pypto.ir.nodes import Function, Program


def unused(name: str, functions: dict[str, Function], program: Program) -> str:
    """`name`, or a numbered form of it that neither the new functions nor the program have."""
    base, number = name, 1
    while name in functions or name in program.functions:
        name = f"{base}_{number}"
        number += 1
    return name
