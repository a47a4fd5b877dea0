"""Between device memory and the chip, and views of device memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.lower.ops.base import Lowering, emit, out, tile
from pypto.ir.nodes import OpStmt

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _load(to: FunctionLowering, stmt: OpStmt) -> None:
    if stmt.attrs["transposed"]:
        _load_transposed(to, stmt)
        return
    tensor, offsets, extents = stmt.args
    emit(to, stmt, "load", [to.arg(value, stmt.loc) for value in (tensor, *offsets, *extents)])  # type: ignore[misc]


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
    source, offsets, tensor, extents = stmt.args
    args = [to.arg(value, stmt.loc) for value in (source, tensor, *offsets, *extents)]  # type: ignore[misc]  # tuples
    core = "store_add" if stmt.attrs.get("atomic") else "store"
    to.tile_op(core, None, args, to.region(tile(stmt, 0).tile, stmt.loc), stmt.loc)


def _create_tensor(to: FunctionLowering, stmt: OpStmt) -> None:
    dims = [to.scalars.operand(dim, stmt.loc) for dim in stmt.args[0]]  # type: ignore[union-attr]  # a tuple
    fill = stmt.attrs.get("init_value")
    to.emit(
        {"Create": {"dst": to.tensor(out(stmt)), "dims": dims, "fill": None if fill is None else float(fill)}},
        stmt.loc,
    )
    if stmt.attrs.get("manual_dep"):
        to.order(lambda: {"Untracked": {"tensor": to.tensor(out(stmt))}}, stmt.loc)


def view(to: FunctionLowering, stmt: OpStmt, kind: dict[str, Any]) -> None:
    """A view of the device memory of the first argument."""
    to.emit({"View": {"dst": to.tensor(out(stmt)), "src": to.tensor(tile(stmt, 0)), "kind": kind}}, stmt.loc)


LOWERINGS: dict[str, Lowering] = {"load": _load, "store": _store, "create_tensor": _create_tensor}
