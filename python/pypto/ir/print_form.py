"""In which form a function is printed: as an author writes it, or explicitly, with the type of every value.

The frontend makes most of what an author leaves out: it reconciles paths, clips boxes, composes operations of others.
Text that shows what it made is explicit, so that a reader adds nothing to it. Whatever a reader of plain text might
arrange differently is printed so; a function that is explicit without need reads back all the same.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pypto.ir.exprs import Const, ScalarVar, Symbol
from pypto.ir.nodes import CallStmt, Function, Let, OpStmt, ScopeStmt, Stmt, TaskRef, TaskStmt, TaskVar, Var, walk
from pypto.ir.passes.copies import scope_copies
from pypto.ir.types import TileType
from pypto.language.enums import MemorySpace

_SAYS_MEMORY = frozenset({"load", "move", "create_tile"})
_PRODUCTS = frozenset({"matmul", "matmul_acc", "matmul_bias", "gemv", "gemv_acc", "gemv_bias"})


def needs_explicit(function: Function, times: Counter[Any]) -> bool:
    """Whether a reader must take the text as it is. `times` says how often each variable is assigned."""
    if any(count > 1 for variable, count in times.items() if variable is not None):
        return True
    extents: set[Any] = set()
    for param in function.params:
        if isinstance(param.var, Var):
            extents.update(param.var.tensor.shape)
            if param.var.tensor.partial is not None:
                return True
    if any(param.var in extents for param in function.params):  # an author's scalar is no extent, whatever its name
        return True
    copies = scope_copies(function, "")  # an empty name, which no author can write
    if any(isinstance(stmt, ScopeStmt) and not stmt.name for stmt in walk(copies.body)):
        return True
    scopes = [stmt.body for stmt in walk(function.body) if isinstance(stmt, ScopeStmt)]
    kernels = [function.body] if function.kind.is_kernel else scopes
    if any(_is_view(stmt) for body in kernels for stmt in walk(body)):
        return True  # an author's slice would be a load
    return any(_is_arranged(stmt) for stmt in walk(function.body))


def _is_arranged(stmt: Stmt) -> bool:
    if isinstance(stmt, Let):
        return isinstance(stmt.value, (Const, ScalarVar, Symbol))
    if isinstance(stmt, TaskStmt):
        return True
    if isinstance(stmt, (CallStmt, ScopeStmt)):
        return stmt.order.out is not None or bool(stmt.order.deps)
    return isinstance(stmt, OpStmt) and (stmt.op == "spill" or _is_part(stmt))


def _is_view(stmt: Stmt) -> bool:
    return isinstance(stmt, OpStmt) and stmt.op == "slice" and isinstance(stmt.out, Var) and stmt.out.is_tensor


def _is_part(stmt: OpStmt) -> bool:
    """Whether the frontend may have made an operation as a part of another: its levels, memory or validity are odd."""
    out = stmt.out.resolve() if isinstance(stmt.out, Var) else None
    if isinstance(stmt.out, ScalarVar):
        return isinstance(stmt.args[0], Var) and stmt.args[0].type.dtype is not stmt.out.dtype
    values = [arg.resolve() for arg in stmt.args if isinstance(arg, Var)]
    if out is not None:
        values.append(out)
    if any(var.type.valid != var.type.shape for var in values):
        return True
    if stmt.op == "slice" and len({var.type.shape for var in values}) == 1:
        return True
    tiles = [var.type for var in values if isinstance(var.type, TileType)]
    if len({type.tensor_level for type in tiles}) > 1:
        return True
    if out is None or not isinstance(out.type, TileType):
        return False
    if stmt.op == "load" and out.type.tensor_level is (stmt.attrs["keep"] is None):
        return True
    if out.type.space is MemorySpace.Vec:
        return False
    if stmt.op in _PRODUCTS:
        return out.type.space is not MemorySpace.Acc
    return stmt.op not in _SAYS_MEMORY or out.type.tensor_level


def arrays_of_tasks(function: Function) -> set[TaskVar]:
    """The variables of several task ids, and those of one whose element is named."""
    found: set[TaskVar] = set()
    for stmt in walk(function.body):
        if isinstance(stmt, TaskStmt):
            refs: tuple[TaskRef | None, ...] = (stmt.out, *stmt.deps)
        elif isinstance(stmt, (CallStmt, ScopeStmt)):
            refs = (stmt.order.out, *stmt.order.deps)
        else:
            continue
        found.update(ref.var for ref in refs if ref is not None and (ref.var.extent > 1 or ref.index is not None))
    return found


__all__ = ["arrays_of_tasks", "needs_explicit"]
