"""What rules share: reading operands, shapes and dtypes out of a matched call, and emitting the result."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pypto.frontend import scalars, views
from pypto.frontend.builder import Builder
from pypto.frontend.rules import convert
from pypto.frontend.values import PyValue, Value, Window, describe, is_outside_tensor, is_scalar
from pypto.ir.exprs import Const, Dim, Expr, cast, to_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TensorType, TileType, same_extents
from pypto.language.dtypes import BF16, FP16, FP32, DataType

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall

Rule: TypeAlias = Callable[["BoundCall"], Value]


def in_kernel(call: BoundCall) -> None:
    """Refuses arithmetic on tensors in orchestration code."""
    if call.builder.level != "kernel":
        call.builder.fail(
            "type",
            f"Misplaced tensor op {call.form.spelling}: it computes, and this is orchestration code; "
            "it should be inside InCore block",
            call.node,
            "put it into a kernel: `with pl.at(level=pl.Level.CORE_GROUP):` around it, or an @pl.jit.incore function",
        )


def tile_at(call: BoundCall, position: int) -> Var:
    """The argument as an on-chip value; device memory is loaded."""
    value = call.values[position]
    if isinstance(value, Var) and isinstance(value.type, TileType):
        return value
    in_kernel(call)
    node = call.node_of(position)
    if isinstance(value, Window):  # a slice in a kernel is a load
        return views.load_window(call.builder, value, node)
    if isinstance(value, Var):
        if _is_of_tiles(call):
            call.builder.fail(
                "type",
                f"{call.form.spelling} works on tiles, got {describe(value)}",
                node,
                f"load it: pl.load({value.name}, offsets, shapes)",
            )
        return views.load_whole(call.builder, value, node)
    name = call.form.accepted[position].name
    hint = "load it, or make it with pl.full([...], dtype, value)"
    if is_outside_tensor(value):
        hint = "make it a parameter of the kernel, and pass it in each call"
    if is_scalar(value) and position == 0 and len(call.values) > 1:
        hint = "the scalar stands on the right: pl.add(x, 1.0); for s - x write pl.add(pl.neg(x), s)"
        if isinstance(node, ast.Name):
            hint += "; a running total starts as pl.full([...], dtype, 0.0)"
    call.builder.fail(
        "type", f"{call.form.spelling}: {name!r} must be a tile or a tensor, got {describe(value)}", node, hint
    )


def _is_of_tiles(call: BoundCall) -> bool:
    """Whether the tensor level has no such operation: device memory is loaded by the author."""
    return call.form.namespace == "tile" or ("tensor" not in call.form.op.forms and "tile" in call.form.op.forms)


def tile_value(builder: Builder, value: Value, node: ast.AST, what: str) -> Var:
    """`value` as an on-chip value, outside a call of an operation."""
    if isinstance(value, Window):
        return views.load_window(builder, value, node)
    if isinstance(value, Var):
        return value if isinstance(value.type, TileType) else views.load_whole(builder, value, node)
    hint = (
        "write pl.full([...], dtype, value), or pl.write for one element"
        if is_scalar(value)
        else "give it a tensor or an on-chip value"
    )
    builder.fail("type", f"{what} must be a tile or a tensor, got {describe(value)}", node, hint)


def pair(call: BoundCall, first: int, second: int) -> tuple[Var, Var]:
    """Two arguments as on-chip values; the same device memory is loaded once."""
    left = tile_at(call, first)
    if call.values[second] is call.values[first] and not isinstance(call.values[first], Window):
        return left, left
    return left, tile_at(call, second)


def tensor_at(call: BoundCall, position: int) -> Var | Window:
    """The argument as device memory."""
    value = call.values[position]
    if isinstance(value, Window) or (isinstance(value, Var) and isinstance(value.type, TensorType)):
        return value
    name = call.form.accepted[position].name
    call.builder.fail(
        "type",
        f"{call.form.spelling}: {name!r} must be a tensor in device memory, got {describe(value)}",
        call.node_of(position),
        "pass a parameter, or a slice of one; an on-chip value is passed to operations as it is",
    )


def sequence(call: BoundCall, position: int, what: str) -> tuple[Value, ...]:
    """The argument as a list."""
    value = call.values[position]
    if isinstance(value, tuple):
        return value
    if is_scalar(value):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {what} is a list, got {describe(value)}",
            call.node_of(position),
            f"write [{ast.unparse(call.node_of(position))}]",
        )
    call.builder.fail(
        "type",
        f"{call.form.spelling}: {what} is a list, got {describe(value)}",
        call.node_of(position),
        "write it in brackets, one item for each axis: [i, 0]",
    )


def integers(call: BoundCall, position: int, what: str) -> tuple[Expr, ...]:
    """The argument as a list of integer scalars."""
    node = call.node_of(position)
    return tuple(
        scalars.integer(call.builder, item, node, f"an item of {what}") for item in sequence(call, position, what)
    )


def static_shape(call: BoundCall, position: int, what: str = "shape") -> tuple[int, ...]:
    """The argument as a static shape of an on-chip value."""
    shape: list[int] = []
    for item in integers(call, position, what):
        dim = to_dim(item)
        if not isinstance(dim, int):
            call.builder.fail(
                "value",
                f"{call.form.spelling}: on-chip values have static shapes; an extent of {what} is a runtime value",
                call.node_of(position),
                "use a constant extent and say how much is valid: valid_shape=[n, ...]",
            )
        if dim <= 0:
            call.builder.fail(
                "value",
                f"{call.form.spelling}: an extent of {what} is {dim}",
                call.node_of(position),
                "extents are positive",
            )
        shape.append(dim)
    if not shape:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {what} is empty",
            call.node_of(position),
            "write one extent for each axis: [16, 64]",
        )
    return tuple(shape)


def dims(call: BoundCall, position: int, what: str) -> tuple[Dim, ...]:
    """The argument as extents, static or not."""
    node = call.node_of(position)
    return tuple(call.builder.dim(item, node) for item in integers(call, position, what))


def dtype_at(call: BoundCall, position: int) -> DataType:
    """The argument as a dtype that the device supports."""
    value = call.values[position]
    obj = value.obj if isinstance(value, PyValue) else value
    if not isinstance(obj, DataType):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {call.form.accepted[position].name!r} must be a dtype, got {describe(value)}",
            call.node_of(position),
            "write a dtype: pl.FP32",
        )
    if not obj.supported:
        call.builder.fail(
            "unsupported",
            f"elements of dtype {obj!r} are not supported{obj.why_not}",
            call.node_of(position),
            "use FP32, FP16, BF16, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32 or BOOL",
        )
    return obj.of_elements


def constant(call: BoundCall, name: str) -> Any:
    """A keyword that must be known at compile time, as a plain Python value."""
    value = call.given(name)
    if isinstance(value, Const):
        return value.value
    if isinstance(value, PyValue):
        return value.obj
    if is_scalar(value) or isinstance(value, (Var, Window)):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {name!r} must be known at compile time, got {describe(value)}",
            call.node_named(name),
            "write a literal or an outside constant",
        )
    return value


def absent(value: object) -> bool:
    """Whether an argument was left out, or is `None`."""
    return value is None or (isinstance(value, PyValue) and value.obj is None)


def valid_shape(call: BoundCall, shape: tuple[Dim, ...], name: str = "valid_shape") -> tuple[Dim, ...]:
    """The valid part of a box of this shape as a keyword gives it: all where it is left out."""
    given = call.given(name)
    if absent(given):
        return shape
    node = call.node_named(name)
    items = given if isinstance(given, tuple) else (given,)
    valid = tuple(
        call.builder.dim(scalars.integer(call.builder, item, node, f"an item of {name}"), node) for item in items
    )
    if len(valid) != len(shape):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {name} has {len(valid)} extents, the box has {len(shape)}",
            node,
            "give one extent for each axis of the box",
        )
    for part, extent in zip(valid, shape, strict=True):
        if isinstance(part, int) and isinstance(extent, int) and not 0 <= part <= extent:
            call.builder.fail(
                "value",
                f"{call.form.spelling}: {name} {part} is not within the box extent {extent}",
                node,
                f"give a value between 0 and {extent}",
            )
    return valid


def to_dtype(builder: Builder, tile: Var, dtype: DataType, node: ast.AST) -> Var:
    """The tile as an operand of another dtype, rounded to nearest where that loses something.

    Signed and unsigned integers of one width have the same bits: sums wrap as they do in one dtype. The chip's own
    conversion of UINT8 to INT8, by way of FP16, would saturate.
    """
    source = tile.type.dtype
    if source is not dtype and source.is_integer and dtype.is_integer and source.bits == dtype.bits:
        return builder.op(
            "reinterpret_view", replace(tile.tile, dtype=dtype), (tile,), node, {"dtype": dtype}, tile.name
        )
    if convert.chain(source, dtype) is None:
        builder.fail(
            "type",
            f"{source} beside {dtype}: the chip has no conversion from {source} to {dtype}, in any number of steps",
            node,
            f"convert both to one dtype; the same bits as another dtype: pl.reinterpret_view(x, pl.{dtype})",
        )
    return converted(builder, tile, dtype, node, "rint")


def converted(builder: Builder, tile: Var, dtype: DataType, node: ast.AST, mode: str) -> Var:
    """The tile converted along the chain of conversions that the chip has, every step in the same mode."""
    for hop in convert.chain(tile.tile.dtype, dtype) or ():
        type = replace(tile.tile, dtype=hop)
        tile = builder.op("cast", type, (tile,), node, {"target_type": hop, "mode": mode}, tile.name)
    return tile


def scalar_operand(call: BoundCall, position: int, tile: Var) -> tuple[Var, Expr]:
    """A scalar beside a tile: the scalar is converted to the dtype of the tile; a float promotes integer tiles."""
    builder = call.builder
    node = call.node_of(position)
    value = scalars.scalar(
        builder, call.values[position], node, f"{call.form.accepted[position].name!r} of {call.form.spelling}"
    )
    dtype = tile.type.dtype
    if value.dtype.is_float and not dtype.is_float:
        tile, dtype = to_dtype(builder, tile, FP32, call.node), FP32
    elif dtype.is_float and not value.dtype.is_float and not isinstance(value, Const):
        builder.fail(
            "type",
            f"{call.form.spelling}: {value.dtype.with_article} scalar beside {dtype.with_article} value",
            node,
            f"convert it first: pl.cast({ast.unparse(node)}, pl.{dtype.name})",
        )
    return tile, element_of(value, dtype)


def element_of(value: Expr, dtype: DataType) -> Expr:
    """A scalar as an element of a value of `dtype`, rounded and wrapped as the dtype has it."""
    if isinstance(value, Const):
        return Const(convert.element(float(value.value), dtype), FP32) if dtype.is_float else cast(value, dtype)
    return cast(value, dtype) if dtype in (FP16, BF16) and value.dtype is FP32 else value


def same_shape(call: BoundCall, a: Var, b: Var) -> None:
    """Refuses two on-chip values of different shapes."""
    if not same_extents(a.type.shape, b.type.shape):
        name = call.form.op.name
        if name in ("add", "sub", "mul", "div"):
            spread = f"[M, N] with [M, 1] broadcasts, [1, N] needs pl.col_expand_{name}"
        elif name in ("maximum", "minimum"):
            spread = f"[M, 1] needs pl.row_expand_{name[:3]}, [1, N] needs pl.col_expand_{name[:3]}"
        else:
            spread = "spread a narrow one first: pl.row_expand(x, v), pl.col_expand(x, v)"
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the shapes differ: {list(a.tile.shape)} and {list(b.tile.shape)}",
            call.node,
            f"elementwise operations take equal shapes; {spread}",
        )


def result(call: BoundCall, op: str, type: TileType, args: tuple[Any, ...], **attrs: Any) -> Var:
    """Emits the operation."""
    return call.builder.op(op, type, args, call.node, attrs, op.rstrip("s_"))


__all__ = [
    "Rule",
    "absent",
    "constant",
    "converted",
    "dims",
    "dtype_at",
    "element_of",
    "in_kernel",
    "integers",
    "pair",
    "result",
    "same_shape",
    "scalar_operand",
    "sequence",
    "static_shape",
    "tensor_at",
    "tile_at",
    "tile_value",
    "to_dtype",
    "valid_shape",
]
