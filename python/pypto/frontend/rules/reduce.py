"""Rules: reductions, and operations that broadcast a row or a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pypto.frontend.rules.base import Rule, element_of, in_kernel, pair, result, tile_at
from pypto.frontend.rules.elementwise import floats, like, numbers, promoted
from pypto.frontend.rules.levels import scratch
from pypto.frontend.scalars import scalar
from pypto.frontend.values import Value, Window, describe
from pypto.ir.exprs import Const
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import INT32

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def _reduced(call: BoundCall, axis: int) -> Value:
    in_kernel(call)
    scratch(call, call.values[0], "tmp_tile")
    source = numbers(call, tile_at(call, 0))
    tile = source.tile
    dtype = INT32 if "_arg" in call.form.op.name else tile.dtype
    shape, valid = list(tile.shape), list(tile.valid)
    shape[axis], valid[axis] = 1, 1
    spread = (*tile.spread[:-1], 1) if tile.spread and axis == -1 else None
    type = TileType(tuple(shape), dtype, tuple(valid), tensor_level=tile.tensor_level, spread=spread)
    return result(call, call.form.op.name, type, (source,))


def row_reduce(call: BoundCall) -> Value:
    """`[M, N]` to `[M, 1]`. `tmp_tile` is scratch that this device does not need."""
    return _reduced(call, -1)


def col_reduce(call: BoundCall) -> Value:
    """`[M, N]` to `[1, N]`."""
    value = call.values[0]
    shape = (value.shape if isinstance(value, Window) else value.type.shape) if isinstance(value, (Var, Window)) else ()
    if len(shape) < 2 or any(extent != 1 for extent in shape[:-2]):
        call.builder.fail(
            "type",
            f"{call.form.spelling} reduces the columns of [M, N], got {describe(value)}",
            call.node_of(0),
            "reshape it to two axes first, or take one plane: x[i]",
        )
    return _reduced(call, -2)


def row_expand_binary(call: BoundCall) -> Value:
    """`x op v` with one `v` per row."""
    return _expanded(call, lambda wide, narrow: narrow.physical == (wide.physical[0], 1), "[M, 1]")


def col_expand_binary(call: BoundCall) -> Value:
    """`x op v` with one `v` per column."""
    return _expanded(call, lambda wide, narrow: narrow.physical == (1, wide.physical[1]), "[1, N]")


def _expanded(call: BoundCall, fits: Callable[[TileType, TileType], bool], wanted: str) -> Value:
    in_kernel(call)
    scratch(call, call.values[0], "tmp")
    wide, narrow = promoted(call, *pair(call, 0, 1))
    _require(call, numbers(call, wide).tile, narrow, fits(wide.tile, narrow.tile), wanted)
    name = call.form.op.name
    if not name.endswith("_expdif"):
        return result(call, name, like(wide.tile), (wide, narrow))
    difference = result(call, name.replace("expdif", "sub"), like(floats(call, wide).tile), (wide, narrow))
    return result(call, "exp", like(wide.tile), (difference,))


def _require(call: BoundCall, wide: TileType, narrow: Var, fits: bool, wanted: str) -> None:
    if fits:
        return
    other = "col" if wanted == "[M, 1]" else "row"
    name = call.form.op.name.partition("_expand_")[2]
    hint = f"{'[1, N]: pl.col' if other == 'col' else '[M, 1]: pl.row'}_expand"
    plain = {"max": "maximum", "min": "minimum"}.get(name, name)
    call.builder.fail(
        "type",
        f"{call.form.spelling}: beside {list(wide.shape)} the second operand must be {wanted}, "
        f"got {list(narrow.tile.shape)}",
        call.node_of(1),
        f"{hint}_{name}; equal shapes: pl.{plain}" if name not in ("", "expdif") else hint + (name and f"_{name}"),
    )


def _template(call: BoundCall, position: int) -> Var:
    """A value whose shape and validity matter, not its elements: device memory is not read."""
    value = call.values[position]
    shape = value.shape if isinstance(value, Window) else value.type.shape if isinstance(value, Var) else ()
    static = all(isinstance(extent, int) for extent in shape)
    if isinstance(value, Window) and value.valid == value.extents and shape and static:
        dtype = value.base.type.dtype
    elif isinstance(value, Var) and value.is_tensor and shape and static:
        dtype = value.type.dtype
    else:
        return tile_at(call, position)
    type = TileType(shape, dtype, shape, tensor_level=True)  # type: ignore[arg-type]  # checked to be static
    return result(call, "create_tile", type, ())


def row_expand(call: BoundCall) -> Value:
    """One number per row, spread over the shape of the target."""
    in_kernel(call)
    target, narrow = _template(call, 0), tile_at(call, 1)
    fits = narrow.tile.physical == (target.tile.physical[0], 1)
    _require(call, target.tile, narrow, fits, "[M, 1]")
    return result(call, "row_expand", like(target.tile, narrow.type.dtype), (target, narrow))


def col_expand(call: BoundCall) -> Value:
    """One number per column, spread over the shape of the target."""
    in_kernel(call)
    target, narrow = _template(call, 0), tile_at(call, 1)
    fits = narrow.tile.physical == (1, target.tile.physical[1])
    _require(call, target.tile, narrow, fits, "[1, N]")
    return result(call, "col_expand", like(target.tile, narrow.type.dtype), (target, narrow))


def expand_clone(call: BoundCall) -> Value:
    """A row, a column or one element, spread over the shape of the target."""
    in_kernel(call)
    narrow, target = tile_at(call, 0), _template(call, 1)
    pairs = zip(narrow.tile.physical, target.tile.physical, strict=True)
    if any(have not in (1, want) for have, want in pairs):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {list(narrow.tile.shape)} does not broadcast to {list(target.tile.shape)}",
            call.node_of(0),
            "the source has one row, one column or one element",
        )
    return result(call, "expand_clone", like(target.tile, narrow.type.dtype), (narrow, target))


def expands(call: BoundCall) -> Value:
    """A scalar, spread over the shape of the target."""
    in_kernel(call)
    target = _template(call, 0)
    dtype = target.type.dtype
    value = scalar(call.builder, call.values[1], call.node_of(1), f"'scalar' of {call.form.spelling}")
    if value.dtype.is_float != dtype.is_float and not (dtype.is_float and isinstance(value, Const)):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {value.dtype.with_article} scalar for {dtype} elements",
            call.node_of(1),
            f"convert it: pl.cast(x, pl.{dtype})",
        )
    return result(call, "expands", like(target.tile), (target, element_of(value, dtype)))


RULES: dict[str, Rule] = {
    "row_reduce": row_reduce,
    "col_reduce": col_reduce,
    "row_expand_binary": row_expand_binary,
    "col_expand_binary": col_expand_binary,
    "row_expand": row_expand,
    "col_expand": col_expand,
    "expand_clone": expand_clone,
    "expands": expands,
}
