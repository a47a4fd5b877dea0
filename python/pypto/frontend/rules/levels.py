"""Rules: which keywords belong to which level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.frontend.rules.base import constant
from pypto.frontend.values import NONE, Value, describe
from pypto.ir.nodes import Var
from pypto.ir.types import TileType

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def is_tile(call: BoundCall, value: Value) -> bool:
    """Whether a call on `value` is one of the tile level."""
    if call.form.namespace in ("tile", "tensor"):
        return call.form.namespace == "tile"
    return _tile(value)


def tensor_keyword(call: BoundCall, value: Value, name: str, default: Any, hint: str) -> None:
    """Refuses a keyword of the tensor level, with another value than its default, beside a tile."""
    if not is_tile(call, value) or call.form.namespace == "tile":
        return  # `pl.tile` has no such parameter
    if call.given(name) is not None and constant(call, name) != default:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {name!r} belongs to tensors, and this is a tile",
            call.node_named(name),
            hint,
        )


def scratch(call: BoundCall, value: Value, name: str) -> None:
    """Checks scratch space, which operations on tiles take and operations on tensors do not."""
    given = call.given(name)
    scratch = None if given == NONE else given
    on_chip = isinstance(scratch, Var) and isinstance(scratch.type, TileType)
    if is_tile(call, value):
        tile_form = call.form.op.forms["tile"]
        if scratch is None and name == "tmp_tile" and any(p.name == name and p.required for p in tile_form.accepted):
            message = f"{call.form.spelling} of a tile needs {name!r}, which only tensors do without"
            hint = f"make one of the same shape: {name} = pl.create_tile([rows, cols], dtype=..)"
            call.builder.fail("type", message, call.node, hint)
        if scratch is not None and not on_chip:
            message = f"{call.form.spelling}: {name!r} must be a tile, got {describe(scratch)}"
            call.builder.fail(
                "type", message, call.node_named(name), "pl.create_tile([rows, cols], dtype=..) makes one"
            )
    elif scratch is not None and not (on_chip and isinstance(value, Var) and not value.is_tensor and _tile(scratch)):
        # An on-chip value beside a tile may be one itself, whatever made it: pl.full gives both levels.
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {name!r} belongs to tiles, and this is a tensor",
            call.node_named(name),
            f"leave {name!r} out",
        )


def _tile(value: Value) -> bool:
    return isinstance(value, Var) and isinstance(value.type, TileType) and not value.type.tensor_level
