"""Parts of on-chip values: reading one, and putting one into another value.

On chip a value is rows and columns; leading axes merge into rows. A part whose rows do not lie side by side is taken
and put plane by plane.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pypto.frontend.builder import Builder
from pypto.frontend.rules import validity
from pypto.frontend.rules.base import to_dtype
from pypto.ir.exprs import Const, Dim, Expr, binary, index, of_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TileType, region
from pypto.language.dtypes import BF16, FP16, FP32, INDEX


def part_of(
    builder: Builder,
    tile: Var,
    offsets: tuple[Expr, ...],
    shape: tuple[int, ...],
    valid: tuple[Dim, ...],
    keep: tuple[int, ...],
    node: ast.AST,
) -> Var:
    """The box of `tile` at `offsets`, one entry per axis; `keep` lists the axes that remain.

    What is valid is what the source has valid there, cut to `valid`. Tiles keep at least two axes.
    """
    source = tile.tile
    check(builder, tile, offsets, valid, node)
    inside = tuple(
        part if whole == extent else validity.smaller(builder, part, validity.rest(builder, whole, offset, node), node)
        for part, whole, extent, offset in zip(valid, source.valid, source.shape, offsets, strict=True)
    )
    if not source.tensor_level:
        missing = [axis for axis in reversed(range(len(shape))) if axis not in keep][: max(0, 2 - len(keep))]
        keep = tuple(sorted((*keep, *missing)))
    kept = tuple(shape[axis] for axis in keep)
    type = TileType(kept, source.dtype, tuple(inside[axis] for axis in keep), source.space, source.tensor_level)
    if kept == source.shape and all(_is_zero(offset) for offset in offsets) and type.valid == source.valid:
        return tile
    split = _plane_axis(shape, source.shape, offsets)
    if split is None:
        if region(type.shape, type.valid) is None:
            builder.fail(
                "unsupported",
                f"of {list(shape)} only the outermost axis and the last one may be partly valid",
                node,
                "take the planes one by one",
            )
        return builder.op("slice", type, (tile, offsets, inside), node, {"shape": shape, "keep": keep}, tile.name)
    whole = TileType(shape, source.dtype, shape, source.space, source.tensor_level)
    result = builder.op("create_tile", whole, (), node)
    for plane in _planes(shape, split):
        at = tuple(binary("add", offset, start, INDEX) for offset, start in zip(offsets, plane, strict=True))
        box = tuple(1 if axis == split else extent for axis, extent in enumerate(shape))
        result = put(builder, result, part_of(builder, tile, at, box, box, tuple(range(len(box))), node), plane, node)
    return retyped(builder, result, type, node)


def retyped(builder: Builder, tile: Var, type: TileType, node: ast.AST) -> Var:
    """The same elements in another shape and with another valid region."""
    rows_cols = region(type.shape, type.valid)
    assert rows_cols is not None, "callers check that rows are a prefix"
    if region(tile.tile.shape, tile.tile.valid) != rows_cols:
        flat = TileType(type.physical, type.dtype, rows_cols, type.space, type.tensor_level)
        if tile.tile.shape != flat.shape:
            before = region(tile.tile.shape, tile.tile.valid) or flat.shape
            old = TileType(flat.shape, type.dtype, before, type.space, type.tensor_level)
            tile = _reshaped(builder, tile, old, node)
        tile = builder.op("set_validshape", flat, (tile, *map(of_dim, rows_cols)), node, hint=tile.name)
    return tile if tile.tile.shape == type.shape else _reshaped(builder, tile, type, node)


def _reshaped(builder: Builder, tile: Var, type: TileType, node: ast.AST) -> Var:
    return builder.op("reshape", type, (tile, tuple(index(extent) for extent in type.shape)), node, hint=tile.name)


def put(builder: Builder, target: Var, source: Var, offsets: tuple[Expr, ...], node: ast.AST) -> Var:
    """`target` with the valid part of `source` at `offsets`, one per axis of the target."""
    type, part = target.tile, source.tile
    if part.dtype is not type.dtype:
        if not (part.dtype is FP32 and type.dtype in (FP16, BF16)):
            builder.fail(
                "type",
                f"a {part.dtype} value cannot be put into a {type.dtype} one",
                node,
                f"convert it first: pl.cast({source.name}, pl.{type.dtype})",
            )
        source = to_dtype(builder, source, type.dtype, node)
    if len(offsets) != len(type.shape):
        builder.fail(
            "value",
            f"{len(offsets)} offsets for {target.name!r}, which has {len(type.shape)} axes",
            node,
            "give one offset for each axis of the target",
        )
    shape, valid = _lifted(builder, target, source, node)
    check(builder, target, offsets, valid, node)
    split = _plane_axis(shape, type.shape, offsets)
    if split is None:
        return builder.op("assemble", type, (target, source, offsets), node, {"valid": valid}, target.name)
    lifted = retyped(builder, source, TileType(shape, type.dtype, valid, part.space, part.tensor_level), node)
    for plane in _planes(shape, split):
        box = tuple(1 if axis == split else extent for axis, extent in enumerate(shape))
        piece = part_of(builder, lifted, plane, box, box, tuple(range(len(box))), node)
        at = tuple(binary("add", offset, start, INDEX) for offset, start in zip(offsets, plane, strict=True))
        target = put(builder, target, piece, at, node)
    return target


def _lifted(builder: Builder, target: Var, source: Var, node: ast.AST) -> tuple[tuple[int, ...], tuple[Dim, ...]]:
    """The shape and validity of `source` with the rank of `target`."""
    shape, valid = source.tile.shape, source.tile.valid
    extra = len(shape) - len(target.tile.shape)
    if extra > 0 and any(extent != 1 for extent in shape[:extra]):
        builder.fail(
            "value",
            f"a value of shape {list(shape)} does not fit {target.name!r} of shape {list(target.tile.shape)}",
            node,
            "reshape it first",
        )
    if extra >= 0:
        return shape[extra:], valid[extra:]
    return (1,) * -extra + shape, (1,) * -extra + valid


def check(builder: Builder, owner: Var, offsets: tuple[Expr, ...], valid: tuple[Dim, ...], node: ast.AST) -> None:
    """Refuses a box whose valid part certainly reaches past the value."""
    for axis, (offset, extent, dim) in enumerate(zip(offsets, valid, owner.tile.shape, strict=True)):
        if isinstance(offset, Const) and (
            offset.value < 0 or (isinstance(extent, int) and offset.value + extent > dim)
        ):
            builder.fail(
                "value",
                f"this box reaches past the end of {owner.name!r}: axis {axis} has {dim} elements, the box goes from "
                f"{offset.value} to {int(offset.value) + extent if isinstance(extent, int) else '?'}",
                node,
                "make it smaller, or say how much of it is valid: valid_shape=[...]",
            )


def _is_zero(offset: Expr) -> bool:
    return isinstance(offset, Const) and offset.value == 0


def _plane_axis(shape: tuple[int, ...], whole: tuple[int, ...], offsets: tuple[Expr, ...]) -> int | None:
    """The axis along which a box must be taken plane by plane, or `None` where its rows lie side by side."""
    leading = range(len(shape) - 1)
    first = next((axis for axis in leading if shape[axis] != 1), None)
    if first is None:
        return None
    after = range(first + 1, len(shape) - 1)
    side_by_side = all(shape[axis] == whole[axis] and _is_zero(offsets[axis]) for axis in after)
    return None if side_by_side else first


def _planes(shape: tuple[int, ...], axis: int) -> Iterator[tuple[Expr, ...]]:
    for position in range(shape[axis]):
        yield tuple(index(position if other == axis else 0) for other in range(len(shape)))


__all__ = ["check", "part_of", "put", "retyped"]
