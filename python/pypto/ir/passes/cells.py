"""Scalars that wait in device memory between kernels: in which elements, and how they get there and back."""

from __future__ import annotations

from pypto.ir.diagnostics import Loc
from pypto.ir.exprs import Const, Expr, ScalarVar, binary, cast
from pypto.ir.nodes import Let, OpStmt, Stmt, Var
from pypto.language.dtypes import BOOL, FP32, INDEX, INT32, INT64, DataType


def cell_dtype(dtype: DataType) -> DataType:
    """The element type that holds every value of a scalar. Truth values wait as numbers."""
    if dtype.is_bool:
        return INT32
    return FP32 if dtype.is_float else INT64


def put(cell: Var, at: tuple[Expr, ...], name: ScalarVar, loc: Loc) -> list[Stmt]:
    """Writes a scalar into its cell."""
    value = name if name.dtype is INDEX else cast(name, cell.type.dtype)
    return [OpStmt("write", None, (cell, at, value), loc)]


def take(cell: Var, at: tuple[Expr, ...], name: ScalarVar, loc: Loc) -> list[Stmt]:
    """Reads a scalar from its cell."""
    dtype = cell.type.dtype
    if name.dtype is dtype or name.dtype is INDEX:
        return [OpStmt("read", name, (cell, at), loc)]
    element = ScalarVar(f"{name.name}_cell", dtype)
    value = binary("ne", element, Const(0, dtype), BOOL) if name.dtype.is_bool else cast(element, name.dtype)
    return [OpStmt("read", element, (cell, at), loc), Let(name, value, loc)]
