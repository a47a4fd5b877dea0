"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import Const, binary, of_dim, same
from pypto.ir.lower.ops.base import Lowering, out, tile
from pypto.ir.nodes import OpStmt
from pypto.ir.types import TileType
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _inner(to: FunctionLowering, left: TileType, right: TileType, stmt: OpStmt) -> dict[str, Any]:
    """How far the sums go: over the valid columns of the left operand that are valid rows of the right one.

    A kernel may multiply probabilities that it padded with zeros by a cache of which fewer rows are valid: the other
    rows count nothing, whatever memory holds there.
    """
    columns, rows = left.valid[-1], right.valid[-2] if len(right.valid) > 1 else 1
    if same(columns, rows) or same(rows, right.physical[0]):
        return to.arg(columns, stmt.loc)
    return to.arg(binary("min", of_dim(columns), of_dim(rows), INDEX), stmt.loc)


def _matmul(to: FunctionLowering, stmt: OpStmt) -> None:
    inner = _inner(to, tile(stmt, 0).tile, tile(stmt, 1).tile, stmt)
    args = [to.arg(stmt.args[0], stmt.loc), to.arg(stmt.args[1], stmt.loc), inner]
    to.tile_op("matmul", out(stmt), args, to.region(out(stmt).tile, stmt.loc), stmt.loc)


def _matmul_acc(to: FunctionLowering, stmt: OpStmt) -> None:
    loc = stmt.loc
    acc, a, b = (to.arg(stmt.args[position], loc) for position in range(3))
    inner = _inner(to, tile(stmt, 1).tile, tile(stmt, 2).tile, stmt)
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
