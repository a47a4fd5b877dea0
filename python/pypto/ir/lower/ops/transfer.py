"""Between device memory and the chip, and views of device memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import index
from pypto.ir.lower.ops.base import Lowering, emit, integer, out, tile, whole_op
from pypto.ir.lower.ops.planar import put, take
from pypto.ir.lower.planes import merged_row, moved, outer_axes, plane_of, planes
from pypto.ir.nodes import OpStmt
from pypto.ir.types import region

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _load(to: FunctionLowering, stmt: OpStmt) -> None:
    if stmt.attrs["transposed"]:
        _load_transposed(to, stmt)
        return
    tensor, loc = tile(stmt, 0), stmt.loc
    offsets: Any = stmt.args[1]
    extents: Any = stmt.args[2]
    box: tuple[int, ...] = stmt.attrs["box"]
    depth = outer_axes(box, extents)
    if depth == 0:
        emit(to, stmt, "load", [to.arg(value, loc) for value in (tensor, *offsets, *extents)])
        return
    result = out(stmt)
    whole_op(to, "undef", result, [], loc)
    for at in planes(to, extents[:depth], loc):
        plane = plane_of(result, box[depth:], extents[depth:])
        place = [tensor, *moved(offsets, at), *(index(1),) * depth, *extents[depth:]]
        to.tile_op("load", plane, [to.arg(value, loc) for value in place], to.region(plane.tile, loc), loc)
        put(to, result, plane, merged_row(at, box), integer(0), loc)


def _load_transposed(to: FunctionLowering, stmt: OpStmt) -> None:
    base, loc = tile(stmt, 0), stmt.loc
    a, b = stmt.attrs["keep"]
    view = to.new_tensor(base.type.dtype, len(base.type.shape), base.name)
    to.emit({"View": {"dst": view, "src": to.tensor(base), "kind": {"Transpose": {"a": a, "b": b}}}}, loc)
    args: list[Any] = [{"Tensor": view}]
    for numbers in stmt.args[1:]:
        swapped = list(numbers)  # type: ignore[arg-type]  # a tuple
        swapped[a], swapped[b] = swapped[b], swapped[a]
        args += [to.arg(number, loc) for number in swapped]
    emit(to, stmt, "load", args)


def _store(to: FunctionLowering, stmt: OpStmt) -> None:
    source, tensor, loc = tile(stmt, 0), tile(stmt, 2), stmt.loc
    offsets: Any = stmt.args[1]
    extents: Any = stmt.args[3]
    box: tuple[int, ...] = stmt.attrs["box"]
    core = "store_add" if stmt.attrs.get("atomic") else "store"
    depth = outer_axes(box, extents)
    if depth == 0:
        args = [to.arg(value, loc) for value in (source, tensor, *offsets, *extents)]
        rows_cols = [to.scalars.dim(extent, loc) for extent in region(box, extents)]
        to.tile_op(core, None, args, rows_cols, loc)
        return
    zero = (index(0),) * (len(box) - depth)
    for at in planes(to, extents[:depth], loc):
        plane = take(to, source, (*at, *zero), box[depth:], extents[depth:], loc, box)
        place = [plane, tensor, *moved(offsets, at), *(index(1),) * depth, *extents[depth:]]
        to.tile_op(core, None, [to.arg(value, loc) for value in place], to.region(plane.tile, loc), loc)


def _create_tensor(to: FunctionLowering, stmt: OpStmt) -> None:
    dims = [to.scalars.operand(dim, stmt.loc) for dim in stmt.args[0]]  # type: ignore[union-attr]  # a tuple
    fill = stmt.attrs.get("init_value")
    to.emit(
        {"Create": {"dst": to.tensor(out(stmt)), "dims": dims, "fill": None if fill is None else float(fill)}},
        stmt.loc,
    )
    if stmt.attrs.get("manual_dep"):
        to.order(lambda: {"Untracked": {"tensor": to.tensor(out(stmt))}}, stmt.loc)


def view(to: FunctionLowering, stmt: OpStmt, kind: dict[str, Any] | str) -> None:
    """A view of the device memory of the first argument."""
    to.emit({"View": {"dst": to.tensor(out(stmt)), "src": to.tensor(tile(stmt, 0)), "kind": kind}}, stmt.loc)
    to.declare(out(stmt), stmt.loc)


LOWERINGS: dict[str, Lowering] = {"load": _load, "store": _store, "create_tensor": _create_tensor}
