"""Reductions and broadcasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.ir.lower.ops.base import Lowering, emit, tile
from pypto.ir.nodes import OpStmt

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _row(to: FunctionLowering, stmt: OpStmt) -> None:
    source = tile(stmt, 0)
    emit(to, stmt, stmt.op, [to.arg(source, stmt.loc), to.arg(source.tile.valid[-1], stmt.loc)])


def _col(to: FunctionLowering, stmt: OpStmt) -> None:
    source = tile(stmt, 0)
    emit(to, stmt, stmt.op, [to.arg(source, stmt.loc), to.arg(source.tile.valid[-2], stmt.loc)])


def _expand(position: int) -> Lowering:
    """Only the value is read; the target gives the shape."""

    def lowering(to: FunctionLowering, stmt: OpStmt) -> None:
        emit(to, stmt, "expand", [to.arg(stmt.args[position], stmt.loc)])

    return lowering


LOWERINGS: dict[str, Lowering] = {
    **{f"row_{name}": _row for name in ("sum", "max", "min", "prod", "argmax", "argmin")},
    **{f"col_{name}": _col for name in ("sum", "max", "min", "prod", "argmax", "argmin")},
    "row_expand": _expand(1),
    "col_expand": _expand(1),
    "expand_clone": _expand(0),
}
