"""Which parameters of a program its source marks for dumps: with `pl.dump_tag(tensor)`, or `dumps=[...]` of a scope."""

from __future__ import annotations

from pypto.ir.effects import Effects
from pypto.ir.nodes import CallStmt, Function, Program, Var, walk

TAGS = "dump_tags"
"""The attribute of a function that lists the variables that it tags."""


def tagged_params(program: Program) -> frozenset[str]:
    """Names of the tensor parameters that are tagged: themselves, a part of them, or where they are passed on."""
    tagged = _tagged(program.entry, {})
    return frozenset(param.name for param in program.entry.params if param.var in tagged)


def _tagged(function: Function, known: dict[int, set[Var]]) -> set[Var]:
    """What a function tags, and what the functions that it calls do: the variables that introduce the memory."""
    found = known.get(id(function))
    if found is not None:
        return found
    found = known[id(function)] = set()
    variables: list[Var] = list(function.attrs.get(TAGS, ()))
    for stmt in walk(function.body):
        if isinstance(stmt, CallStmt):
            inner = _tagged(stmt.callee, known)
            pairs = zip(stmt.callee.params, stmt.args, strict=False)  # a call may pass extents besides
            variables += [arg for param, arg in pairs if param.var in inner and isinstance(arg, Var)]
    if variables:
        effects = Effects(function)
        found.update(root for var in variables for root in effects.roots(var))
    return found
