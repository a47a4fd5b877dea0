"""Single elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.exprs import ScalarVar
from pypto.ir.lower.ops.base import Lowering, tile
from pypto.ir.lower.ops.memory import merged_row
from pypto.ir.lower.scalars import scalar_class
from pypto.ir.nodes import OpStmt, Var
from pypto.language.dtypes import BOOL, FP32, INT64, DataType

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _element(to: FunctionLowering, owner: Var, at: Any, stmt: OpStmt) -> tuple[dict[str, int], list[Any]]:
    operands = [to.scalars.operand(position, stmt.loc) for position in at]
    if owner.is_tensor:
        return {"Tensor": to.tensor(owner)}, operands
    row = merged_row(at, owner.tile.shape)
    return {"Tile": to.tile(owner)}, [to.scalars.operand(row, stmt.loc), operands[-1]]


def _value_dtype(dtype: DataType) -> DataType:
    return FP32 if dtype.is_float else BOOL if dtype.is_bool else INT64


def _read(to: FunctionLowering, stmt: OpStmt) -> None:
    owner = tile(stmt, 0)
    place, at = _element(to, owner, stmt.args[1], stmt)
    assert isinstance(stmt.out, ScalarVar)
    slot = to.scalars.slot(stmt.out)
    if scalar_class(owner.type.dtype) == scalar_class(stmt.out.dtype):
        to.emit({"Read": {"dst": slot, "src": place, "index": at}}, stmt.loc)
        return
    # A truth value waits in an INT32 cell: there is no other class of mismatch.
    element = to.scalars.new(_value_dtype(owner.type.dtype))
    to.emit({"Read": {"dst": element, "src": place, "index": at}}, stmt.loc)
    to.emit({"Scalar": {"dst": slot, "op": "to_bool", "args": [{"Var": element}]}}, stmt.loc)


def _write(to: FunctionLowering, stmt: OpStmt) -> None:
    owner = tile(stmt, 0)
    place, at = _element(to, owner, stmt.args[1], stmt)
    value: Any = stmt.args[2]
    operand = to.scalars.operand(value, stmt.loc)
    if scalar_class(owner.type.dtype) != scalar_class(value.dtype):
        cell = to.scalars.new(INT64)
        to.emit({"Scalar": {"dst": cell, "op": "to_int", "args": [operand]}}, stmt.loc)
        operand = {"Var": cell}
    to.emit({"Write": {"dst": place, "index": at, "value": operand}}, stmt.loc)


LOWERINGS: dict[str, Lowering] = {"read": _read, "write": _write}
