"""Rules: single elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend import scalars, views
from pypto.frontend.rules.base import Rule, integers
from pypto.frontend.values import Value, Window, describe, is_scalar
from pypto.ir.exprs import Const, Expr, cast
from pypto.ir.nodes import OpStmt, Var
from pypto.language.dtypes import FP32, INDEX, INT64, DataType

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def _place(call: BoundCall) -> tuple[Var, tuple[Expr, ...]]:
    builder = call.builder
    owner = call.values[0]
    if isinstance(owner, Window):
        owner = views.view_of(builder, owner, call.node)
    if not isinstance(owner, Var):
        builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor or a tile, got {describe(owner)}",
            call.node_of(0),
            f"write {call.form.spelling} with a tensor or a tile first",
        )
    if builder.level != "kernel" and not owner.is_tensor:
        owner = views.in_memory(builder, owner, call.node)
    given = call.values[1]
    at = (
        (scalars.integer(builder, given, call.node_of(1), "an index"),)
        if is_scalar(given)
        else integers(call, 1, "indices")
    )
    if len(at) != len(owner.type.shape):
        builder.fail(
            "value",
            f"{call.form.spelling}: {len(at)} indices for {describe(owner)}, which has {len(owner.type.shape)} axes",
            call.node_of(1),
            f"give {len(owner.type.shape)} indices, one for each axis",
        )
    return owner, at


def read(call: BoundCall) -> Value:
    """One element."""
    owner, at = _place(call)
    return views.read_element(call.builder, owner, at, call.node)


def _is_literal_of(value: Const, dtype: DataType) -> bool:
    """Whether a number as it is written in a kernel means one of this dtype."""
    if value.dtype is dtype or value.dtype is INDEX:
        folded = cast(value, FP32 if dtype.is_float else dtype)
        return dtype.is_float or (isinstance(folded, Const) and folded.value == value.value)
    return value.dtype is FP32 and dtype.is_float


def write(call: BoundCall) -> Value:
    """Writes one element, in place: an on-chip value changes under all its names."""
    builder = call.builder
    owner, at = _place(call)
    value = scalars.scalar(builder, call.values[2], call.node_of(2), "the value")
    dtype = owner.type.dtype
    if isinstance(value, Const) and _is_literal_of(value, dtype):
        value = cast(value, FP32 if dtype.is_float else dtype)
    elif value.dtype is not dtype and (value.dtype is not INDEX or dtype is not INT64):  # two names of one type
        builder.fail(
            "type",
            f"{call.form.spelling}: a {value.dtype} scalar for {dtype} elements; the dtypes must be equal",
            call.node_of(2),
            f"convert it: pl.cast(x, pl.{dtype.name})",
        )
    builder.emit(OpStmt("write", None, (owner, at, value), builder.loc(call.node)))
    return owner


RULES: dict[str, Rule] = {"read": read, "write": write}
