"""Refuses an entry whose output nothing writes: what a launch would give back there has no defined value."""

from __future__ import annotations

from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.effects import written_params
from pypto.ir.nodes import Function, Var


def check_outputs(function: Function) -> None:
    """`PartialCodegenError` for each `Out` parameter that nothing writes. Rebinding its name does not write it."""
    written = written_params(function)
    problems = [
        Diagnostic(
            "codegen",
            f"nothing writes the Out parameter {param.name!r}",
            param.loc,
            f"`{param.name} = ...` only rebinds the name; write {param.name}[:] = x, or "
            f"{param.name} = pl.store(x, offsets, {param.name})",
        )
        for param in function.params
        if param.declared and param.direction == "Out" and isinstance(param.var, Var) and param.var not in written
    ]
    if problems:
        raise error_for(problems)
