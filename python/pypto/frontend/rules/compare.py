"""Rules: comparisons, and selection by what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend.rules.base import (
    Rule,
    constant,
    in_kernel,
    pair,
    result,
    same_shape,
    scalar_operand,
    tile_at,
    to_dtype,
)
from pypto.frontend.rules.elementwise import like, numbers, promoted
from pypto.frontend.rules.levels import is_tile
from pypto.frontend.values import Value, is_scalar
from pypto.ir.exprs import Const, index
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import BOOL, INT32, UINT8

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
"""By the number that `cmp_type` gives them."""


def comparison(call: BoundCall, name: str) -> int:
    """The number of the comparison that a keyword names."""
    value = constant(call, name)
    if isinstance(value, str) and value.lower() in COMPARISONS:
        return COMPARISONS.index(value.lower())
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(COMPARISONS):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {name!r} is {value!r}",
            call.node_named(name),
            "0 is equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal",
        )
    return value


def compare(call: BoundCall) -> Value:
    """Of tensors 0 or 1 in their dtype; of tiles a mask."""
    in_kernel(call)
    mask = is_tile(call, call.values[0]) or call.form.op.name == "cmps"
    kind = comparison(call, "cmp_type")
    if is_scalar(call.values[1]):
        tile, value = scalar_operand(call, 1, tile_at(call, 0))
        numbers(call, tile)
        type = like(tile.tile, BOOL) if mask else like(tile.tile)
        return result(call, "cmps", type, (tile, value), cmp_type=kind)
    a, b = promoted(call, *pair(call, 0, 1))
    same_shape(call, numbers(call, a), b)
    return result(call, "cmp", like(a.tile, BOOL) if mask else like(a.tile), (a, b), cmp_type=kind)


def select(call: BoundCall) -> Value:
    """`sel(mask, lhs, rhs, tmp)`, `sels(mask, src, tmp, scalar)`."""
    in_kernel(call)
    mask = tile_at(call, 0)
    if call.form.op.name == "sels":
        tile, value = scalar_operand(call, 3, tile_at(call, 1))
        return result(call, "sels", like(tile.tile), (_mask(call, mask, tile), tile, value))
    a, b = promoted(call, *pair(call, 1, 2))
    same_shape(call, a, b)
    return result(call, "sel", like(a.tile), (_mask(call, mask, a), a, b))


def _mask(call: BoundCall, mask: Var, beside: Var) -> Var:
    """The mask as one truth value per element; packed bits are spread."""
    if mask.type.dtype.is_bool:
        same_shape(call, mask, beside)
        return mask
    return _spread_bits(call, mask, beside.tile)


def _spread_bits(call: BoundCall, mask: Var, wanted: TileType) -> Var:
    """A mask of one bit per element, the lowest bit of a byte first, as truth values."""
    (rows, cols), (mask_rows, mask_cols) = wanted.physical, mask.tile.physical
    bytes_per_row = mask_cols * mask.type.dtype.get_byte()
    if not mask.type.dtype.is_integer or mask_rows != rows or bytes_per_row * 8 < cols:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {list(mask.tile.shape)} {mask.type.dtype} is no mask for {list(wanted.shape)}",
            call.node_of(0),
            "make it with pl.cmp(a, b, cmp_type=...), or pack one bit for each element into UINT8",
        )
    if mask.type.dtype is not UINT8:
        flat = TileType((rows, bytes_per_row), UINT8, (rows, bytes_per_row))
        mask = result(call, "reinterpret_view", flat, (mask,), dtype=UINT8)
    line = TileType((1, cols), INT32, (1, cols))
    grid = TileType((rows, cols), INT32, (rows, cols))
    columns = result(call, "arange", line, (index(0),), descending=False)
    spread = result(call, "expand_clone", grid, (columns, result(call, "create_tile", grid, ())))
    place = result(call, "shrs", grid, (spread, index(3)))
    picked = result(call, "gather", TileType((rows, cols), UINT8, (rows, cols)), (mask, place))
    numbers = to_dtype(call.builder, picked, INT32, call.node)
    bit = result(call, "ands", grid, (spread, Const(7, INT32)))
    shifted = result(call, "shr", grid, (numbers, bit))
    low = result(call, "ands", grid, (shifted, Const(1, INT32)))
    type = TileType((rows, cols), BOOL, (rows, cols))
    return result(call, "cmps", type, (low, Const(0, INT32)), cmp_type=1)


RULES: dict[str, Rule] = {"compare": compare, "select": select}
