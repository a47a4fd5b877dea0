"""Creation, and the same elements in another place, shape or validity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import binary, index, of_dim
from pypto.ir.lower.ops.base import Lowering, emit, emit_whole, integer, out, tile, valid
from pypto.ir.lower.ops.transfer import view
from pypto.ir.nodes import OpStmt
from pypto.language.dtypes import INDEX

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


def merged_row(at: Any, extents: tuple[int, ...]) -> Any:
    """The row that leading indices merge into."""
    row: Any = index(0)
    for position, extent in zip(at[:-1], extents[:-1], strict=True):
        row = binary("add", binary("mul", row, of_dim(extent), INDEX), position, INDEX)
    return row


def _slice(to: FunctionLowering, stmt: OpStmt) -> None:
    offsets: Any = stmt.args[1]
    extents: Any = stmt.args[2]
    if not out(stmt).is_tensor:
        source = tile(stmt, 0)
        place = [to.arg(merged_row(offsets, source.tile.shape), stmt.loc), to.arg(offsets[-1], stmt.loc)]
        emit(to, stmt, "extract", [to.arg(source, stmt.loc), *place])
        return
    kind = {
        "offsets": [to.scalars.operand(offset, stmt.loc) for offset in offsets],
        "extents": [to.scalars.dim(extent, stmt.loc) for extent in extents],
        "keep": list(stmt.attrs["keep"]),
    }
    view(to, stmt, {"Slice": kind})


def _assemble(to: FunctionLowering, stmt: OpStmt) -> None:
    target, source = tile(stmt, 0), tile(stmt, 1)
    offsets: Any = stmt.args[2]
    place = [to.arg(merged_row(offsets, target.tile.shape), stmt.loc), to.arg(offsets[-1], stmt.loc)]
    args = [to.arg(target, stmt.loc), to.arg(source, stmt.loc), *place, *valid(to, source, stmt)]
    emit(to, stmt, "insert", args)


def _reshape(to: FunctionLowering, stmt: OpStmt) -> None:
    if not out(stmt).is_tensor:
        emit_whole(to, stmt, "reinterpret", [to.arg(stmt.args[0], stmt.loc)])
        return
    dims: Any = stmt.args[1]
    view(to, stmt, {"Reshape": {"dims": [to.scalars.operand(dim, stmt.loc) for dim in dims]}})


def _same_bytes(to: FunctionLowering, stmt: OpStmt) -> None:
    """All bytes of the box count: what lies outside the valid region may be declared valid again."""
    emit_whole(to, stmt, "reinterpret", [to.arg(stmt.args[0], stmt.loc)])


def _transpose(to: FunctionLowering, stmt: OpStmt) -> None:
    if not out(stmt).is_tensor:
        emit(to, stmt, "transpose", [to.arg(stmt.args[0], stmt.loc)])
        return
    a, b = stmt.attrs["axes"]
    view(to, stmt, {"Transpose": {"a": a, "b": b}})


def _fillpad(to: FunctionLowering, stmt: OpStmt) -> None:
    source = tile(stmt, 0)
    args = [to.arg(source, stmt.loc), *valid(to, source, stmt), to.arg(stmt.attrs["pad_value"], stmt.loc)]
    emit(to, stmt, "fillpad", args)


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
