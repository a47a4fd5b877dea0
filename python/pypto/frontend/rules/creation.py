"""Rules: creation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pypto.frontend import scalars, validity
from pypto.frontend.rules.base import (
    Rule,
    absent,
    constant,
    dims,
    dtype_at,
    element_of,
    in_kernel,
    result,
    static_shape,
    valid_shape,
)
from pypto.frontend.values import Value
from pypto.ir.exprs import Const, Expr, cast, of_dim
from pypto.ir.types import TensorType, TileType
from pypto.language.dtypes import BF16, FP16, INT32, UINT32, DataType
from pypto.language.enums import MemorySpace

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def create_tensor(call: BoundCall) -> Value:
    """Device memory in orchestration code, an on-chip value in a kernel."""
    builder = call.builder
    dtype = dtype_at(call, 1)
    init = call.given("init_value")
    if builder.level == "kernel":
        shape = static_shape(call, 0)
        type = TileType(shape, dtype, shape, tensor_level=True)
        if absent(init):
            return builder.op("create_tile", type, (), call.node)
        return builder.op("full", type, (_fill_value(call, init, dtype, "init_value"),), call.node)
    extents = dims(call, 0, "shape")
    if not extents:
        builder.fail(
            "value",
            f"{call.form.spelling}: shape is empty",
            call.node_of(0),
            "write one extent for each axis: [16, 64]",
        )
    for extent in extents:
        if isinstance(extent, int) and extent <= 0:
            builder.fail(
                "value",
                f"{call.form.spelling}: an extent of shape is {extent}",
                call.node_of(0),
                "extents are positive",
            )
    fill = None if absent(init) else _fill_value(call, init, dtype, "init_value")
    if fill is not None and not isinstance(fill, Const):
        builder.fail(
            "type",
            f"{call.form.spelling}: 'init_value' must be known at compile time",
            call.node_named("init_value"),
            "write a number, or leave it out and write the tensor in a kernel",
        )
    if fill is not None and fill.value and (dtype in (BF16, FP16) or not math.isfinite(fill.value)):
        builder.fail(
            "value",
            f"{call.form.spelling}: device memory of {dtype} cannot start as {fill.value}: the runtime fills it with "
            "zero, an integer, or a finite FP32 number",
            call.node_named("init_value"),
            f"write it in a kernel: t[:] = pl.full(shape, dtype=pl.{dtype}, value={fill.value})",
        )
    attrs = {"init_value": fill.value if isinstance(fill, Const) else None}
    manual = call.given("manual_dep")
    if isinstance(manual, Const) and manual.value:
        attrs["manual_dep"] = True
    return builder.op(
        "create_tensor", TensorType(extents, dtype), (tuple(of_dim(dim) for dim in extents),), call.node, attrs
    )


def create_tile(call: BoundCall) -> Value:
    """An on-chip value without a defined content."""
    in_kernel(call)
    shape, dtype = static_shape(call, 0), dtype_at(call, 1)
    space = constant(call, "target_memory")
    type = TileType(shape, dtype, shape, space if isinstance(space, MemorySpace) else MemorySpace.Vec)
    return call.builder.op("create_tile", type, (), call.node)


def full(call: BoundCall) -> Value:
    """A value with every element equal."""
    in_kernel(call)
    shape, dtype = static_shape(call, 0), dtype_at(call, 1)
    value = _fill_value(call, call.values[2], dtype, "value")
    type = TileType(shape, dtype, shape, tensor_level=call.form.namespace != "tile")
    return call.builder.op("full", type, (value,), call.node)


def _fill_value(call: BoundCall, value: Value, dtype: DataType, name: str) -> Expr:
    node = call.node_named(name)
    expr = scalars.scalar(call.builder, value, node, f"{name!r} of {call.form.spelling}")
    if isinstance(expr, Const):
        if expr.dtype.is_float and not dtype.is_float:
            if float(expr.value) != int(expr.value):
                call.builder.fail(
                    "type",
                    f"{call.form.spelling}: {expr.value} is not an integer, and the dtype is {dtype}",
                    node,
                    "write an integer, or choose a float dtype",
                )
            return cast(expr, dtype)
        return element_of(expr, dtype)
    if expr.dtype.is_float != dtype.is_float:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {expr.dtype.with_article} scalar for {dtype} elements",
            node,
            f"convert it: pl.cast(x, pl.{dtype.name})",
        )
    return expr


def create_l1(call: BoundCall) -> Value:
    """An accumulator for `gather_row`."""
    in_kernel(call)
    shape, dtype = static_shape(call, 0), dtype_at(call, 1)
    return call.builder.op("create_tile", TileType(shape, dtype, shape, MemorySpace.Mat, True), (), call.node)


def arange(call: BoundCall) -> Value:
    """Consecutive integers in one row."""
    in_kernel(call)
    shape, dtype = static_shape(call, 1), dtype_at(call, 2)
    if any(extent != 1 for extent in shape[:-1]):
        call.builder.fail(
            "value",
            f"{call.form.spelling} makes one row, got shape {list(shape)}",
            call.node_of(1),
            f"write [1, {shape[-1]}] and spread it: pl.col_expand(target, row)",
        )
    if not dtype.is_integer:
        call.builder.fail(
            "type", f"{call.form.spelling} makes integers, got {dtype}", call.node_of(2), "convert it: pl.cast(x, ...)"
        )
    start = scalars.integer(call.builder, call.values[0], call.node_of(0), f"'start' of {call.form.spelling}")
    type = TileType(shape, dtype, shape, tensor_level=call.form.namespace != "tile")
    return result(call, "arange", type, (start,), descending=bool(constant(call, "descending")))


def random(call: BoundCall) -> Value:
    """Philox bits."""
    in_kernel(call)
    builder = call.builder
    words = tuple(scalars.integer(builder, call.values[at], call.node_of(at), "a key or counter") for at in range(6))
    shape = static_shape(call, 6)
    valid = valid_shape(call, shape)
    dtype = dtype_at(call, 8 if call.form.namespace == "tile" else 7)
    if dtype not in (UINT32, INT32):
        message = f"{call.form.spelling} makes UINT32 or INT32, got {dtype}"
        builder.fail("type", message, call.node_named("dtype"), "leave it out, and convert the bits")
    rounds = constant(call, "rounds")
    if not isinstance(rounds, int) or not 1 <= rounds <= 32:
        message = f"{call.form.spelling}: {rounds!r} rounds"
        builder.fail("value", message, call.node_named("rounds"), "give a number from 1 to 32, usually 7 or 10")
    level = call.form.namespace != "tile"
    validity.require_rows(call, shape, valid)
    type = TileType(shape, UINT32, valid, tensor_level=level)
    bits = result(call, "random", type, words, valid_shape=valid, rounds=rounds)
    if dtype is UINT32:
        return bits
    return result(call, "reinterpret_view", TileType(shape, INT32, valid, tensor_level=level), (bits,), dtype=INT32)


def tri(call: BoundCall) -> Value:
    """Ones below or above a diagonal."""
    in_kernel(call)
    diagonal = scalars.integer(call.builder, call.values[0], call.node_of(0), f"'diagonal' of {call.form.spelling}")
    shape, dtype = static_shape(call, 1), dtype_at(call, 3)
    if len(shape) != 2:
        message = f"{call.form.spelling} makes a matrix, got shape {list(shape)}"
        call.builder.fail("value", message, call.node_of(1), "write [rows, columns]")
    valid = valid_shape(call, shape)
    upper = bool(constant(call, "upper"))
    return result(call, "tri", TileType(shape, dtype, valid), (diagonal,), valid_shape=valid, upper=upper)


RULES: dict[str, Rule] = {
    "create_tensor": create_tensor,
    "create_tile": create_tile,
    "create_l1": create_l1,
    "full": full,
    "arange": arange,
    "random": random,
    "tri": tri,
}
