"""Gather, scatter and sort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.lower.ops.base import Lowering, emit, integer, out, tile, valid
from pypto.ir.nodes import OpStmt
from pypto.language.ops.gather import PATTERNS

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _args(to: FunctionLowering, stmt: OpStmt) -> list[Any]:
    return [to.arg(value, stmt.loc) for value in stmt.args]


def _gather(to: FunctionLowering, stmt: OpStmt) -> None:
    """Columns outside the valid ones hold nothing that could be picked, so they count as outside."""
    source = tile(stmt, 0)
    emit(to, stmt, "gather_cols", [*_args(to, stmt), to.arg(source.tile.valid[-1], stmt.loc)])


def _tile_gather(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "gather_flat", [*_args(to, stmt), integer(tile(stmt, 0).tile.physical[1])])


def _gatherb(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "gather_bytes", _args(to, stmt))


def _gather_mask(to: FunctionLowering, stmt: OpStmt) -> None:
    start, stride = PATTERNS[stmt.attrs["mask_pattern"]]
    emit(to, stmt, "gather_stride", [*_args(to, stmt), integer(start), integer(stride)])


def _gather_compare(to: FunctionLowering, stmt: OpStmt) -> None:
    source, value, offset = _args(to, stmt)
    cols = to.arg(tile(stmt, 0).tile.valid[-1], stmt.loc)
    core = "gather_cmp_index" if stmt.attrs["count_dtype"] is None else "gather_cmp_count"
    emit(to, stmt, core, [source, value, integer(stmt.attrs["cmp_mode"]), offset, cols])


def _mgather(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "gather_tensor", _args(to, stmt))


def _scatter(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "scatter_cols", [*_args(to, stmt), *valid(to, tile(stmt, 2), stmt)])


def _tile_scatter(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "scatter_flat", [*_args(to, stmt), *valid(to, tile(stmt, 1), stmt)])


def _scatter_mask(to: FunctionLowering, stmt: OpStmt) -> None:
    target, source = _args(to, stmt)
    if not stmt.attrs["blend"]:
        zero: dict[str, Any] = {"Float": 0.0} if out(stmt).type.dtype.is_float else {"Int": 0}
        emit(to, stmt, "fill", [{"Scalar": zero}])
        target = to.arg(out(stmt), stmt.loc)
    start, stride = PATTERNS[stmt.attrs["mask_pattern"]]
    place = [integer(start), integer(stride)]
    emit(to, stmt, "scatter_stride", [target, source, *place, *valid(to, tile(stmt, 1), stmt)])


def _scatter_update(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "scatter_rows", [*_args(to, stmt), *valid(to, tile(stmt, 2), stmt)])


def _mscatter(to: FunctionLowering, stmt: OpStmt) -> None:
    region = to.region(tile(stmt, 0).tile, stmt.loc)
    to.tile_op("scatter_tensor", None, [*_args(to, stmt), integer(0)], region, stmt.loc)


def _sort32(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "sort32", [*_args(to, stmt), to.arg(tile(stmt, 0).tile.valid[-1], stmt.loc)])


def _mrgsort(to: FunctionLowering, stmt: OpStmt) -> None:
    lists = _args(to, stmt)
    cols = [to.arg(tile(stmt, position).tile.valid[-1], stmt.loc) for position in range(len(lists))]
    length = stmt.attrs["block_len"]
    if length is None:
        emit(to, stmt, "merge_lists", [*lists, *cols])
    else:
        emit(to, stmt, "merge_sort", [*lists, integer(length), *cols])


LOWERINGS: dict[str, Lowering] = {
    "gather": _gather,
    "tile_gather": _tile_gather,
    "gatherb": _gatherb,
    "gather_mask": _gather_mask,
    "gather_compare": _gather_compare,
    "mgather": _mgather,
    "scatter": _scatter,
    "tile_scatter": _tile_scatter,
    "scatter_mask": _scatter_mask,
    "scatter_update": _scatter_update,
    "mscatter": _mscatter,
    "sort32": _sort32,
    "mrgsort": _mrgsort,
}
