"""Creation, and the same elements in another place, shape or validity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import Dim, Expr, index
from pypto.ir.lower.ops.base import Lowering, emit, emit_whole, integer, out, tile, valid, whole_op
from pypto.ir.lower.ops.planar import apart, last, put, settle, take
from pypto.ir.lower.ops.transfer import view
from pypto.ir.lower.planes import merged_row, moved, outer_axes, planes
from pypto.ir.nodes import OpStmt
from pypto.ir.types import is_prefix, region

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _fill(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "fill", [to.arg(stmt.args[-1], stmt.loc)])


def _undef(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "undef", [])


def _arange(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "iota", [to.arg(stmt.args[0], stmt.loc), integer(-1 if stmt.attrs["descending"] else 1)])


def _random(to: FunctionLowering, stmt: OpStmt) -> None:
    words = [to.arg(word, stmt.loc) for word in stmt.args]
    emit(to, stmt, "random", [*words, integer(stmt.attrs["rounds"])])


def _tri(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "tri", [to.arg(stmt.args[0], stmt.loc), {"Scalar": {"Bool": stmt.attrs["upper"]}}])


def _slice(to: FunctionLowering, stmt: OpStmt) -> None:
    offsets: Any = stmt.args[1]
    extents: Any = stmt.args[2]
    if not out(stmt).is_tensor:
        _extract(to, stmt, offsets, extents)
        return
    kind = {
        "offsets": [to.scalars.operand(offset, stmt.loc) for offset in offsets],
        "extents": [to.scalars.dim(extent, stmt.loc) for extent in extents],
        "keep": list(stmt.attrs["keep"]),
    }
    view(to, stmt, {"Slice": kind})


def _extract(to: FunctionLowering, stmt: OpStmt, offsets: tuple[Expr, ...], valid: tuple[Dim, ...]) -> None:
    source, result, loc = tile(stmt, 0), out(stmt), stmt.loc
    shape, whole = stmt.attrs["shape"], source.tile.shape
    depth = outer_axes(shape, shape, whole, offsets)  # rows between valid ones may be taken along
    if depth == 0:
        emit(
            to, stmt, "extract", [to.arg(source, loc), to.arg(merged_row(offsets, whole), loc), last(to, offsets, loc)]
        )
        return
    joined = apart(to, result, source)
    for at in planes(to, valid[:depth], loc):
        plane = take(to, source, moved(offsets, at), shape[depth:], valid[depth:], loc)
        put(to, joined, plane, merged_row(at, shape), integer(0), loc)
    settle(to, result, joined, loc)


def _assemble(to: FunctionLowering, stmt: OpStmt) -> None:
    target, source, result, loc = tile(stmt, 0), tile(stmt, 1), out(stmt), stmt.loc
    offsets: Any = stmt.args[2]
    valid: tuple[Dim, ...] = stmt.attrs["valid"]
    shape = ((1,) * len(valid) + source.tile.shape)[-len(valid) :]
    whole = target.tile.shape
    depth = outer_axes(shape, valid, whole, offsets)
    column = last(to, offsets, loc)
    if depth == 0:
        rows_cols = [{"Scalar": to.scalars.dim(extent, loc)} for extent in region(shape, valid)]
        row = to.arg(merged_row(offsets, whole), loc)
        emit(to, stmt, "insert", [to.arg(target, loc), to.arg(source, loc), row, column, *rows_cols])
        return
    joined = apart(to, result, source)
    if joined is not target.resolve():
        whole_op(to, "move", joined, [to.arg(target, loc)], loc)
    for at in planes(to, valid[:depth], loc):
        plane = take(to, source, (*at, *(index(0),) * (len(shape) - depth)), shape[depth:], valid[depth:], loc, shape)
        put(to, joined, plane, merged_row(moved(offsets, at), whole), column, loc)
    settle(to, result, joined, loc)


def _reshape(to: FunctionLowering, stmt: OpStmt) -> None:
    if not out(stmt).is_tensor:
        emit_whole(to, stmt, "reinterpret", [to.arg(stmt.args[0], stmt.loc)])
        return
    dims: Any = stmt.args[1]
    view(to, stmt, {"Reshape": {"dims": [to.scalars.operand(dim, stmt.loc) for dim in dims]}})


def _same_bytes(to: FunctionLowering, stmt: OpStmt) -> None:
    """All bytes of the box count: what lies outside the valid region may be declared valid again."""
    if out(stmt).is_tensor:
        view(to, stmt, "Reinterpret")
        return
    emit_whole(to, stmt, "reinterpret", [to.arg(stmt.args[0], stmt.loc)])


def _transpose(to: FunctionLowering, stmt: OpStmt) -> None:
    if not out(stmt).is_tensor:
        emit(to, stmt, "transpose", [to.arg(stmt.args[0], stmt.loc)])
        return
    a, b = stmt.attrs["axes"]
    view(to, stmt, {"Transpose": {"a": a, "b": b}})


def _fillpad(to: FunctionLowering, stmt: OpStmt) -> None:
    source, result, loc = tile(stmt, 0), out(stmt), stmt.loc
    pad = to.arg(stmt.attrs["pad_value"], loc)
    shape, parts, grown = source.tile.shape, source.tile.valid, result.tile.shape
    depth = next(
        axes for axes in range(len(shape)) if is_prefix(shape[axes:], parts[axes:]) and _merge_alike(shape, grown, axes)
    )
    if depth == 0:
        emit(to, stmt, "fillpad", [to.arg(source, loc), *valid(to, source, stmt), pad])
        return
    joined = apart(to, result, source)
    whole_op(to, "fill", joined, [pad], loc)
    zero = (index(0),) * (len(shape) - depth)
    for at in planes(to, parts[:depth], loc):
        plane = take(to, source, (*at, *zero), shape[depth:], parts[depth:], loc)
        put(to, joined, plane, merged_row(at, grown), integer(0), loc)
    settle(to, result, joined, loc)


def _merge_alike(shape: tuple[int, ...], grown: tuple[int, ...], axes: int) -> bool:
    """Whether, `axes` outer axes aside, the rows of one box are the first rows of the other."""
    return shape[axes + 1 : -1] == grown[axes + 1 : -1]


def _move(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "move", [to.arg(stmt.args[0], stmt.loc)])


LOWERINGS: dict[str, Lowering] = {
    "full": _fill,
    "expands": _fill,
    "create_tile": _undef,
    "arange": _arange,
    "random": _random,
    "tri": _tri,
    "slice": _slice,
    "assemble": _assemble,
    "reshape": _reshape,
    "set_validshape": _same_bytes,
    "reinterpret_view": _same_bytes,
    "transpose": _transpose,
    "fillpad": _fillpad,
    "fillpad_expand": _fillpad,
    "move": _move,
}
