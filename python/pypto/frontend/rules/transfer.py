"""Rules: between device memory and the chip."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pypto.frontend import views, windows
from pypto.frontend.builder import Builder
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
from pypto.ir.exprs import Dim, Expr, binary
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TileType, region
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
    rows_cols = region(shape, valid)
    if rows_cols is None:
        builder.fail(
            "unsupported",
            f"{call.form.spelling}: of {list(shape)} only the outermost axis and the last one may be partly valid",
            node,
            "load the planes one by one",
        )
    space = constant(call, "target_memory")
    physical = TileType(shape, base.type.dtype, valid).physical
    type = TileType(physical, base.type.dtype, rows_cols, space if isinstance(space, MemorySpace) else MemorySpace.Vec)
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
    box: tuple[Dim, ...] | None = None if absent(call.given("shapes")) else static_shape(call, 3, "shapes")
    return write_tile(builder, tile, target, offsets, call.node, call.form.spelling, box, atomic)


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
    box: tuple[Dim, ...] | None = None,
    atomic: bool = False,
) -> Var:
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
    extents = _spread(builder, tile, len(shape), box, node, what)
    if isinstance(target, Window):
        base = target.base
        all_offsets = list(target.offsets)
        parts: list[Dim] = [1] * len(target.offsets)
        for position, axis in enumerate(target.keep):
            all_offsets[axis] = binary("add", target.offsets[axis], offsets[position], INDEX)
            parts[axis] = extents[position]
        offsets, extents = tuple(all_offsets), tuple(parts)
    else:
        base = target
    views.check_box(builder, base, offsets, extents, node)
    attrs = {"box": None if isinstance(target, Window) else box, "atomic": atomic}
    builder.emit(OpStmt("store", None, (tile, offsets, base, extents), builder.loc(node), attrs))
    return base


def _check_dtype(builder: Builder, tile: Var, target: Var | Window, node: ast.AST, what: str) -> None:
    have, want = tile.type.dtype, (target if isinstance(target, Var) else target.base).type.dtype
    if have is want or (have is FP32 and want in (FP16, BF16)):
        return
    builder.fail(
        "type",
        f"{what}: a {have} value cannot be stored to the {want} tensor {_named(target)}",
        node,
        f"convert it first: pl.cast({tile.name}, pl.{want.name})",
    )


def _spread(
    builder: Builder, tile: Var, rank: int, box: tuple[Dim, ...] | None, node: ast.AST, what: str
) -> tuple[Dim, ...]:
    """The valid region of a tile as extents of a destination of `rank` axes."""
    type = tile.tile
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
            valid = valid[extra:]
        return (1,) * (rank - len(valid)) + valid
    if len(box) != rank:
        builder.fail(
            "value",
            f"{what}: shapes has {len(box)} extents, the tensor has {rank} axes",
            node,
            f"give {rank} extents, one for each axis of the destination",
        )
    rows, cols = type.physical
    flat = TileType(box, type.dtype, box).physical  # type: ignore[arg-type]  # read as static extents
    if flat != (rows, cols):
        builder.fail(
            "value",
            f"{what}: shapes {list(box)} is a box of {flat[0]} x {flat[1]}, the tile has {rows} x {cols}",
            node,
            "choose a box whose leading extents multiply to the rows of the tile",
        )
    if type.is_full:
        return box
    valid_rows, valid_cols = region(type.shape, type.valid) or (rows, cols)
    outer = next((axis for axis, extent in enumerate(box[:-1]) if extent != 1), None)
    if outer is None:
        return (*box[:-1], valid_cols)
    inner = 1
    for extent in box[outer + 1 : -1]:
        inner *= int(extent)  # type: ignore[arg-type]  # static
    if inner != 1 and valid_rows != rows:
        builder.fail(
            "unsupported",
            f"{what}: a partly valid tile spread over several leading axes is not supported yet",
            node,
            "store the planes one by one",
        )
    return (*box[:outer], valid_rows if inner == 1 else box[outer], *box[outer + 1 : -1], valid_cols)


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
    type = TileType(old.shape, old.dtype, old.valid, space, old.tensor_level)
    return call.builder.op("move", type, (tile,), call.node, {"target_memory": space}, tile.name)


RULES: dict[str, Rule] = {"load": load, "store": store, "move": move}
