"""What lowerings share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto.ir.diagnostics import Loc
from pypto.ir.nodes import OpStmt, Var
from pypto.language.ops import BY_NAME

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering

Lowering = Callable[["FunctionLowering", OpStmt], None]


def tile(stmt: OpStmt, position: int) -> Var:
    """An argument that is a variable."""
    value = stmt.args[position]
    assert isinstance(value, Var), f"{stmt.op} takes a variable"
    return value


def out(stmt: OpStmt) -> Var:
    """The result."""
    assert isinstance(stmt.out, Var), f"{stmt.op} has a result"
    return stmt.out


def integer(value: int) -> dict[str, Any]:
    """A constant argument."""
    return {"Scalar": {"Int": value}}


def valid(to: FunctionLowering, var: Var, stmt: OpStmt) -> list[dict[str, Any]]:
    """The valid rows and columns of a tile as arguments."""
    return [{"Scalar": operand} for operand in to.region(var.tile, stmt.loc)]


def emit(to: FunctionLowering, stmt: OpStmt, core: str, args: list[Any], mode: str | None = None) -> None:
    """A core operation that gives the result of the statement, over its valid region."""
    to.tile_op(core, out(stmt), args, to.region(out(stmt).tile, stmt.loc), stmt.loc, mode)


def emit_whole(to: FunctionLowering, stmt: OpStmt, core: str, args: list[Any]) -> None:
    """A core operation that gives the result of the statement, over its whole box."""
    whole_op(to, core, out(stmt), args, stmt.loc)


def whole_op(to: FunctionLowering, core: str, result: Var, args: list[Any], loc: Loc) -> None:
    """A core operation over the whole box of its result."""
    rows, cols = result.tile.physical
    to.tile_op(core, result, args, [{"Int": rows}, {"Int": cols}], loc)


def generic(to: FunctionLowering, stmt: OpStmt) -> None:
    """The core operation of the table row, with the arguments as they are."""
    emit(to, stmt, BY_NAME[stmt.op].core[0], [to.arg(value, stmt.loc) for value in stmt.args])


__all__ = ["Lowering", "emit", "emit_whole", "generic", "integer", "out", "tile", "valid", "whole_op"]
