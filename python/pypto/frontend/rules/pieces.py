"""Parts of on-chip values: reading one, and putting one into another value.

A part may lie anywhere in a value of any rank; lowering walks its planes where their rows do not lie side by side.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from pypto.frontend import validity
from pypto.frontend.builder import Builder
from pypto.frontend.rules.base import to_dtype
from pypto.ir.exprs import Const, Dim, Expr, index, of_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TileType, is_prefix, region
from pypto.language.dtypes import BF16, FP16, FP32


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
    inside = (
        valid
        if builder.explicit
        else tuple(
            part
            if whole == extent
            else validity.smaller(builder, part, validity.rest(builder, whole, offset, node), node)
            for part, whole, extent, offset in zip(valid, source.valid, source.shape, offsets, strict=True)
        )
    )
    if not source.tensor_level:
        missing = [axis for axis in reversed(range(len(shape))) if axis not in keep][: max(0, 2 - len(keep))]
        keep = tuple(sorted((*keep, *missing)))
    kept = tuple(shape[axis] for axis in keep)
    left = validity.kept(builder, inside, keep, node)
    type = TileType(kept, source.dtype, left, source.space, source.tensor_level)
    if not builder.explicit and kept == source.shape and all(map(_is_zero, offsets)) and type.valid == source.valid:
        return tile
    return builder.op("slice", type, (tile, offsets, inside), node, {"shape": shape, "keep": keep}, tile.name)


def retyped(builder: Builder, tile: Var, type: TileType, node: ast.AST) -> Var:
    """The same elements in another shape and with another valid region."""
    if _long_axes(tile.tile) == _long_axes(type):
        return tile if tile.tile.shape == type.shape else _reshaped(builder, tile, type, node)
    if not is_prefix(type.shape, type.valid):
        whole = retyped(builder, tile, replace(type, valid=type.shape), node)
        zero = tuple(index(0) for _ in type.shape)
        attrs = {"shape": type.shape, "keep": tuple(range(len(type.shape)))}
        return builder.op("slice", type, (whole, zero, type.valid), node, attrs, tile.name)
    rows_cols = region(type.shape, type.valid)
    old = tile.tile
    if not is_prefix(old.shape, old.valid) or region(old.shape, old.valid) != rows_cols:
        flat = TileType(type.physical, type.dtype, rows_cols, type.space, type.tensor_level)
        if old.shape != flat.shape:
            tile = _reshaped(builder, tile, _flat(old, type.physical), node)
        tile = builder.op("set_validshape", flat, (tile, *map(of_dim, rows_cols)), node, hint=tile.name)
    return tile if tile.tile.shape == type.shape else _reshaped(builder, tile, type, node)


def unmerged(builder: Builder, tile: Var, node: ast.AST) -> Var:
    """A batch of matrices whose rows were merged when it was loaded, as a batch again; other values as they are."""
    type = tile.tile
    if not is_batch(type):
        return tile
    valid = validity.reshaped(builder, type.shape, type.valid, type.spread or type.shape, node)
    if valid is None:
        return tile
    batch = TileType(type.spread or type.shape, type.dtype, valid, type.space, tensor_level=True)
    return _reshaped(builder, tile, batch, node)


def is_batch(type: TileType) -> bool:
    """Whether a tile holds the merged rows of several matrices."""
    return type.spread is not None and any(extent != 1 for extent in type.spread[:-2])


def reshaped(builder: Builder, tile: Var, shape: tuple[int, ...], node: ast.AST) -> Var:
    """The same elements in another shape that says what is valid of them, too."""
    valid = validity.reshaped(builder, tile.tile.shape, tile.tile.valid, shape, node)
    assert valid is not None, "callers keep the axes that are partly valid"
    return _reshaped(builder, tile, replace(tile.tile, shape=shape, valid=valid), node)


def _long_axes(type: TileType) -> list[tuple[int, Dim]]:
    """The extents that say something, each with what is valid of it."""
    return [pair for pair in zip(type.shape, type.valid, strict=True) if pair != (1, 1)]


def _flat(type: TileType, shape: tuple[int, int]) -> TileType:
    """A value as rows and columns."""
    have = region(type.shape, type.valid) if is_prefix(type.shape, type.valid) else shape
    return TileType(shape, type.dtype, have if shape == type.physical else shape, type.space, type.tensor_level)


def _reshaped(builder: Builder, tile: Var, type: TileType, node: ast.AST) -> Var:
    return builder.op("reshape", type, (tile, tuple(index(extent) for extent in type.shape)), node, hint=tile.name)


def put(builder: Builder, target: Var, source: Var, offsets: tuple[Expr, ...], node: ast.AST) -> Var:
    """`target` with the valid part of `source` at `offsets`, one per axis of the target."""
    type, part = target.tile, source.tile
    if part.dtype is not type.dtype:
        if not (part.dtype is FP32 and type.dtype in (FP16, BF16)):
            builder.fail(
                "type",
                f"{part.dtype.with_article} value cannot be put into {type.dtype.with_article} one",
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
    valid = _lifted(builder, target, source, node)
    check(builder, target, offsets, valid, node)
    return builder.op("assemble", type, (target, source, offsets), node, {"valid": valid}, target.name)


def _lifted(builder: Builder, target: Var, source: Var, node: ast.AST) -> tuple[Dim, ...]:
    """The validity of `source` with the rank of `target`."""
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
        return valid[extra:]
    return (1,) * -extra + valid


def check(builder: Builder, owner: Var, offsets: tuple[Expr, ...], valid: tuple[Dim, ...], node: ast.AST) -> None:
    """Refuses a box whose valid part certainly reaches past the value."""
    for axis, (offset, extent, dim) in enumerate(zip(offsets, valid, owner.tile.shape, strict=True)):
        # Of an empty box nothing is touched, wherever it is.
        if isinstance(offset, Const) and (
            offset.value < 0 or (0 not in valid and isinstance(extent, int) and offset.value + extent > dim)
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


__all__ = ["check", "part_of", "put", "reshaped", "retyped"]
