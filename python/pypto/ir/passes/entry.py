"""Gives a program that starts with a kernel an orchestration function that launches it."""

from __future__ import annotations

from pypto.ir.exprs import ScalarVar, Symbol, index
from pypto.ir.nodes import CallStmt, Function, Param, Program, Var
from pypto.language.enums import FunctionType


def wrap_kernel_entry(program: Program) -> None:
    """A program whose entry is a kernel gets an orchestration function that launches it once."""
    kernel = program.entry
    if not kernel.kind.is_kernel:
        return
    copies = {param.var: _copy(param.var) for param in kernel.params}
    params = [
        Param(param.name, copies[param.var], param.direction, param.loc, param.declared, param.baked)
        for param in kernel.params
    ]
    launch = CallStmt(kernel, tuple(copies.values()), index(1), kernel.loc)
    returns = [copy for var in kernel.returns if isinstance(copy := copies[var.resolve()], Var)]
    name = f"{kernel.name}_entry"
    program.functions[name] = Function(
        name,
        FunctionType.Orchestration,
        params,
        [launch],
        returns,
        kernel.loc,
        kernel.symbols,
        left_out=kernel.left_out,
    )
    program.entry_name = name


def _copy(var: Var | ScalarVar | Symbol) -> Var | ScalarVar:
    return Var(var.name, var.type, var.loc) if isinstance(var, Var) else ScalarVar(var.name, var.dtype)
