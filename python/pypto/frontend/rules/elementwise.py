"""Rules: element by element."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.frontend import scalars, validity
from pypto.frontend.rules import convert
from pypto.frontend.rules.base import (
    Rule,
    constant,
    converted,
    dtype_at,
    element_of,
    in_kernel,
    pair,
    result,
    same_shape,
    scalar_operand,
    tile_at,
    to_dtype,
)
from pypto.frontend.rules.levels import scratch, tensor_keyword
from pypto.frontend.values import PyValue, Value, describe, is_scalar
from pypto.ir.exprs import Const
from pypto.ir.exprs import cast as cast_scalar
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import BOOL, FP32, DataType
from pypto.language.enums import MemorySpace

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
    "fmod": "fmods",
    "rem": "rems",
    "bit_and": "ands",
    "bit_or": "ors",
    "bit_xor": "xors",
    "shl": "shls",
    "shr": "shrs",
}
"""How the scalar form of a core operation is spelled."""


def like(type: TileType, dtype: DataType | None = None) -> TileType:
    """The type of a result with the shape and validity of an operand."""
    return replace(type, dtype=dtype or type.dtype, space=MemorySpace.Vec)


def promoted(call: BoundCall, a: Var, b: Var) -> tuple[Var, Var]:
    """Two values in one dtype: float beats integer, wider beats narrower, signed beats unsigned."""
    left, right = a.type.dtype, b.type.dtype
    if left is right:
        return a, b
    dtype = scalars.promote(left, right)
    if left.is_float and right.is_float and left.bits == right.bits:  # FP16 with BF16: neither holds the other
        dtype = FP32
    elif left.is_float != right.is_float:
        dtype = left if left.is_float else right
    return to_dtype(call.builder, a, dtype, call.node), to_dtype(call.builder, b, dtype, call.node)


def numbers(call: BoundCall, tile: Var, position: int = 0) -> Var:
    """Refuses truth values."""
    if tile.type.dtype.is_bool:
        call.builder.fail(
            "type",
            f"{call.form.spelling} works on numbers, got {tile.type.dtype}",
            call.node_of(position),
            "a mask is used by pl.sel",
        )
    return tile


def floats(call: BoundCall, tile: Var, position: int = 0) -> Var:
    """Refuses what is not floating point."""
    if not tile.type.dtype.is_float:
        call.builder.fail(
            "type",
            f"{call.form.spelling} works on floats, got {tile.type.dtype}",
            call.node_of(position),
            "convert it first: pl.cast(x, pl.FP32)",
        )
    return tile


def binary(call: BoundCall) -> Value:
    """`op(a, b)` of two values, or of a value and a scalar."""
    in_kernel(call)
    core = call.form.op.core[0]
    if is_scalar(call.values[1]):
        return with_scalar(call, core)
    a, b = promoted(call, *pair(call, 0, 1))
    numbers(call, a)
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
    return result(call, _PLAIN.get(core, core), like(wide), (a, b))


def _is_column(narrow: TileType, wide: TileType) -> bool:
    return len(narrow.shape) == len(wide.shape) and narrow.shape[:-1] == wide.shape[:-1] and narrow.shape[-1] == 1


def with_scalar(call: BoundCall, core: str, position: int = 1) -> Var:
    """`op(x, s)`, the scalar converted to the dtype of the value."""
    tile, value = scalar_operand(call, position, tile_at(call, 0))
    return result(call, _SCALAR_SPELLING[core], like(numbers(call, tile).tile), (tile, value))


def binary_scalar(call: BoundCall) -> Value:
    """`op(a, s)` in the spelling that only takes a scalar."""
    in_kernel(call)
    core = call.form.op.core[0]
    if not is_scalar(call.values[1]):
        call.builder.fail(
            "type",
            f"{call.form.spelling} takes a scalar on the right",
            call.node_of(1),
            f"of two values: pl.{_PLAIN.get(core, core)}(a, b)",
        )
    return with_scalar(call, core)


def _integers(call: BoundCall, tile: Var, position: int) -> Var:
    if not tile.type.dtype.is_integer:
        call.builder.fail(
            "type",
            f"{call.form.spelling} works on integers, got {tile.type.dtype}",
            call.node_of(position),
            "convert it first: pl.cast(x, pl.INT32); of floats the bits: pl.reinterpret_view(x, pl.INT32)",
        )
    return tile


def bitwise(call: BoundCall) -> Value:
    """Bits of two integer values, or of one and a scalar."""
    in_kernel(call)
    scratch(call, call.values[0], "tmp")
    if is_scalar(call.values[1]):
        return bitwise_scalar(call)
    a, b = pair(call, 0, 1)
    a, b = promoted(call, _integers(call, a, 0), _integers(call, b, 1))
    same_shape(call, a, b)
    return result(call, _PLAIN.get(call.form.op.core[0], call.form.op.core[0]), like(a.tile), (a, b))


def bitwise_scalar(call: BoundCall) -> Value:
    """Bits of an integer value and a scalar."""
    in_kernel(call)
    scratch(call, call.values[0], "tmp")
    tile = _integers(call, tile_at(call, 0), 0)
    core = call.form.op.core[0]
    value = scalars.integer(call.builder, call.values[1], call.node_of(1), f"'rhs' of {call.form.spelling}")
    if core not in ("shl", "shr"):
        value = element_of(value, tile.type.dtype)
    return result(call, _SCALAR_SPELLING[core], like(tile.tile), (tile, value))


def bit_not(call: BoundCall) -> Value:
    """The complement."""
    in_kernel(call)
    tile = _integers(call, tile_at(call, 0), 0)
    return result(call, "not_", like(tile.tile), (tile,))


def unary(call: BoundCall) -> Value:
    """`op(x)` of numbers."""
    in_kernel(call)
    tile = numbers(call, tile_at(call, 0))
    if call.form.op.name in ("abs", "relu") and not tile.type.dtype.is_signed:
        return tile
    return result(call, call.form.op.name, like(tile.tile), (tile,))


def unary_float(call: BoundCall) -> Value:
    """`op(x)` of floats."""
    in_kernel(call)
    if call.form.op.name == "rsqrt":
        hint = "leave it out: rsqrt is always in full precision here"
        tensor_keyword(call, call.values[0], "high_precision", False, hint)
    tile = floats(call, tile_at(call, 0))
    return result(call, call.form.op.name, like(tile.tile), (tile,))


def leaky(call: BoundCall) -> Value:
    """`x` where positive, else `x * slope` with one slope, or one per element."""
    in_kernel(call)
    if is_scalar(call.values[1]):
        tile, slope = scalar_operand(call, 1, tile_at(call, 0))
        scaled = result(call, "muls", like(numbers(call, tile).tile), (tile, slope))
    else:
        tile, slopes = promoted(call, *pair(call, 0, 1))
        same_shape(call, numbers(call, tile), slopes)
        scaled = result(call, "mul", like(tile.tile), (tile, slopes))
    zero = Const(0.0, FP32) if tile.type.dtype.is_float else Const(0, tile.type.dtype)
    mask = result(call, "cmps", like(tile.tile, BOOL), (tile, zero), cmp_type=4)
    return result(call, "sel", like(tile.tile), (mask, tile, scaled))


def carry(call: BoundCall) -> Value:
    """`lhs + rhs + rhs2` and `lhs - rhs + rhs2`; the middle operand is a scalar in the forms that end in `sc`."""
    in_kernel(call)
    first = "sub" if call.form.op.core[0] == "sub" else "add"
    scalar = call.form.op.name.endswith("sc")
    if is_scalar(call.values[1]) != scalar:
        other = call.form.op.name.replace("sc", "c") if scalar else call.form.op.name.replace("c", "sc")
        call.builder.fail(
            "type",
            f"{call.form.spelling}: 'rhs' is {'a scalar' if scalar else 'a tile'}, got {describe(call.values[1])}",
            call.node_of(1),
            f"write pl.{other}(lhs, rhs, rhs2)",
        )
    last = tile_at(call, 2)
    if scalar:
        tile, value = scalar_operand(call, 1, tile_at(call, 0))
        step = result(call, f"{first}s", like(numbers(call, tile).tile), (tile, value))
    else:
        tile, middle = promoted(call, *pair(call, 0, 1))
        same_shape(call, numbers(call, tile), middle)
        step = result(call, first, like(tile.tile), (tile, middle))
    step, last = promoted(call, step, last)
    same_shape(call, step, last)
    return result(call, "add", like(step.tile), (step, last))


def partial(call: BoundCall) -> Value:
    """Two values combined where both are valid, copied where one is. What is valid of either is valid of the result."""
    in_kernel(call)
    a, b = promoted(call, *pair(call, 0, 1))
    same_shape(call, numbers(call, a), b)
    valid = tuple(validity.larger(call, x, y) for x, y in zip(a.tile.valid, b.tile.valid, strict=True))
    type = replace(like(a.tile), valid=valid)
    return result(call, call.form.op.name, type, (a, b))


def cast(call: BoundCall) -> Value:
    """`cast(x, dtype, mode)` of a value or a scalar."""
    mode = constant(call, "mode")
    if isinstance(mode, int) and not isinstance(mode, bool) and 0 <= mode < len(MODES):
        mode = MODES[mode]
    if mode not in MODES:
        call.builder.fail(
            "value", f"unknown rounding mode {mode!r}", call.node_named("mode"), f"modes are {', '.join(MODES)}"
        )
    if is_scalar(call.values[0]):
        given = call.values[1]
        named = isinstance(given, PyValue) and isinstance(given.obj, DataType)
        return cast_scalar(call.values[0], given.obj if named else dtype_at(call, 1))
    dtype = dtype_at(call, 1)
    in_kernel(call)
    tile = tile_at(call, 0)
    source = tile.type.dtype
    if source is not dtype and convert.chain(source, dtype) is None:
        known = ", ".join(other.name for other in convert.reachable(source))
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the chip has no conversion from {source} to {dtype}, in any number of steps",
            call.node,
            (f"{source} converts to {known}; " if known else "")
            + f"the same bits as another dtype: pl.reinterpret_view(x, pl.{dtype})",
        )
    return converted(call.builder, tile, dtype, call.node, mode)


_PLAIN: Final = {"bit_and": "and_", "bit_or": "or_", "bit_xor": "xor"}
"""How the form of two values of a core operation is spelled, where not as the core does."""

RULES: dict[str, Rule] = {
    "binary": binary,
    "binary_scalar": binary_scalar,
    "bitwise": bitwise,
    "bitwise_scalar": bitwise_scalar,
    "bit_not": bit_not,
    "unary": unary,
    "unary_float": unary_float,
    "leaky": leaky,
    "carry": carry,
    "partial": partial,
    "cast": cast,
}
