"""Rules: what fills the part of a box that is not valid."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.frontend.rules.base import Rule, in_kernel, result, static_shape, tile_at
from pypto.frontend.values import PyValue, Value, describe
from pypto.ir.exprs import Const
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import FP32, DataType
from pypto.language.enums import PadValue

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def pad_constant(call: BoundCall, dtype: DataType) -> Const:
    """What `pad_value` means for elements of `dtype`: floats have infinite limits, as in the simulator."""
    value = call.given("pad_value")
    if isinstance(value, PyValue):
        value = value.obj
    number = value.value if isinstance(value, Const) else value
    limits = {
        PadValue.zero: 0.0,
        PadValue.min: -math.inf,
        PadValue.max: math.inf,
    }
    if isinstance(number, PadValue) and number in limits:
        number = limits[number]
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not (number == 0 or math.isinf(number)):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: 'pad_value' is {describe(call.given('pad_value'))}",
            call.node_named("pad_value"),
            "write pl.PadValue.zero, min or max, 0, or an infinity",
        )
    if dtype.is_float:
        return Const(float(number), FP32)
    if dtype.is_bool:
        return Const(number > 0, dtype)
    lowest = -(1 << dtype.bits - 1) if dtype.is_signed else 0
    highest = (1 << dtype.bits - dtype.is_signed) - 1
    return Const(0 if number == 0 else highest if number > 0 else lowest, dtype)


def filled(call: BoundCall, tile: Var) -> Var:
    """The value with what is not valid of it filled."""
    old = tile.tile
    type = replace(old, valid=old.shape)
    return result(call, "fillpad", type, (tile,), pad_value=pad_constant(call, old.dtype))


def fillpad(call: BoundCall) -> Value:
    """`fillpad(x, pad_value)`."""
    in_kernel(call)
    return filled(call, tile_at(call, 0))


def fillpad_expand(call: BoundCall) -> Value:
    """`fillpad_expand(x, shape, pad_value)`."""
    in_kernel(call)
    tile, shape = tile_at(call, 0), static_shape(call, 1)
    old = tile.tile
    if len(shape) != len(old.shape) or any(new < have for new, have in zip(shape, old.shape, strict=True)):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {list(shape)} is no larger box than {list(old.shape)}",
            call.node_of(1),
            "give an extent for each axis, no smaller than that of the value",
        )
    type = TileType(shape, old.dtype, shape, old.space, old.tensor_level)
    return result(call, "fillpad_expand", type, (tile,), pad_value=pad_constant(call, old.dtype))


RULES: dict[str, Rule] = {"fillpad": fillpad, "fillpad_expand": fillpad_expand}
