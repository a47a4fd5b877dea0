"""Rules: element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pypto.frontend import scalars
from pypto.frontend.rules.base import (
    Rule,
    constant,
    dtype_at,
    in_kernel,
    pair,
    result,
    same_shape,
    scalar_operand,
    tile_at,
    to_dtype,
)
from pypto.frontend.values import PyValue, Value, is_scalar
from pypto.ir.exprs import cast as cast_scalar
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import DataType

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall

MODES: Final = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
"""Rounding modes by their number."""

_SCALAR_SPELLING: Final = {
    "add": "adds",
    "sub": "subs",
    "mul": "muls",
    "div": "divs",
    "maximum": "maximums",
    "minimum": "minimums",
}


def like(type: TileType, dtype: DataType | None = None) -> TileType:
    """The type of a result with the shape and validity of an operand."""
    return TileType(type.shape, dtype or type.dtype, type.valid, tensor_level=type.tensor_level)


def promoted(call: BoundCall, a: Var, b: Var) -> tuple[Var, Var]:
    """Two values in one dtype: float beats integer, wider beats narrower, signed beats unsigned."""
    left, right = a.type.dtype, b.type.dtype
    if left is right:
        return a, b
    dtype = scalars.promote(left, right)
    if left.is_float and right.is_float and left.bits == right.bits:  # FP16 with BF16: neither holds the other
        from pypto.language.dtypes import FP32

        dtype = FP32
    elif left.is_float != right.is_float:
        dtype = left if left.is_float else right
    return to_dtype(call.builder, a, dtype, call.node), to_dtype(call.builder, b, dtype, call.node)


def binary(call: BoundCall) -> Value:
    """`op(a, b)` of two values, or of a value and a scalar."""
    in_kernel(call)
    core = call.form.op.core[0]
    if is_scalar(call.values[1]):
        return _with_scalar(call, core)
    a, b = promoted(call, *pair(call, 0, 1))
    wide, narrow = a.tile, b.tile
    if wide.shape != narrow.shape:
        if core in ("add", "sub", "mul", "div") and _is_column(narrow, wide):
            return result(call, f"row_expand_{core}", like(wide), (a, b))
        if core in ("add", "mul") and _is_column(wide, narrow):
            return result(call, f"row_expand_{core}", like(narrow), (b, a))
        if core in ("sub", "div") and _is_column(wide, narrow):
            call.builder.fail(
                "type",
                f"{call.form.spelling}: the left operand is the narrow one ({list(wide.shape)}), which would compute "
                f"X {'-' if core == 'sub' else '/'} v instead of v {'-' if core == 'sub' else '/'} X",
                call.node,
                "write pl.neg(pl.row_expand_sub(X, v))" if core == "sub" else "write pl.row_expand_mul(pl.recip(X), v)",
            )
        same_shape(call, a, b)
    return result(call, core, like(wide), (a, b))


def _is_column(narrow: TileType, wide: TileType) -> bool:
    return len(narrow.shape) == len(wide.shape) and narrow.shape[:-1] == wide.shape[:-1] and narrow.shape[-1] == 1


def _with_scalar(call: BoundCall, core: str) -> Value:
    tile, value = scalar_operand(call, 1, tile_at(call, 0))
    return result(call, _SCALAR_SPELLING[core], like(tile.tile), (tile, value))


def binary_scalar(call: BoundCall) -> Value:
    """`op(a, s)` in the spelling that only takes a scalar."""
    in_kernel(call)
    if not is_scalar(call.values[1]):
        name = call.form.op.core[0]
        call.builder.fail(
            "type",
            f"{call.form.spelling} takes a scalar on the right",
            call.node_of(1),
            f"of two values: pl.{name}(a, b)",
        )
    return _with_scalar(call, call.form.op.core[0])


def unary(call: BoundCall) -> Value:
    """`op(x)`."""
    in_kernel(call)
    tile = tile_at(call, 0)
    return result(call, call.form.op.name, like(tile.tile), (tile,))


def unary_float(call: BoundCall) -> Value:
    """`op(x)` of floats."""
    in_kernel(call)
    tile = tile_at(call, 0)
    if not tile.type.dtype.is_float:
        call.builder.fail(
            "type",
            f"{call.form.spelling} works on floats, got {tile.type.dtype}",
            call.node_of(0),
            "convert it first: pl.cast(x, pl.FP32)",
        )
    return result(call, call.form.op.name, like(tile.tile), (tile,))


def cast(call: BoundCall) -> Value:
    """`cast(x, dtype, mode)` of a value or a scalar."""
    dtype = (
        dtype_at(call, 1)
        if not (isinstance(call.values[1], PyValue) and is_scalar(call.values[0]))
        else _any_dtype(call)
    )
    mode = constant(call, "mode")
    if isinstance(mode, int) and not isinstance(mode, bool) and 0 <= mode < len(MODES):
        mode = MODES[mode]
    if mode not in MODES:
        call.builder.fail(
            "value", f"unknown rounding mode {mode!r}", call.node_named("mode"), f"modes are {', '.join(MODES)}"
        )
    if is_scalar(call.values[0]):
        return cast_scalar(call.values[0], dtype)
    in_kernel(call)
    tile = tile_at(call, 0)
    if tile.type.dtype is dtype:
        return tile
    return result(call, "cast", like(tile.tile, dtype), (tile,), target_type=dtype, mode=mode)


def _any_dtype(call: BoundCall) -> DataType:
    obj = call.values[1].obj
    return obj if isinstance(obj, DataType) else dtype_at(call, 1)


RULES: dict[str, Rule] = {
    "binary": binary,
    "binary_scalar": binary_scalar,
    "unary": unary,
    "unary_float": unary_float,
    "cast": cast,
}
