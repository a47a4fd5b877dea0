"""Rules: creation, views, and single elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend import scalars, views
from pypto.frontend.rules.base import (
    Rule,
    constant,
    dims,
    dtype_at,
    in_kernel,
    integers,
    reject_keyword,
    result,
    static_shape,
    tile_at,
)
from pypto.frontend.rules.transfer import write_tile
from pypto.frontend.values import PyValue, Value, Window, describe, is_scalar
from pypto.ir.exprs import Const, Dim, Expr, cast, of_dim, product
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TensorType, TileType
from pypto.language.dtypes import FP32, INDEX, INT64, DataType
from pypto.language.enums import AtomicType, MemorySpace

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, PyValue) and value.obj is None)


def create_tensor(call: BoundCall) -> Value:
    """Device memory in orchestration code, an on-chip value in a kernel."""
    builder = call.builder
    dtype = dtype_at(call, 1)
    init = call.given("init_value")
    if builder.level == "kernel":
        shape = static_shape(call, 0)
        type = TileType(shape, dtype, shape, tensor_level=True)
        if _absent(init):
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
    fill = None if _absent(init) else _fill_value(call, init, dtype, "init_value")
    if fill is not None and not isinstance(fill, Const):
        builder.fail(
            "type",
            f"{call.form.spelling}: 'init_value' must be known at compile time",
            call.node_named("init_value"),
            "write a number, or leave it out and write the tensor in a kernel",
        )
    attrs = {"init_value": fill.value if isinstance(fill, Const) else None}
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
        return cast(expr, FP32 if dtype.is_float else dtype)
    if expr.dtype.is_float != dtype.is_float:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: a {expr.dtype} scalar for {dtype} elements",
            node,
            f"convert it: pl.cast(x, pl.{dtype.name})",
        )
    return expr


def slice(call: BoundCall) -> Value:
    """`slice(x, shape, offset, valid_shape=None, drop_dims=None, ...)` of device memory."""
    builder, node = call.builder, call.node
    source = call.values[0]
    if isinstance(source, Window):
        source = views.view_of(builder, source, node)
    if not isinstance(source, Var):
        builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor or a tile, got {describe(source)}",
            call.node_of(0),
            "pass a tensor or an on-chip value",
        )
    if isinstance(source.type, TileType):
        builder.fail(
            "unsupported",
            "a slice of a tile is not supported yet",
            node,
            "load the part that you need: pl.load(x, offsets, shapes)",
        )
    shape, offsets = dims(call, 1, "shape"), integers(call, 2, "offset")
    rank = len(source.type.shape)
    if len(shape) != rank or len(offsets) != rank:
        builder.fail(
            "value",
            f"{call.form.spelling}: {len(shape)} extents, {len(offsets)} offsets for {source.name!r} of {rank} axes",
            node,
            "give one extent and one offset for each axis: pl.slice(x, shape, offset)",
        )
    valid: tuple[Dim, ...] = shape
    if not _absent(call.given("valid_shape")):
        valid = dims(call, 3, "valid_shape")
        if len(valid) != rank:
            builder.fail(
                "value",
                f"{call.form.spelling}: valid_shape has {len(valid)} extents, the slice has {rank}",
                call.node_of(3),
                "give one extent for each axis of the slice",
            )
    if constant(call, "clamp"):
        valid = views.clamp(source, offsets, valid, builder, node)
    elif builder.level == "kernel":
        views.check_box(builder, source, offsets, valid, node)
    window = Window(source, offsets, shape, valid, _kept(call, shape))
    return window if builder.level == "kernel" else views.view_of(builder, window, node)


def _kept(call: BoundCall, shape: tuple[Dim, ...]) -> tuple[int, ...]:
    dropped = call.given("drop_dims")
    if _absent(dropped):
        return tuple(range(len(shape)))
    items = dropped if isinstance(dropped, tuple) else (dropped,)
    axes = {int(item.value) for item in items if isinstance(item, Const)}
    for axis in axes:
        if not 0 <= axis < len(shape) or shape[axis] != 1:
            call.builder.fail(
                "value",
                f"{call.form.spelling}: drop_dims names axis {axis}, whose extent is not 1",
                call.node_named("drop_dims"),
                "drop only axes of extent 1",
            )
    return tuple(axis for axis in range(len(shape)) if axis not in axes)


def assemble(call: BoundCall) -> Value:
    """`assemble(target, source, offset)` into device memory."""
    builder = call.builder
    in_kernel(call)
    reject_keyword(call, "atomic", AtomicType.None_)
    target = call.values[0]
    if isinstance(target, Var) and isinstance(target.type, TileType):
        builder.fail(
            "unsupported",
            "pl.assemble into an on-chip value is not supported yet",
            call.node,
            "assemble into device memory: out[a:b, c:d] = x",
        )
    if not isinstance(target, (Var, Window)):
        builder.fail(
            "type",
            f"{call.form.spelling}: 'target' must be a tensor, got {describe(target)}",
            call.node_of(0),
            "name a tensor or an on-chip value as the target: pl.assemble(target, source, offset)",
        )
    source = tile_at(call, 1)
    return write_tile(builder, source, target, integers(call, 2, "offset"), call.node, call.form.spelling)


def reshape(call: BoundCall) -> Value:
    """The same elements in another shape."""
    builder, node = call.builder, call.node
    source = call.values[0]
    if isinstance(source, Window):
        source = (
            views.load_window(builder, source, node)
            if builder.level == "kernel"
            else views.view_of(builder, source, node)
        )
    if not isinstance(source, Var):
        builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor or a tile, got {describe(source)}",
            call.node_of(0),
            "pass a tensor or an on-chip value",
        )
    if isinstance(source.type, TileType):
        return _reshape_tile(call, source)
    extents = dims(call, 1, "shape")
    have, wanted = product(source.type.shape), product(extents)
    if isinstance(have, int) and isinstance(wanted, int) and have != wanted:
        message = f"{call.form.spelling}: {describe(source)} has another number of elements than {list(extents)}"
        builder.fail("value", message, node, "choose extents whose product is the number of elements")
    type = TensorType(extents, source.type.dtype)
    return builder.op("reshape", type, (source, tuple(of_dim(dim) for dim in extents)), node, hint=source.name)


def _reshape_tile(call: BoundCall, source: Var) -> Value:
    shape = static_shape(call, 1)
    old = source.tile
    type = TileType(shape, old.dtype, shape, old.space, old.tensor_level)
    if product(shape) != product(old.shape):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {list(old.shape)} has another number of elements than {list(shape)}",
            call.node,
            "choose extents whose product is the number of elements",
        )
    if shape == old.shape:
        return source
    if not old.is_full or type.physical != old.physical:
        call.builder.fail(
            "unsupported",
            f"{call.form.spelling} of an on-chip value from {list(old.shape)} to {list(shape)} is not supported yet",
            call.node,
            "store the value and load it in its new shape",
        )
    return result(call, "reshape", type, (source, tuple(of_dim(dim) for dim in shape)))


def transpose(call: BoundCall) -> Value:
    """Two axes of device memory swapped."""
    builder, node = call.builder, call.node
    source = call.values[0]
    if isinstance(source, Window):
        source = views.view_of(builder, source, node)
    if not isinstance(source, Var) or isinstance(source.type, TileType):
        builder.fail(
            "unsupported",
            f"{call.form.spelling} of {describe(source)} is not supported yet",
            node,
            "transpose device memory, or say a_trans/b_trans in pl.matmul",
        )
    shape = list(source.type.shape)
    axes = [constant(call, call.form.params[position].name) for position in (1, 2)]
    for axis in axes:
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            builder.fail(
                "value",
                f"{call.form.spelling}: axis {axis!r} of {describe(source)}",
                node,
                f"axes are 0 to {len(shape) - 1}",
            )
    a, b = (axis % len(shape) for axis in axes)
    shape[a], shape[b] = shape[b], shape[a]
    return builder.op(
        "transpose", TensorType(tuple(shape), source.type.dtype), (source,), node, {"axes": (a, b)}, source.name
    )


def _place(call: BoundCall) -> tuple[Var, tuple[Expr, ...]]:
    builder = call.builder
    owner = call.values[0]
    if isinstance(owner, Window):
        owner = views.view_of(builder, owner, call.node)
    if not isinstance(owner, Var):
        builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor or a tile, got {describe(owner)}",
            call.node_of(0),
            f"write {call.form.spelling} with a tensor or a tile first",
        )
    if builder.level != "kernel" and not owner.is_tensor:
        owner = views.in_memory(builder, owner, call.node)
    given = call.values[1]
    at = (
        (scalars.integer(builder, given, call.node_of(1), "an index"),)
        if is_scalar(given)
        else integers(call, 1, "indices")
    )
    if len(at) != len(owner.type.shape):
        builder.fail(
            "value",
            f"{call.form.spelling}: {len(at)} indices for {describe(owner)}, which has {len(owner.type.shape)} axes",
            call.node_of(1),
            f"give {len(owner.type.shape)} indices, one for each axis",
        )
    return owner, at


def read(call: BoundCall) -> Value:
    """One element."""
    owner, at = _place(call)
    return views.read_element(call.builder, owner, at, call.node)


def write(call: BoundCall) -> Value:
    """Writes one element."""
    builder = call.builder
    owner, at = _place(call)
    value = scalars.scalar(builder, call.values[2], call.node_of(2), "the value")
    dtype = owner.type.dtype
    if isinstance(value, Const):
        value = cast(value, FP32 if dtype.is_float else dtype)
    elif value.dtype is not dtype and (value.dtype is not INDEX or dtype is not INT64):  # two names of one type
        builder.fail(
            "type",
            f"{call.form.spelling}: a {value.dtype} scalar for {dtype} elements; the dtypes must be equal",
            call.node_of(2),
            f"convert it: pl.cast(x, pl.{dtype.name})",
        )
    if isinstance(owner.type, TileType) and builder.users.get(owner, 0) > 1:
        builder.fail(
            "unsupported",
            f"{call.form.spelling} to a tile that has two names is not supported yet",
            call.node,
            "write to it before it gets a second name",
        )
    builder.emit(OpStmt("write", None, (owner, at, value), builder.loc(call.node)))
    return owner


RULES: dict[str, Rule] = {
    "create_tensor": create_tensor,
    "create_tile": create_tile,
    "full": full,
    "slice": slice,
    "assemble": assemble,
    "reshape": reshape,
    "transpose": transpose,
    "read": read,
    "write": write,
}
