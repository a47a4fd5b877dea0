"""Element by element, where more than the arguments has to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.ir.exprs import Dim, Expr, binary, index, of_dim, to_dim
from pypto.ir.lower.ops.base import Lowering, emit, integer, out, tile, valid, whole_op
from pypto.ir.lower.ops.planar import apart, put, settle, take
from pypto.ir.lower.planes import merged_row, outer_axes, plane_of, planes
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TileType
from pypto.language.dtypes import INDEX, INT8, INT16, INT32, UINT8
from pypto.language.ops import BY_NAME

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _cast(to: FunctionLowering, stmt: OpStmt) -> None:
    source, result, loc = tile(stmt, 0), out(stmt).tile, stmt.loc
    if not source.type.dtype.is_float or result.dtype not in (INT8, INT16, UINT8):
        emit(to, stmt, "cast", [to.arg(source, loc)], stmt.attrs["mode"])
        return
    # The core saturates to 32 bits and narrows by wrapping: what lies between is clamped, so that all of it saturates.
    dtype = result.dtype
    lowest = -(1 << dtype.bits - 1) if dtype.is_signed else 0
    highest = (1 << dtype.bits - dtype.is_signed) - 1
    wide = Var(f"{stmt.op}_wide", TileType(result.shape, INT32, result.valid), loc)
    region = to.region(result, loc)
    to.tile_op("cast", wide, [to.arg(source, loc)], region, loc, stmt.attrs["mode"])
    to.tile_op("maximum", wide, [to.arg(wide, loc), integer(lowest)], region, loc)
    to.tile_op("minimum", wide, [to.arg(wide, loc), integer(highest)], region, loc)
    emit(to, stmt, "cast", [to.arg(wide, loc)], "none")


def _compare(to: FunctionLowering, stmt: OpStmt) -> None:
    core = BY_NAME[stmt.op].core[stmt.attrs["cmp_type"]]
    emit(to, stmt, core, [to.arg(value, stmt.loc) for value in stmt.args])


def _partial(to: FunctionLowering, stmt: OpStmt) -> None:
    a, b, result, loc = tile(stmt, 0), tile(stmt, 1), out(stmt), stmt.loc
    shape = result.tile.shape
    depth = max(outer_axes(shape, var.tile.valid) for var in (a, b, result))
    if depth == 0:
        args = [to.arg(a, loc), to.arg(b, loc), *valid(to, a, stmt), *valid(to, b, stmt)]
        emit(to, stmt, stmt.op, args)
        return
    joined = apart(to, result, a, b)
    whole_op(to, "undef", joined, [], loc)
    zero = (index(0),) * (len(shape) - depth)
    for at in planes(to, shape[:depth], loc):
        parts = [_plane_valid(var, at, depth) for var in (a, b, result)]
        left, right = (
            take(to, var, (*at, *zero), shape[depth:], part, loc) for var, part in zip((a, b), parts, strict=False)
        )
        plane = plane_of(result, shape[depth:], parts[2])
        extents = [{"Scalar": operand} for var in (left, right) for operand in to.region(var.tile, loc)]
        to.tile_op(stmt.op, plane, [to.arg(left, loc), to.arg(right, loc), *extents], to.region(plane.tile, loc), loc)
        put(to, joined, plane, merged_row(at, shape), integer(0), loc)
    settle(to, result, joined, loc)


def _plane_valid(var: Var, at: tuple[Expr, ...], depth: int) -> tuple[Dim, ...]:
    """What is valid of one plane: nothing of those beyond what is valid along an outer axis."""
    first, *rest = var.tile.valid[depth:]
    inside: Expr = of_dim(first)
    for place, part in zip(at, var.tile.valid, strict=False):
        left = binary("sub", of_dim(part), place, INDEX)
        there = binary("max", binary("min", left, index(1), INDEX), index(0), INDEX)
        inside = binary("mul", inside, there, INDEX)
    return to_dim(inside), *rest


LOWERINGS: dict[str, Lowering] = {
    "cast": _cast,
    "cmp": _compare,
    "cmps": _compare,
    "part_add": _partial,
    "part_mul": _partial,
    "part_max": _partial,
    "part_min": _partial,
}
