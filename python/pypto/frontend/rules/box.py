"""Rules: parts of values, and values made of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend import scalars, validity, views, windows
from pypto.frontend.rules import pieces
from pypto.frontend.rules.base import (
    Rule,
    absent,
    constant,
    dims,
    in_kernel,
    integers,
    pair,
    static_shape,
    tensor_at,
    tile_at,
    valid_shape,
)
from pypto.frontend.rules.elementwise import promoted
from pypto.frontend.rules.fill import filled
from pypto.frontend.rules.transfer import destination, is_atomic, write_tile
from pypto.frontend.values import Value, Window, describe
from pypto.ir.exprs import Const, Dim, Expr, index, of_dim
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TileType
from pypto.language.enums import MemorySpace

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def slice(call: BoundCall) -> Value:
    """`slice(x, shape, offset, valid_shape=None, drop_dims=None, pad_value=None, clamp=False)`."""
    builder, node = call.builder, call.node
    source = call.values[0]
    if not isinstance(source, (Var, Window)):
        builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor or a tile, got {describe(source)}",
            call.node_of(0),
            "pass a tensor or an on-chip value",
        )
    if isinstance(source, Window) and builder.level != "kernel":
        source = views.view_of(builder, source, node)
    shape, offsets = dims(call, 1, "shape"), integers(call, 2, "offset")
    whole = source.shape if isinstance(source, Window) else source.type.shape
    if len(shape) != len(whole) or len(offsets) != len(whole):
        builder.fail(
            "value",
            f"{call.form.spelling}: {len(shape)} extents, {len(offsets)} offsets for {windows.name_of(source)!r} of "
            f"{len(whole)} axes",
            node,
            "give one extent and one offset for each axis: pl.slice(x, shape, offset)",
        )
    for extent in shape:
        if isinstance(extent, int) and extent <= 0:
            message = f"{call.form.spelling}: an extent of shape is {extent}"
            builder.fail("value", message, call.node_of(1), "shape comes first: pl.slice(x, shape, offset)")
    valid = valid_shape(call, shape)
    keep = _kept(call, shape)
    if isinstance(source, Var) and isinstance(source.type, TileType):
        static = static_shape(call, 1)
        if constant(call, "clamp"):
            valid = _inside(call, whole, offsets, valid)
        part = pieces.part_of(builder, source, offsets, static, valid, keep, node)
        return part if absent(call.given("pad_value")) else filled(call, part)
    if constant(call, "clamp"):
        valid = _inside(call, whole, offsets, valid)
    window = windows.subwindow(builder, source, offsets, shape, valid, keep, node)
    if builder.level == "kernel" and not (builder.explicit and call.form.namespace == "tensor"):
        views.check_box(builder, window.base, window.offsets, window.valid, node)
        return window
    return views.view_of(builder, window, node)


def _inside(
    call: BoundCall, whole: tuple[Dim, ...], offsets: tuple[Expr, ...], valid: tuple[Dim, ...]
) -> tuple[Dim, ...]:
    """The part of a box that lies inside its source."""
    builder, node = call.builder, call.node
    return tuple(
        validity.smaller(builder, part, validity.rest(builder, extent, offset, node), node)
        for part, extent, offset in zip(valid, whole, offsets, strict=True)
    )


def _kept(call: BoundCall, shape: tuple[Dim, ...]) -> tuple[int, ...]:
    dropped = call.given("drop_dims")
    if absent(dropped):
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


def extract(call: BoundCall) -> Value:
    """`extract(src, index_row, index_col, shape, *, target_memory)`."""
    in_kernel(call)
    tile = tile_at(call, 0)
    row, col = (scalars.integer(call.builder, call.values[at], call.node_of(at), "an index") for at in (1, 2))
    shape = static_shape(call, 3)
    if len(shape) != 2 or len(tile.tile.shape) != 2:
        message = f"{call.form.spelling} takes rows and columns of a matrix, got {list(shape)} of {describe(tile)}"
        call.builder.fail("value", message, call.node_of(3), "write [rows, columns]")
    part = pieces.part_of(call.builder, tile, (row, col), shape, shape, (0, 1), call.node)
    space = constant(call, "target_memory")
    if not isinstance(space, MemorySpace) or space is part.tile.space:
        return part
    old = part.tile
    type = TileType(old.shape, old.dtype, old.valid, space, old.tensor_level)
    return call.builder.op("move", type, (part,), call.node, {"target_memory": space}, part.name)


def assemble(call: BoundCall) -> Value:
    """`assemble(target, source, offset)` into device memory or an on-chip value."""
    builder = call.builder
    in_kernel(call)
    target = call.values[0]
    if not isinstance(target, (Var, Window)):
        builder.fail(
            "type",
            f"{call.form.spelling}: 'target' must be a tensor or an on-chip value, got {describe(target)}",
            call.node_of(0),
            "name a tensor or an on-chip value as the target: pl.assemble(target, source, offset)",
        )
    atomic = is_atomic(call)
    source = tile_at(call, 1)
    offsets = integers(call, 2, "offset")
    if isinstance(target, Window) or target.is_tensor:
        write_tile(builder, source, target, offsets, call.node, call.form.spelling, atomic=atomic)
        return destination(builder, target, call.node)
    if atomic:
        builder.fail(
            "type",
            f"{call.form.spelling}: only device memory is added to atomically, and the target is on chip",
            call.node_named("atomic"),
            "write pl.add, or assemble into a tensor",
        )
    return pieces.put(builder, target, source, offsets, call.node)


def concat(call: BoundCall) -> Value:
    """The second value behind the valid columns of the first."""
    in_kernel(call)
    builder, node = call.builder, call.node
    a, b = promoted(call, *pair(call, 0, 1))
    left, right = a.tile, b.tile
    if left.shape[:-1] != right.shape[:-1]:
        builder.fail(
            "type",
            f"{call.form.spelling}: {list(left.shape)} and {list(right.shape)} differ before the last axis",
            node,
            "reshape or slice one of them",
        )
    shape = (*left.shape[:-1], left.shape[-1] + right.shape[-1])
    valid = (*left.valid[:-1], validity.total(builder, (left.valid[-1], right.valid[-1]), node))
    whole = TileType(shape, left.dtype, shape, tensor_level=left.tensor_level)
    joined = builder.op("create_tile", whole, (), node)
    start = (index(0),) * (len(shape) - 1)
    joined = pieces.put(builder, joined, a, (*start, index(0)), node)
    joined = pieces.put(builder, joined, b, (*start, of_dim(left.valid[-1])), node)
    return pieces.retyped(builder, joined, TileType(shape, left.dtype, valid, tensor_level=left.tensor_level), node)


def gather_row(call: BoundCall) -> Value:
    """One window of device memory put into an accumulator, which changes in place."""
    in_kernel(call)
    builder, node = call.builder, call.node
    target, source = tile_at(call, 0), tensor_at(call, 1)
    at, start = integers(call, 2, "dst_offset"), integers(call, 3, "src_offset")
    shape = static_shape(call, 4, "shapes")
    whole = source.shape if isinstance(source, Window) else source.type.shape
    if len(shape) != len(whole) or len(start) != len(whole):
        builder.fail(
            "value",
            f"{call.form.spelling}: {len(shape)} extents, {len(start)} offsets for {windows.name_of(source)!r} of "
            f"{len(whole)} axes",
            node,
            "give one extent and one offset for each axis of the source",
        )
    window = windows.subwindow(builder, source, start, shape, valid_shape(call, shape), tuple(range(len(shape))), node)
    views.check_box(builder, window.base, window.offsets, window.valid, node)
    keep = window.keep[-2:]
    if any(extent != 1 for extent in shape[:-2]):
        message = f"{call.form.spelling} copies rows and columns, got a window of {list(shape)}"
        builder.fail("value", message, call.node_of(4), "copy the planes one by one")
    flat = Window(window.base, window.offsets, window.extents, window.valid, keep)
    tile = views.load_window(builder, flat, node, transposed=bool(constant(call, "transpose")))
    shape_in, valid = tile.tile.shape, tile.tile.valid
    offsets = at if len(at) == len(target.tile.shape) else (*at, *(index(0),) * (len(target.tile.shape) - len(at)))
    lifted = (1,) * (len(target.tile.shape) - len(shape_in)) + tuple(valid)
    pieces.check(builder, target, offsets, lifted, node)
    builder.emit(OpStmt("assemble", target, (target, tile, offsets), builder.loc(node), {"valid": lifted}))
    return target


RULES: dict[str, Rule] = {
    "slice": slice,
    "extract": extract,
    "assemble": assemble,
    "concat": concat,
    "gather_row": gather_row,
}
