"""Rules: the same elements in another shape, order, dtype or validity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.frontend import scalars, validity, views
from pypto.frontend.rules import pieces
from pypto.frontend.rules.base import (
    Rule,
    absent,
    constant,
    dims,
    dtype_at,
    in_kernel,
    result,
    static_shape,
    tile_at,
    valid_shape,
)
from pypto.frontend.values import Value, Window, describe
from pypto.ir.exprs import Dim, Expr, index, of_dim, product
from pypto.ir.nodes import Var
from pypto.ir.types import TensorType, TileType, same_extents
from pypto.language.dtypes import INDEX, INT64, DataType
from pypto.language.enums import TensorLayout

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def _owner(call: BoundCall) -> Var:
    """The argument: device memory in orchestration code, an on-chip value in a kernel where it is a box."""
    source = call.values[0]
    if isinstance(source, Window):
        kernel = call.builder.level == "kernel"
        return (views.load_window if kernel else views.view_of)(call.builder, source, call.node)
    if not isinstance(source, Var):
        call.builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor or a tile, got {describe(source)}",
            call.node_of(0),
            "pass a tensor or an on-chip value",
        )
    return source


def reshape(call: BoundCall) -> Value:
    """The same elements in another shape."""
    source = _owner(call)
    if isinstance(source.type, TileType):
        return _reshape_tile(call, source, static_shape(call, 1))
    return _reshape_tensor(call, source, dims(call, 1, "shape"))


def _reshape_tensor(call: BoundCall, source: Var, extents: tuple[Dim, ...]) -> Var:
    if source.tensor.partial is not None:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: a partly valid slice of device memory has no other shape",
            call.node,
            "reshape it in a kernel, where it is loaded, or reshape the tensor before it is sliced",
        )
    have, wanted = product(source.type.shape), product(extents)
    if isinstance(have, int) and isinstance(wanted, int) and have != wanted:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {describe(source)} has another number of elements than {list(extents)}",
            call.node,
            "choose extents whose product is the number of elements",
        )
    type = TensorType(extents, source.type.dtype)
    args = (source, tuple(of_dim(dim) for dim in extents))
    return call.builder.op("reshape", type, args, call.node, hint=source.name)


def _reshape_tile(call: BoundCall, source: Var, shape: tuple[int, ...]) -> Var:
    old = source.tile
    if product(shape) != product(old.shape):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {list(old.shape)} has another number of elements than {list(shape)}",
            call.node,
            "choose extents whose product is the number of elements",
        )
    if shape == old.shape:
        return source
    level = old.tensor_level or call.form.namespace == "tensor"
    if not level and len(shape) != 2:
        physical = TileType(shape, old.dtype, shape).physical
        shape = physical
    type = TileType(shape, old.dtype, _reshaped(call, old, shape), old.space, level)
    return result(call, "reshape", type, (source, tuple(index(extent) for extent in shape)))


def _reshaped(call: BoundCall, old: TileType, shape: tuple[int, ...]) -> tuple[Dim, ...]:
    """The validity of a tile in another shape."""
    builder, node = call.builder, call.node
    valid = validity.reshaped(builder, old.shape, old.valid, shape, node)
    if valid is not None:
        return valid
    call.builder.fail(
        "value",
        f"{call.form.spelling}: the valid part of {list(old.shape)} is no box of {list(shape)}",
        node,
        "make all of it valid first: pl.fillpad(x)",
    )


def transpose(call: BoundCall) -> Value:
    """Two axes swapped: a view of device memory in orchestration code, a new value in a kernel."""
    builder, node = call.builder, call.node
    source = call.values[0]
    if isinstance(source, Var) and isinstance(source.type, TensorType) and builder.level == "kernel":
        source = views.whole(source)
    if isinstance(source, Window) and builder.level != "kernel":
        source = views.view_of(builder, source, node)
    if not isinstance(source, (Var, Window)):
        builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor or a tile, got {describe(source)}",
            call.node_of(0),
            "pass a tensor or an on-chip value",
        )
    if isinstance(source, Var) and isinstance(source.type, TileType):
        source = pieces.unmerged(builder, source, node)
    shape = list(source.shape if isinstance(source, Window) else source.type.shape)
    a, b = _axes(call, len(shape), describe(source))
    if isinstance(source, Window):
        if len(shape) == 2 and a != b:
            return views.load_window(builder, source, node, transposed=True)
        source = views.load_window(builder, source, node)
    if isinstance(source.type, TileType):
        return swapped(call, source, a, b)
    shape[a], shape[b] = shape[b], shape[a]
    partial = None if source.type.partial is None else list(source.type.partial)
    if partial is not None:
        partial[a], partial[b] = partial[b], partial[a]
    valid = None if partial is None else tuple(partial)
    type = TensorType(tuple(shape), source.type.dtype, partial=valid)
    return builder.op("transpose", type, (source,), node, {"axes": (a, b)}, source.name)


def _axes(call: BoundCall, rank: int, what: str) -> tuple[int, int]:
    axes = [constant(call, call.form.params[position].name) for position in (1, 2)]
    for axis in axes:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            call.builder.fail(
                "value", f"{call.form.spelling}: axis {axis!r} of {what}", call.node, f"axes are 0 to {rank - 1}"
            )
    first, second = (axis % rank for axis in axes)
    return min(first, second), max(first, second)


def swapped(call: BoundCall, tile: Var, a: int, b: int) -> Var:
    """An on-chip value with two axes swapped; more than two axes are swapped matrix by matrix."""
    if a == b:
        return tile
    builder, node, old = call.builder, call.node, tile.tile
    shape, valid = list(old.shape), list(old.valid)
    shape[a], shape[b], valid[a], valid[b] = shape[b], shape[a], valid[b], valid[a]
    type = TileType(tuple(shape), old.dtype, tuple(valid), old.space, old.tensor_level)
    rank = len(shape)
    rest = [axis for axis in range(rank) if axis not in (a, b)]
    if all(shape[axis] == 1 for axis in rest):
        if rank == 2:
            return result(call, "transpose", type, (tile,), axes=(0, 1))
        matrix = pieces.reshaped(builder, tile, (old.shape[a], old.shape[b]), node)
        flipped = replace(matrix.tile, shape=matrix.tile.shape[::-1], valid=matrix.tile.valid[::-1])
        return pieces.reshaped(builder, result(call, "transpose", flipped, (matrix,), axes=(0, 1)), type.shape, node)
    # The plane of every index along the axis that stays, or along the last of several.
    axis = next(axis for axis in reversed(rest) if shape[axis] != 1)
    joined = builder.op(
        "create_tile", TileType(tuple(shape), old.dtype, tuple(shape), old.space, old.tensor_level), (), node
    )
    for position in range(shape[axis]):
        at = tuple(index(position if other == axis else 0) for other in range(rank))
        box = tuple(1 if other == axis else extent for other, extent in enumerate(old.shape))
        plane = pieces.part_of(builder, tile, at, box, box, tuple(range(rank)), node)
        joined = pieces.put(builder, joined, swapped(call, plane, a, b), at, node)
    return pieces.retyped(builder, joined, type, node)


def transpose_view(call: BoundCall) -> Value:
    """The last two axes swapped."""
    in_kernel(call)
    source = call.values[0]
    if isinstance(source, Var) and isinstance(source.type, TensorType):
        source = views.whole(source)
    if isinstance(source, Window) and len(source.keep) == 2:
        return views.load_window(call.builder, source, call.node, transposed=True)
    tile = pieces.unmerged(call.builder, tile_at(call, 0), call.node)
    rank = len(tile.tile.shape)
    return swapped(call, tile, rank - 2, rank - 1)


def reinterpret_view(call: BoundCall) -> Value:
    """The same bits as another dtype: an alias of device memory in orchestration code, a new value in a kernel."""
    dtype = dtype_at(call, 1)
    if call.builder.level == "kernel":
        tile = tile_at(call, 0)
        old = tile.tile
        asked = None if absent(call.given("shape")) else static_shape(call, 2)
        shape, valid = _recounted(call, (old.shape, old.valid, old.dtype), dtype, asked)
        type = replace(old, shape=shape, dtype=dtype, valid=valid)  # type: ignore[arg-type]  # static, as the value is
        return result(call, "reinterpret_view", type, (tile,), dtype=dtype)
    memory = _owner(call)
    if isinstance(memory.type, TileType):
        memory = views.in_memory(call.builder, memory, call.node)
    have = memory.tensor
    wanted = None if absent(call.given("shape")) else dims(call, 2, "shape")
    extents, valid = _recounted(call, (have.shape, have.valid, have.dtype), dtype, wanted)
    counted, _ = _recounted(call, (have.shape, have.shape, have.dtype), dtype, None)
    partial = None if same_extents(valid, extents) else valid
    first = TensorType(counted, dtype, partial=partial if same_extents(counted, extents) else None)
    view = call.builder.op("reinterpret_view", first, (memory,), call.node, {"dtype": dtype}, memory.name)
    return view if same_extents(counted, extents) else _reshape_tensor(call, view, extents)


def _recounted(
    call: BoundCall,
    old: tuple[tuple[Dim, ...], tuple[Dim, ...], DataType],
    dtype: DataType,
    wanted: tuple[Dim, ...] | None,
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """The extents and the valid extents of the same bytes as another dtype, in another shape where one is `wanted`."""
    builder, node = call.builder, call.node
    (shape, valid, before), want = old, dtype.get_byte()
    have = before.get_byte()

    def scaled(extent: Dim) -> Dim:
        if have == want:
            return extent
        return validity.divided(builder, validity.scaled(builder, extent, have, node), want, node)

    last = shape[-1]
    extents = (*shape[:-1], scaled(last)) if wanted is None else wanted
    odd = isinstance(last, int) and last * have % want
    total, new = product((*shape, have)), product((*extents, want))
    if odd or (isinstance(total, int) and isinstance(new, int) and total != new):
        builder.fail(
            "value",
            f"{call.form.spelling}: {describe(call.values[0])} has other bytes than {_shown(extents)} of {dtype}",
            node,
            "the bytes stay the same: the last extent changes with the size of an element",
        )
    if same_extents(valid, shape):
        return extents, extents
    if len(extents) == len(shape) and same_extents(extents[:-1], shape[:-1]):
        return extents, (*valid[:-1], extents[-1] if valid[-1] == last else scaled(valid[-1]))
    builder.fail(
        "value",
        f"{call.form.spelling}: a partly valid value cannot change its shape on the way",
        call.node_named("shape"),
        "leave 'shape' out, or make all of it valid first: pl.fillpad(x)",
    )


def _shown(extents: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(str(extent) if isinstance(extent, int) else "?" for extent in extents) + "]"


def view(call: BoundCall) -> Value:
    """Device memory in another shape, or with less of it valid. Layouts are labels: memory is row-major here."""
    builder, node = call.builder, call.node
    source = _owner(call)
    layout = constant(call, "layout")
    if layout is not None and not isinstance(layout, TensorLayout):
        builder.fail(
            "type",
            f"{call.form.spelling}: 'layout' must be a pl.TensorLayout, got {layout!r}",
            call.node_named("layout"),
            "write pl.ND, pl.DN or pl.NZ",
        )
    shaped = source
    if not absent(call.given("shape")):
        wanted = dims(call, 1, "shape")
        if source.is_tensor:
            shaped = source if same_extents(wanted, source.type.shape) else _reshape_tensor(call, source, wanted)
        else:
            shaped = _reshape_tile(call, source, static_shape(call, 1))
    if absent(call.given("valid_shape")):
        return shaped
    valid = valid_shape(call, shaped.type.shape)
    if isinstance(shaped.type, TensorType):
        return views.view_of(builder, replace(views.whole(shaped), valid=valid), node)
    shape = shaped.tile.shape
    zero = tuple(index(0) for _ in shape)
    return pieces.part_of(builder, shaped, zero, shape, valid, tuple(range(len(shape))), node)


def set_validshape(call: BoundCall) -> Value:
    """Another valid region of a matrix."""
    builder = call.builder
    extents = tuple(_extent(call, position) for position in (1, 2))
    source = call.values[0]
    if isinstance(source, Var) and isinstance(source.type, TensorType):
        source = views.whole(source)
    if isinstance(source, Window) and len(source.keep) == 2:
        _within(call, tuple(source.shape), extents)
        valid = list(source.valid)
        for axis, extent in zip(source.keep, extents, strict=True):
            valid[axis] = extent
        window = Window(source.base, source.offsets, source.extents, tuple(valid), source.keep)
        return window if builder.level == "kernel" else views.view_of(builder, window, call.node)
    in_kernel(call)
    tile = tile_at(call, 0)
    old = tile.tile
    if len(old.shape) != 2:
        builder.fail(
            "value",
            f"{call.form.spelling} works on a matrix, got {describe(tile)}",
            call.node_of(0),
            "reshape it to two axes first",
        )
    _within(call, old.shape, extents)
    type = replace(old, valid=extents)
    if type.valid == old.valid:
        return tile
    return result(call, "set_validshape", type, (tile, *(of_dim(extent) for extent in extents)))


def _extent(call: BoundCall, position: int) -> Dim:
    name = call.form.params[position].name
    node = call.node_of(position)
    value: Expr = scalars.integer(call.builder, call.values[position], node, f"{name!r} of {call.form.spelling}")
    if value.dtype not in (INDEX, INT64) and value.dtype.name != "UINT64":
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {name!r} is {value.dtype.with_article} scalar, not INDEX, INT64 or UINT64",
            node,
            "convert it: pl.cast(n, pl.INDEX)",
        )
    return call.builder.dim(value, node)


def _within(call: BoundCall, shape: tuple[Dim, ...], extents: tuple[Dim, ...]) -> None:
    for position, (extent, whole) in enumerate(zip(extents, shape, strict=True), 1):
        if isinstance(extent, int) and isinstance(whole, int) and not 0 <= extent <= whole:
            call.builder.fail(
                "value",
                f"{call.form.spelling}: {extent} is not within the extent {whole} of the box",
                call.node_of(position),
                f"give a value between 0 and {whole}",
            )


RULES: dict[str, Rule] = {
    "reshape": reshape,
    "transpose": transpose,
    "transpose_view": transpose_view,
    "reinterpret_view": reinterpret_view,
    "view": view,
    "set_validshape": set_validshape,
}
