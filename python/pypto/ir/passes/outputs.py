"""Refuses an entry whose output nothing writes: what a launch would give back there has no defined value."""

from __future__ import annotations

from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.effects import written_params
from pypto.ir.nodes import Function, Param, Var


def check_outputs(function: Function) -> None:
    """`PartialCodegenError` for each `Out` parameter that nothing writes. Rebinding its name does not write it."""
    written = written_params(function)
    problems = [
        _problem(function, param)
        for param in function.params
        if param.declared and param.direction == "Out" and isinstance(param.var, Var) and param.var not in written
    ]
    if problems:
        raise error_for(problems)


def _problem(function: Function, param: Param) -> Diagnostic:
    text, name = f"nothing writes the Out parameter {param.name!r}", param.name
    if name in function.left_out:
        why, hint = function.left_out[name]
        return Diagnostic("codegen", f"{text}: {why}", param.loc, hint)
    hint = f"`{name} = ...` only rebinds the name; write {name}[:] = x, or {name} = pl.store(x, offsets, {name})"
    return Diagnostic("codegen", text, param.loc, hint)
