"""Operations of the language as operations of the core. Those that map one to one need no entry here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import Const, ScalarVar, index, of_dim
from pypto.ir.nodes import OpStmt, Var
from pypto.language.ops import BY_NAME

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering

Lowering = Callable[["FunctionLowering", OpStmt], None]


def generic(to: FunctionLowering, stmt: OpStmt) -> None:
    """The core operation of the table row, with the arguments as they are."""
    core = BY_NAME[stmt.op].core[0]
    assert isinstance(stmt.out, Var)
    to.tile_op(
        core, stmt.out, [to.arg(value, stmt.loc) for value in stmt.args], to.region(stmt.out.tile, stmt.loc), stmt.loc
    )


def _tile(stmt: OpStmt, position: int) -> Var:
    value = stmt.args[position]
    assert isinstance(value, Var), f"{stmt.op} takes a variable"
    return value


def _out(stmt: OpStmt) -> Var:
    assert isinstance(stmt.out, Var), f"{stmt.op} has a result"
    return stmt.out


def _load(to: FunctionLowering, stmt: OpStmt) -> None:
    if stmt.attrs["transposed"]:
        _load_transposed(to, stmt)
        return
    tensor, offsets, extents = stmt.args
    args = [to.arg(value, stmt.loc) for value in (tensor, *offsets, *extents)]  # type: ignore[misc]  # tuples
    to.tile_op("load", _out(stmt), args, to.region(_out(stmt).tile, stmt.loc), stmt.loc)


def _load_transposed(to: FunctionLowering, stmt: OpStmt) -> None:
    base, loc = _tile(stmt, 0), stmt.loc
    a, b = stmt.attrs["keep"]
    view = to.new_tensor(base.type.dtype, len(base.type.shape))
    to.emit({"View": {"dst": view, "src": to.tensor(base), "kind": {"Transpose": {"a": a, "b": b}}}}, loc)
    args: list[Any] = [{"Tensor": view}]
    for numbers in stmt.args[1:]:
        swapped = list(numbers)  # type: ignore[arg-type]  # a tuple
        swapped[a], swapped[b] = swapped[b], swapped[a]
        args += [to.arg(number, loc) for number in swapped]
    to.tile_op("load", _out(stmt), args, to.region(_out(stmt).tile, loc), loc)


def _store(to: FunctionLowering, stmt: OpStmt) -> None:
    tile, offsets, tensor, extents = stmt.args
    args = [to.arg(value, stmt.loc) for value in (tile, tensor, *offsets, *extents)]  # type: ignore[misc]  # tuples
    to.tile_op("store", None, args, to.region(_tile(stmt, 0).tile, stmt.loc), stmt.loc)


def _cast(to: FunctionLowering, stmt: OpStmt) -> None:
    to.tile_op(
        "cast",
        _out(stmt),
        [to.arg(stmt.args[0], stmt.loc)],
        to.region(_out(stmt).tile, stmt.loc),
        stmt.loc,
        stmt.attrs["mode"],
    )


def _fill(to: FunctionLowering, stmt: OpStmt) -> None:
    to.tile_op("fill", _out(stmt), [to.arg(stmt.args[0], stmt.loc)], to.region(_out(stmt).tile, stmt.loc), stmt.loc)


def _undef(to: FunctionLowering, stmt: OpStmt) -> None:
    to.tile_op("undef", _out(stmt), [], to.region(_out(stmt).tile, stmt.loc), stmt.loc)


def _row_reduce(to: FunctionLowering, stmt: OpStmt) -> None:
    source = _tile(stmt, 0)
    args = [to.arg(source, stmt.loc), to.arg(source.tile.valid[-1], stmt.loc)]
    to.tile_op(BY_NAME[stmt.op].core[0], _out(stmt), args, to.region(_out(stmt).tile, stmt.loc), stmt.loc)


def _matmul(to: FunctionLowering, stmt: OpStmt) -> None:
    inner = to.arg(_tile(stmt, 0).tile.valid[-1], stmt.loc)
    args = [to.arg(stmt.args[0], stmt.loc), to.arg(stmt.args[1], stmt.loc), inner]
    to.tile_op("matmul", _out(stmt), args, to.region(_out(stmt).tile, stmt.loc), stmt.loc)


def _matmul_acc(to: FunctionLowering, stmt: OpStmt) -> None:
    loc = stmt.loc
    acc, a, b = (to.arg(stmt.args[position], loc) for position in range(3))
    inner = to.arg(_tile(stmt, 1).tile.valid[-1], loc)
    region = to.region(_out(stmt).tile, loc)
    if len(stmt.args) == 3:
        to.tile_op("matmul_acc", _out(stmt), [acc, a, b, inner], region, loc)
        return
    condition: Any = stmt.args[3]
    if isinstance(condition, Const):
        if condition.value:
            to.tile_op("matmul", _out(stmt), [a, b, inner], region, loc)
        else:
            to.tile_op("matmul_acc", _out(stmt), [acc, a, b, inner], region, loc)
        return
    operand = to.scalars.operand(condition, loc)
    outer, to.block = to.block, []
    to.tile_op("matmul", _out(stmt), [a, b, inner], region, loc)
    then, to.block = to.block, []
    to.tile_op("matmul_acc", _out(stmt), [acc, a, b, inner], region, loc)
    orelse, to.block = to.block, outer
    to.emit({"If": {"cond": operand, "then": then, "orelse": orelse}}, loc)


def _create_tensor(to: FunctionLowering, stmt: OpStmt) -> None:
    dims = [to.scalars.operand(dim, stmt.loc) for dim in stmt.args[0]]  # type: ignore[union-attr]  # a tuple
    fill = stmt.attrs.get("init_value")
    to.emit(
        {"Create": {"dst": to.tensor(_out(stmt)), "dims": dims, "fill": None if fill is None else float(fill)}},
        stmt.loc,
    )


def _view(to: FunctionLowering, stmt: OpStmt, kind: dict[str, Any]) -> None:
    to.emit({"View": {"dst": to.tensor(_out(stmt)), "src": to.tensor(_tile(stmt, 0)), "kind": kind}}, stmt.loc)


def _slice(to: FunctionLowering, stmt: OpStmt) -> None:
    _, offsets, extents = stmt.args
    _view(
        to,
        stmt,
        {
            "Slice": {
                "offsets": [to.scalars.operand(offset, stmt.loc) for offset in offsets],  # type: ignore[union-attr]
                "extents": [to.scalars.dim(extent, stmt.loc) for extent in extents],  # type: ignore[union-attr]
                "keep": list(stmt.attrs["keep"]),
            }
        },
    )


def _reshape(to: FunctionLowering, stmt: OpStmt) -> None:
    if not _out(stmt).is_tensor:
        to.tile_op("move", _out(stmt), [to.arg(stmt.args[0], stmt.loc)], to.region(_out(stmt).tile, stmt.loc), stmt.loc)
        return
    _view(to, stmt, {"Reshape": {"dims": [to.scalars.operand(dim, stmt.loc) for dim in stmt.args[1]]}})  # type: ignore[union-attr]


def _transpose(to: FunctionLowering, stmt: OpStmt) -> None:
    a, b = stmt.attrs["axes"]
    _view(to, stmt, {"Transpose": {"a": a, "b": b}})


def _element(to: FunctionLowering, owner: Var, at: Any, stmt: OpStmt) -> tuple[dict[str, int], list[Any]]:
    operands = [to.scalars.operand(position, stmt.loc) for position in at]
    if owner.is_tensor:
        return {"Tensor": to.tensor(owner)}, operands
    shape = owner.tile.shape
    # An element of a value of higher rank lies in the row that its leading indices merge into.
    row = index(0)
    for position, extent in zip(at[:-1], shape[:-1], strict=True):
        row = to_row(row, extent, position)
    return {"Tile": to.tile(owner)}, [to.scalars.operand(row, stmt.loc), operands[-1]]


def to_row(row: Any, extent: int, position: Any) -> Any:
    """The merged row of one more leading index."""
    from pypto.ir.exprs import binary
    from pypto.language.dtypes import INDEX

    return binary("add", binary("mul", row, of_dim(extent), INDEX), position, INDEX)


def _read(to: FunctionLowering, stmt: OpStmt) -> None:
    owner = _tile(stmt, 0)
    place, at = _element(to, owner, stmt.args[1], stmt)
    assert isinstance(stmt.out, ScalarVar)
    to.emit({"Read": {"dst": to.scalars.slot(stmt.out), "src": place, "index": at}}, stmt.loc)


def _write(to: FunctionLowering, stmt: OpStmt) -> None:
    owner = _tile(stmt, 0)
    place, at = _element(to, owner, stmt.args[1], stmt)
    value: Any = stmt.args[2]
    to.emit({"Write": {"dst": place, "index": at, "value": to.scalars.operand(value, stmt.loc)}}, stmt.loc)


LOWERINGS: dict[str, Lowering] = {
    "load": _load,
    "store": _store,
    "cast": _cast,
    "full": _fill,
    "create_tile": _undef,
    "row_sum": _row_reduce,
    "row_max": _row_reduce,
    "row_min": _row_reduce,
    "matmul": _matmul,
    "matmul_acc": _matmul_acc,
    "create_tensor": _create_tensor,
    "slice": _slice,
    "reshape": _reshape,
    "transpose": _transpose,
    "read": _read,
    "write": _write,
}
