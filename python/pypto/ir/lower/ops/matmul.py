"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import Const
from pypto.ir.lower.ops.base import Lowering, out, tile
from pypto.ir.nodes import OpStmt

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _matmul(to: FunctionLowering, stmt: OpStmt) -> None:
    inner = to.arg(tile(stmt, 0).tile.valid[-1], stmt.loc)
    args = [to.arg(stmt.args[0], stmt.loc), to.arg(stmt.args[1], stmt.loc), inner]
    to.tile_op("matmul", out(stmt), args, to.region(out(stmt).tile, stmt.loc), stmt.loc)


def _matmul_acc(to: FunctionLowering, stmt: OpStmt) -> None:
    loc = stmt.loc
    acc, a, b = (to.arg(stmt.args[position], loc) for position in range(3))
    inner = to.arg(tile(stmt, 1).tile.valid[-1], loc)
    region = to.region(out(stmt).tile, loc)
    if len(stmt.args) == 3:
        to.tile_op("matmul_acc", out(stmt), [acc, a, b, inner], region, loc)
        return
    condition: Any = stmt.args[3]
    if isinstance(condition, Const):
        if condition.value:
            to.tile_op("matmul", out(stmt), [a, b, inner], region, loc)
        else:
            to.tile_op("matmul_acc", out(stmt), [acc, a, b, inner], region, loc)
        return
    operand = to.scalars.operand(condition, loc)
    outer, to.block = to.block, []
    to.tile_op("matmul", out(stmt), [a, b, inner], region, loc)
    then, to.block = to.block, []
    to.tile_op("matmul_acc", out(stmt), [acc, a, b, inner], region, loc)
    orelse, to.block = to.block, outer
    to.emit({"If": {"cond": operand, "then": then, "orelse": orelse}}, loc)


LOWERINGS: dict[str, Lowering] = {"matmul": _matmul, "matmul_acc": _matmul_acc}
