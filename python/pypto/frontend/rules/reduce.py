"""Rules: reductions along rows, and operations that broadcast a row or a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend.rules.base import Rule, in_kernel, pair, result, tile_at
from pypto.frontend.rules.elementwise import like, promoted
from pypto.frontend.values import Value
from pypto.ir.nodes import Var
from pypto.ir.types import TileType

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def row_reduce(call: BoundCall) -> Value:
    """`[M, N]` to `[M, 1]`. `tmp_tile` is scratch that this device does not need."""
    in_kernel(call)
    type = tile_at(call, 0)
    tile = type.tile
    reduced = TileType((*tile.shape[:-1], 1), tile.dtype, (*tile.valid[:-1], 1), tensor_level=tile.tensor_level)
    return result(call, call.form.op.name, reduced, (type,))


def row_expand_binary(call: BoundCall) -> Value:
    """`x op v` with one `v` per row."""
    return _expand(call, lambda wide, narrow: narrow.shape == (*wide.shape[:-1], 1), "[M, 1]")


def col_expand_binary(call: BoundCall) -> Value:
    """`x op v` with one `v` per column."""
    return _expand(call, lambda wide, narrow: narrow.physical == (1, wide.physical[1]), "[1, N]")


def _expand(call: BoundCall, fits, wanted: str) -> Value:  # type: ignore[no-untyped-def]
    in_kernel(call)
    wide, narrow = promoted(call, *pair(call, 0, 1))
    _require(call, wide, narrow, fits(wide.tile, narrow.tile), wanted)
    return result(call, call.form.op.name, like(wide.tile), (wide, narrow))


def _require(call: BoundCall, wide: Var, narrow: Var, fits: bool, wanted: str) -> None:
    if fits:
        return
    other = "col" if wanted == "[M, 1]" else "row"
    name = call.form.op.name.partition("_expand_")[2]
    call.builder.fail(
        "type",
        f"{call.form.spelling}: beside {list(wide.tile.shape)} the second operand must be {wanted}, "
        f"got {list(narrow.tile.shape)}",
        call.node_of(1),
        f"{'[1, N]: pl.col' if other == 'col' else '[M, 1]: pl.row'}_expand_{name}; equal shapes: pl.{name}",
    )


RULES: dict[str, Rule] = {
    "row_reduce": row_reduce,
    "row_expand_binary": row_expand_binary,
    "col_expand_binary": col_expand_binary,
}
