"""Element by element, where more than the arguments has to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.ir.lower.ops.base import Lowering, emit, integer, out, tile, valid
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TileType
from pypto.language.dtypes import INT8, INT16, INT32, UINT8
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
    a, b = tile(stmt, 0), tile(stmt, 1)
    args = [to.arg(a, stmt.loc), to.arg(b, stmt.loc), *valid(to, a, stmt), *valid(to, b, stmt)]
    emit(to, stmt, stmt.op, args)


LOWERINGS: dict[str, Lowering] = {
    "cast": _cast,
    "cmp": _compare,
    "cmps": _compare,
    "part_add": _partial,
    "part_mul": _partial,
    "part_max": _partial,
    "part_min": _partial,
}
