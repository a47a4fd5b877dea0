"""Rules: between device memory and the chip."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.frontend import validity, views, windows
from pypto.frontend.builder import Builder
from pypto.frontend.rules import pieces
from pypto.frontend.rules.base import (
    Rule,
    absent,
    constant,
    in_kernel,
    integers,
    static_shape,
    tensor_at,
    tile_at,
    valid_shape,
)
from pypto.frontend.values import Value, Window, describe
from pypto.ir.exprs import Dim, Expr, ScalarVar, binary, index, of_dim
from pypto.ir.nodes import ForStmt, OpStmt, Var
from pypto.ir.types import TileType, is_prefix, merged, region, same_extents
from pypto.language.dtypes import BF16, FP16, FP32, INDEX
from pypto.language.enums import AtomicType, MemorySpace

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def load(call: BoundCall) -> Value:
    """`load(tensor, offsets, shapes, valid_shape=None, target_memory=Vec, clamp=False)`."""
    in_kernel(call)
    builder, node = call.builder, call.node
    source = tensor_at(call, 0)
    rank = len(windows.extents_of(source))
    offsets = integers(call, 1, "offsets")
    shape = static_shape(call, 2, "shapes")
    for what, items, position in (("offsets", offsets, 1), ("shapes", shape, 2)):
        if len(items) != rank:
            builder.fail(
                "value",
                f"{call.form.spelling}: {len(items)} {what} for {_named(source)}, which has {rank} axes",
                call.node_of(position),
                f"give {rank}, one for each axis",
            )
    keep = tuple(range(rank))
    window = windows.subwindow(builder, source, offsets, shape, valid_shape(call, shape), keep, node)
    base, base_valid = window.base, window.valid
    if constant(call, "clamp"):
        base_valid = views.clamp(base, window.offsets, base_valid, builder, node)
    else:
        views.check_box(builder, base, window.offsets, base_valid, node)
    valid = tuple(base_valid[axis] for axis in window.keep)
    given = constant(call, "target_memory")
    space = given if isinstance(given, MemorySpace) else MemorySpace.Vec
    type = merged(TileType(shape, base.type.dtype, valid, space))
    return builder.op(
        "load",
        type,
        (base, window.offsets, base_valid),
        node,
        {"box": window.extents, "keep": None, "transposed": False},
        base.name,
    )


def _named(source: Var | Window) -> str:
    return repr(windows.name_of(source))


def store(call: BoundCall) -> Value:
    """`store(tile, offsets, output_tensor, shapes=None, *, atomic)`."""
    in_kernel(call)
    builder = call.builder
    tile = tile_at(call, 0)
    target = tensor_at(call, 2)
    atomic = is_atomic(call)
    offsets = integers(call, 1, "offsets")
    box = None if absent(call.given("shapes")) else static_shape(call, 3, "shapes")
    write_tile(builder, tile, target, offsets, call.node, call.form.spelling, box, atomic)
    return destination(builder, target, call.node)


def destination(builder: Builder, target: Var | Window, node: ast.AST) -> Var:
    """What a write gives back: its destination, as device memory also where it is a slice."""
    return views.view_of(builder, target, node) if isinstance(target, Window) else target


def is_atomic(call: BoundCall) -> bool:
    """Whether the call adds to what is in memory."""
    value = constant(call, "atomic")
    if value is not None and not isinstance(value, AtomicType):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: 'atomic' must be a pl.AtomicType, got {value!r}",
            call.node_named("atomic"),
            "write atomic=pl.AtomicType.Add, or leave it out",
        )
    return value is AtomicType.Add


def write_tile(
    builder: Builder,
    tile: Var,
    target: Var | Window,
    offsets: tuple[Expr, ...],
    node: ast.AST,
    what: str,
    box: tuple[int, ...] | None = None,
    atomic: bool = False,
) -> None:
    """Stores the valid region of `tile` at `offsets` of `target`, or adds it to what is there.

    `box` says how rows spread over leading axes.
    """
    shape = windows.extents_of(target)
    if len(offsets) != len(shape):
        builder.fail(
            "value",
            f"{what}: {len(offsets)} offsets for {_named(target)}, which has {len(shape)} axes",
            node,
            f"give {len(shape)} offsets, one for each axis",
        )
    _check_dtype(builder, tile, target, node, what)
    spread, extents = _spread(builder, tile, len(shape), box, node, what)
    if extents is None:
        _write_planes(builder, tile, target, offsets, spread, node, what, atomic)
        return
    if isinstance(target, Window) and not same_extents(target.valid, target.extents) and not builder.explicit:
        target = views.view_of(builder, target, node)  # whose type says what is valid: sanitizers look at it
    if isinstance(target, Window):
        base = target.base
        all_offsets, whole = list(target.offsets), [1] * len(target.offsets)
        parts: list[Dim] = [1] * len(target.offsets)
        for position, axis in enumerate(target.keep):
            all_offsets[axis] = binary("add", target.offsets[axis], offsets[position], INDEX)
            parts[axis], whole[axis] = extents[position], spread[position]
        offsets, extents, spread = tuple(all_offsets), tuple(parts), tuple(whole)
    else:
        base = target
    views.check_box(builder, base, offsets, extents, node)
    attrs = {"box": spread, "atomic": atomic}
    builder.emit(OpStmt("store", None, (tile, offsets, base, extents), builder.loc(node), attrs))


def _write_planes(
    builder: Builder,
    tile: Var,
    target: Var | Window,
    offsets: tuple[Expr, ...],
    box: tuple[int, ...],
    node: ast.AST,
    what: str,
    atomic: bool,
) -> None:
    """Stores a prefix of rows that ends within a plane of `box`: plane by plane, as far as rows are valid."""
    height, width = box[-2:]
    rows, cols = region(tile.tile.shape, tile.tile.valid)
    number = ScalarVar(builder.unique("plane"), INDEX)
    count = binary("floordiv", binary("add", of_dim(rows), index(height - 1), INDEX), index(height), INDEX)
    flat = pieces.retyped(builder, tile, replace(tile.tile, shape=tile.tile.physical, valid=(rows, cols)), node)
    with builder.into([]) as body:
        first = binary("mul", number, index(height), INDEX)
        part = pieces.part_of(builder, flat, (first, index(0)), (height, width), (height, width), (0, 1), node)
        at: list[Expr] = []
        step = 1
        for extent in reversed(box[:-2]):
            place = binary("mod", binary("floordiv", number, index(step), INDEX), index(extent), INDEX)
            at.insert(0, place if extent != 1 else index(0))
            step *= extent
        moved = (
            *(binary("add", offset, place, INDEX) for offset, place in zip(offsets, at, strict=False)),
            *offsets[-2:],
        )
        write_tile(builder, part, target, moved, node, what, (*(1,) * len(at), height, width), atomic)
    builder.emit(ForStmt(number, index(0), count, index(1), "range", body, builder.loc(node)))


def _check_dtype(builder: Builder, tile: Var, target: Var | Window, node: ast.AST, what: str) -> None:
    have, want = tile.type.dtype, (target if isinstance(target, Var) else target.base).type.dtype
    if have is want or (have is FP32 and want in (FP16, BF16)):
        return
    named = tile.name if builder.frame.names.get(tile.name) is tile else "x"  # a value inside an expression has no name
    builder.fail(
        "type",
        f"{what}: {have.with_article} value cannot be stored to the {want} tensor {_named(target)}",
        node,
        f"convert it first: pl.cast({named}, pl.{want.name})",
    )


def _spread(
    builder: Builder, tile: Var, rank: int, box: tuple[int, ...] | None, node: ast.AST, what: str
) -> tuple[tuple[int, ...], tuple[Dim, ...] | None]:
    """The box of a destination of `rank` axes that a tile fills, and its valid part; `None` where that is no box."""
    type = tile.tile
    if box is None and type.spread is not None and len(type.spread) == rank:
        box = type.spread
    if box is None:
        valid, shape = type.valid, type.shape
        if len(valid) > rank:
            extra = len(valid) - rank
            if any(extent != 1 for extent in shape[:extra]):
                builder.fail(
                    "value",
                    f"{what}: a value of shape {list(shape)} does not fit a tensor of {rank} axes",
                    node,
                    "pl.reshape the value to the rank of the tensor first",
                )
            valid, shape = valid[extra:], shape[extra:]
        missing = (1,) * (rank - len(valid))
        return missing + shape, missing + valid
    if len(box) != rank:
        builder.fail(
            "value",
            f"{what}: shapes has {len(box)} extents, the tensor has {rank} axes",
            node,
            f"give {rank} extents, one for each axis of the destination",
        )
    rows, cols = type.physical
    flat = TileType(box, type.dtype, box).physical
    if flat != (rows, cols):
        builder.fail(
            "value",
            f"{what}: shapes {list(box)} is a box of {flat[0]} x {flat[1]}, the tile has {rows} x {cols}",
            node,
            "choose a box whose leading extents multiply to the rows of the tile",
        )
    extents = validity.reshaped(builder, type.shape, type.valid, box, node)
    if extents is None and not is_prefix(type.shape, type.valid):
        builder.fail(
            "value",
            f"{what}: the valid part of {list(type.shape)} is no box of {list(box)}",
            node,
            "make all of it valid first: pl.fillpad(x)",
        )
    return box, extents


def move(call: BoundCall) -> Value:
    """`move(tile, target_memory)`: a copy; layouts are labels."""
    in_kernel(call)
    tile = tile_at(call, 0)
    space = constant(call, "target_memory")
    if not isinstance(space, MemorySpace):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: 'target_memory' must be a pl.MemorySpace, got {describe(call.values[1])}",
            call.node_of(1),
            "write pl.MemorySpace.Vec, Mat, Left, Right, Acc or Bias",
        )
    old = tile.tile
    type = replace(old, space=space)
    return call.builder.op("move", type, (tile,), call.node, {"target_memory": space}, tile.name)


RULES: dict[str, Rule] = {"load": load, "store": store, "move": move}
