"""Single elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import ScalarVar
from pypto.ir.lower.ops.base import Lowering, tile
from pypto.ir.lower.planes import merged_row
from pypto.ir.nodes import OpStmt, Var

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _element(to: FunctionLowering, owner: Var, at: Any, stmt: OpStmt) -> tuple[dict[str, int], list[Any]]:
    operands = [to.scalars.operand(position, stmt.loc) for position in at]
    if owner.is_tensor:
        return {"Tensor": to.tensor(owner)}, operands
    row = merged_row(at, owner.tile.shape)
    return {"Tile": to.tile(owner)}, [to.scalars.operand(row, stmt.loc), operands[-1]]


def _read(to: FunctionLowering, stmt: OpStmt) -> None:
    owner = tile(stmt, 0)
    place, at = _element(to, owner, stmt.args[1], stmt)
    assert isinstance(stmt.out, ScalarVar)
    to.emit({"Read": {"dst": to.scalars.slot(stmt.out), "src": place, "index": at}}, stmt.loc)


def _write(to: FunctionLowering, stmt: OpStmt) -> None:
    owner = tile(stmt, 0)
    place, at = _element(to, owner, stmt.args[1], stmt)
    value: Any = stmt.args[2]
    to.emit({"Write": {"dst": place, "index": at, "value": to.scalars.operand(value, stmt.loc)}}, stmt.loc)


LOWERINGS: dict[str, Lowering] = {"read": _read, "write": _write}
