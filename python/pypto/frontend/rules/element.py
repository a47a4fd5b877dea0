"""Rules: single elements."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pypto.frontend import scalars, views
from pypto.frontend.rules.base import Rule, integers
from pypto.frontend.values import Value, Window, describe, is_scalar
from pypto.ir.exprs import Const, Expr
from pypto.ir.nodes import OpStmt, Var

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
    for axis, (offset, extent) in enumerate(zip(at, owner.type.shape, strict=True)):
        if isinstance(offset, Const) and (offset.value < 0 or (isinstance(extent, int) and offset.value >= extent)):
            builder.fail(
                "value",
                f"{call.form.spelling}: index {offset.value} is outside axis {axis} of {describe(owner)}",
                call.node_of(1),
                f"indices are 0 to {extent - 1}" if isinstance(extent, int) else "indices count from 0",
            )
    return owner, at


def read(call: BoundCall) -> Value:
    """One element."""
    owner, at = _place(call)
    return views.read_element(call.builder, owner, at, call.node)


def write(call: BoundCall) -> Value:
    """Writes one element, in place: an on-chip value changes under all its names.

    A number has a dtype too, INDEX or FP32, and is converted as little as any scalar.
    """
    builder = call.builder
    owner, at = _place(call)
    node = call.node_of(2)
    value = scalars.scalar(builder, call.values[2], node, "the value")
    dtype = owner.type.dtype
    if value.dtype.of_elements is not dtype:
        builder.fail(
            "type",
            f"{call.form.spelling}: {value.dtype.with_article} scalar for {dtype} elements; the dtypes must be equal",
            node,
            f"convert it: pl.cast({ast.unparse(node)}, pl.{dtype.name})",
        )
    builder.emit(OpStmt("write", None, (owner, at, value), builder.loc(call.node)))
    return owner


RULES: dict[str, Rule] = {"read": read, "write": write}
