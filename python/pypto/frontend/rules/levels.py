"""Rules: which keywords belong to which level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.frontend.rules.base import constant
from pypto.frontend.values import NONE, Value, Window
from pypto.ir.nodes import Var
from pypto.ir.types import TileType

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def is_tile(call: BoundCall, value: Value) -> bool:
    """Whether a call on `value` is one of the tile level."""
    if call.form.namespace in ("tile", "tensor"):
        return call.form.namespace == "tile"
    return isinstance(value, Var) and isinstance(value.type, TileType) and not value.type.tensor_level


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


def tile_keyword(call: BoundCall, value: Value, name: str) -> None:
    """Refuses scratch space, which only tile operations take, beside a tensor."""
    in_memory = isinstance(value, Window) or (isinstance(value, Var) and value.is_tensor)
    given = call.given(name)
    if in_memory and given is not None and given != NONE:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {name!r} belongs to tiles, and this is a tensor",
            call.node_named(name),
            f"leave {name!r} out",
        )
