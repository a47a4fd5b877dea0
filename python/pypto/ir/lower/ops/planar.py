"""What lowerings of operations plane by plane share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.diagnostics import Loc
from pypto.ir.exprs import Dim, Expr
from pypto.ir.lower.ops.base import whole_op
from pypto.ir.lower.planes import merged_row, plane_of
from pypto.ir.nodes import Var

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def apart(to: FunctionLowering, result: Var, *sources: Var) -> Var:
    """Where planes are joined: the result itself, unless a later plane of a source would be overwritten."""
    result = result.resolve()
    if all(source.resolve() is not result for source in sources):
        return result
    return plane_of(result, result.tile.shape, result.tile.shape)


def settle(to: FunctionLowering, result: Var, joined: Var, loc: Loc) -> None:
    """The joined planes as the result."""
    if joined is not result.resolve():
        whole_op(to, "move", result, [to.arg(joined, loc)], loc)


def last(to: FunctionLowering, offsets: tuple[Expr, ...], loc: Loc) -> dict[str, Any]:
    """The column that a box begins at."""
    return to.arg(offsets[-1], loc)


def take(
    to: FunctionLowering,
    source: Var,
    offsets: tuple[Expr, ...],
    shape: tuple[int, ...],
    valid: tuple[Dim, ...],
    loc: Loc,
    whole: tuple[int, ...] | None = None,
) -> Var:
    """One plane of an on-chip value, which is a box of `whole`."""
    plane = plane_of(source, shape, valid)
    row = to.arg(merged_row(offsets, whole or source.tile.shape), loc)
    place = [to.arg(source, loc), row, last(to, offsets, loc)]
    to.tile_op("extract", plane, place, to.region(plane.tile, loc), loc)
    return plane


def put(to: FunctionLowering, target: Var, plane: Var, row: Expr, column: dict[str, Any], loc: Loc) -> None:
    """A plane put into an on-chip value, which changes."""
    rows_cols = [{"Scalar": operand} for operand in to.region(plane.tile, loc)]
    whole_op(to, "insert", target, [to.arg(target, loc), to.arg(plane, loc), to.arg(row, loc), column, *rows_cols], loc)


__all__ = ["apart", "last", "put", "settle", "take"]
