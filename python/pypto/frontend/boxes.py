"""Boxes that are written by assignment, and subscripts of on-chip values.

Assigning a box of device memory stores. An on-chip value is functional: assigning a box gives its name a new value.
A part that ends at a runtime extent keeps its static box; the extent says how much of it is valid.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from pypto.frontend import scalars, tasks, views
from pypto.frontend.builder import usable
from pypto.frontend.rules import pieces
from pypto.frontend.rules.base import tile_value
from pypto.frontend.rules.transfer import write_tile
from pypto.frontend.values import ArrayValue, Value, Window, describe
from pypto.ir.exprs import Const, Dim, binary, index, of_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions
    from pypto.frontend.reader import Reader


def subscript_tile(expressions: Expressions, owner: Var, node: ast.Subscript) -> Value:
    """`tile[...]`: one element, or a copy of a part. Outside kernels the value waits in device memory: a view of it."""
    builder = expressions.builder
    if builder.level != "kernel":
        return views.subscript(expressions, views.in_memory(builder, owner, node), node)
    box = views.read_box(expressions, owner, node)
    if box.is_element:
        return views.read_element(builder, owner, box.offsets, node)
    moving = next((axis for axis in box.keep if not isinstance(box.offsets[axis], Const)), None)
    if moving is not None and not owner.tile.tensor_level:
        builder.fail(
            "value",
            f"the slice of a tile along axis {moving} starts where only the run time knows; lower bounds are constants",
            node,
            "write pl.slice(t, shape, [i, 0]), or slice the tensor and load that part",
        )
    shape, valid = _static(expressions, owner, box, node)
    return pieces.part_of(builder, owner, box.offsets, shape, valid, box.keep, node)


def _static(
    expressions: Expressions, owner: Var, box: views.Box, node: ast.Subscript
) -> tuple[tuple[int, ...], tuple[Dim, ...]]:
    """The static extents of a box of a tile, and how much of each is valid."""
    builder = expressions.builder
    shape: list[int] = []
    valid: list[Dim] = []
    for axis, (offset, extent) in enumerate(zip(box.offsets, box.extents, strict=True)):
        if isinstance(extent, int):
            shape.append(extent)
            valid.append(extent)
            continue
        if not isinstance(offset, Const):
            builder.fail(
                "value",
                f"both ends of the slice along axis {axis} are only known at run time, and a tile has a static shape",
                node,
                "slice a constant number, t[i : i + 16], or write pl.slice(t, shape, offset, valid_shape=[...])",
            )
        rest = owner.tile.shape[axis] - int(offset.value)
        part = binary("max", binary("min", of_dim(extent), index(rest), INDEX), index(0), INDEX)
        shape.append(rest)
        valid.append(builder.dim(part, node))
    return tuple(shape), tuple(valid)


def write(reader: Reader, target: ast.Subscript, value: Value, node: ast.stmt) -> None:
    """`owner[...] = value`."""
    builder, expressions = reader.builder, reader.expressions
    if not isinstance(target.value, ast.Name):
        hint = "give the view a name first"
        builder.fail("syntax", "only a named tensor can be written through a subscript", target, hint)
    owner = usable(builder, expressions.value(target.value))
    if isinstance(owner, ArrayValue):
        position = usable(builder, expressions.value(target.slice))
        tasks.set_element(builder, owner, scalars.integer(builder, position, target.slice, "an index"), value, node)
        return
    if isinstance(owner, Window):
        owner = views.view_of(builder, owner, target)
    if not isinstance(owner, Var):
        hint = "write a tensor, an on-chip value or a pl.array: out[a:b, c:d] = x"
        builder.fail("type", f"{describe(owner)} cannot be written through a subscript", target, hint)
    box = views.read_box(expressions, owner, target)
    if box.is_element:
        at = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        hint = f"write pl.write({owner.name}, [{', '.join(map(ast.unparse, at))}], value)"
        builder.fail("type", "a single element is not written by assignment", node, hint)
    if builder.level != "kernel":
        builder.fail(
            "type",
            "Misplaced tensor op: it writes a tensor, and this is orchestration code; it should be inside InCore block",
            node,
            "put it into a kernel: `with pl.at(level=pl.Level.CORE_GROUP):` around it",
        )
    tile = tile_value(builder, value, node, "the written value")
    if isinstance(owner.type, TileType):
        name = target.value.id
        reader.statements.assign_name(name, _put(expressions, owner, box, tile, node, target), node)
        return
    _check_shape(reader, tuple(box.extents[axis] for axis in box.keep), tile, node)
    offsets = tuple(box.offsets[axis] for axis in box.keep)
    if len(box.keep) == len(owner.type.shape):
        write_tile(builder, tile, owner, offsets, node, "this assignment")
    else:
        zero = tuple(Const(0, offset.dtype) for offset in offsets)
        window = Window(owner, box.offsets, box.extents, box.extents, box.keep)
        write_tile(builder, tile, window, zero, node, "this assignment")


def _put(
    expressions: Expressions, owner: Var, box: views.Box, source: Var, node: ast.stmt, target: ast.Subscript
) -> Var:
    builder = expressions.builder
    shape, _ = _static(expressions, owner, box, target)
    kept = tuple(shape[axis] for axis in box.keep)
    _check_shape(expressions.reader, kept, source, node)
    old = source.tile
    if len(old.shape) <= len(box.keep) < len(shape):  # the axes that scalar indices dropped come back with extent 1
        parts = iter((*(1 for _ in range(len(box.keep) - len(old.shape))), *old.valid))
        valid: tuple[Dim, ...] = tuple(next(parts) if axis in box.keep else 1 for axis in range(len(shape)))
        lifted = tuple(shape[axis] if axis in box.keep else 1 for axis in range(len(shape)))
        type = TileType(lifted, old.dtype, valid, old.space, old.tensor_level)
        source = pieces.retyped(builder, source, type, node)
    return pieces.put(builder, owner, source, box.offsets, node)


def _check_shape(reader: Reader, extents: tuple[Dim, ...], tile: Var, node: ast.stmt) -> None:
    shape = tile.tile.shape
    missing = len(extents) - len(shape)
    lifted = (1,) * missing + shape if missing >= 0 else shape[-missing:]
    for extent, have in zip(extents, lifted, strict=True):
        if isinstance(extent, int) and extent != have:
            static = [extent for extent in extents if isinstance(extent, int)]
            shown = ", ".join(str(extent) if isinstance(extent, int) else "?" for extent in extents)
            same_size = len(static) == len(extents) and math.prod(static) == math.prod(shape)
            reader.builder.fail(
                "type",
                f"a value of shape {list(shape)} is written to a box of shape [{shown}]",
                node,
                f"the shapes must be equal: pl.reshape(x, {static})" if same_size else "the shapes must be equal",
            )
