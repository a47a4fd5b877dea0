"""Boxes of tensors and tiles: subscripts, slices, and writes through them.

In orchestration code a box is an alias of its tensor. In a kernel it is a `Window` first: loaded when it is used as a
value or bound to a name, viewed when it is used as device memory, written when it is assigned.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.frontend import scalars, validity, windows
from pypto.frontend.assigned import called
from pypto.frontend.builder import Builder, usable
from pypto.frontend.values import Value, Window, describe
from pypto.ir.exprs import Const, Dim, Expr, ScalarVar, Symbol, binary, difference, index, of_dim, same
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TensorType, TileType
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions


@dataclass(frozen=True, slots=True)
class Box:
    """Offsets and extents, one per axis of the indexed value, and the axes that remain."""

    offsets: tuple[Expr, ...]
    extents: tuple[Dim, ...]
    keep: tuple[int, ...]

    @property
    def is_element(self) -> bool:
        """Whether every axis was given a scalar."""
        return not self.keep


def read_box(expressions: Expressions, owner: Var, node: ast.Subscript) -> Box:
    """What stands between the brackets of `owner[...]`."""
    builder = expressions.builder
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    shape = owner.type.shape
    if len(items) > len(shape):
        builder.fail(
            "value",
            f"{len(items)} indices for {describe(owner)}, which has {len(shape)} axes",
            node,
            f"give at most {len(shape)} indices; missing trailing axes are taken whole",
        )
    offsets: list[Expr] = []
    extents: list[Dim] = []
    keep: list[int] = []
    for axis, dim in enumerate(shape):
        item = items[axis] if axis < len(items) else None
        if item is None or isinstance(item, ast.Slice):
            start, extent = _range(expressions, item, dim)
            offsets.append(start)
            extents.append(extent)
            keep.append(axis)
        else:
            offsets.append(_index(expressions, item, dim))
            extents.append(1)
    return Box(tuple(offsets), tuple(extents), tuple(keep))


def _index(expressions: Expressions, item: ast.expr, dim: Dim) -> Expr:
    builder = expressions.builder
    if isinstance(item, ast.Constant) and item.value is Ellipsis:
        builder.fail(
            "syntax", "`...` is not part of the kernel language", item, "missing trailing axes are taken whole: x[i]"
        )
    offset = scalars.integer(builder, usable(builder, expressions.value(item)), item, "an index")
    if isinstance(offset, Const):
        if offset.value < 0:
            builder.fail(
                "value", "negative indices are not part of the kernel language", item, "count from the start: x[n - 1]"
            )
        if isinstance(dim, int) and offset.value >= dim:
            builder.fail(
                "value", f"index {offset.value} is outside an axis of {dim}", item, f"indices are 0 to {dim - 1}"
            )
    return offset


def _range(expressions: Expressions, item: ast.Slice | None, dim: Dim) -> tuple[Expr, Dim]:
    builder = expressions.builder
    if item is None or (item.lower is None and item.upper is None and item.step is None):
        return index(0), dim
    if item.step is not None:
        builder.fail(
            "syntax",
            "a slice with a step is not part of the kernel language",
            item,
            "loop over pl.range(start, stop, step)",
        )
    start: Expr = index(0)
    stop = of_dim(dim)
    if item.lower is not None:
        start = scalars.integer(
            builder, usable(builder, expressions.value(item.lower)), item.lower, "the start of a slice"
        )
    if item.upper is not None:
        stop = scalars.integer(
            builder, usable(builder, expressions.value(item.upper)), item.upper, "the end of a slice"
        )
    for bound, what in ((start, "start"), (stop, "end")):
        if isinstance(bound, Const) and bound.value < 0:
            builder.fail("value", f"the {what} of a slice is negative", item, "count from the start")
    extent = difference(stop, start)
    if isinstance(extent, int) and extent <= 0:
        builder.fail(
            "value",
            f"this slice is empty: from {ast.unparse(item)!r} follow {extent} elements",
            item,
            "the end of a slice is above its start: x[a:b] with a < b",
        )
    return start, extent if isinstance(extent, int) else builder.dim(extent, item)


def subscript(expressions: Expressions, owner: Var, node: ast.Subscript) -> Value:
    """`tensor[...]` as a value: one element, a view, or in a kernel a window."""
    builder = expressions.builder
    box = read_box(expressions, owner, node)
    if box.is_element:
        return read_element(builder, owner, box.offsets, node)
    window = windows.subwindow(builder, owner, box.offsets, box.extents, box.extents, box.keep, node)
    if builder.level != "kernel":
        return view_of(builder, window, node)  # it may reach past its tensor: only what is accessed must exist
    check_box(builder, owner, box.offsets, window.valid, node)
    return window


def read_element(builder: Builder, owner: Var, offsets: tuple[Expr, ...], node: ast.AST) -> Expr:
    """One element as a scalar."""
    out = ScalarVar(builder.unique("e"), owner.type.dtype)
    builder.emit(OpStmt("read", out, (owner, offsets), builder.loc(node)))
    return out


def check_box(builder: Builder, owner: Var, offsets: tuple[Expr, ...], valid: tuple[Dim, ...], node: ast.AST) -> None:
    """Refuses a box whose valid part certainly reaches past a static extent. Of an empty one nothing is touched."""
    if 0 in valid:
        return
    for axis, (offset, extent, dim) in enumerate(zip(offsets, valid, owner.type.shape, strict=True)):
        if (
            isinstance(offset, Const)
            and isinstance(extent, int)
            and isinstance(dim, int)
            and int(offset.value) + extent > dim
        ):
            builder.fail(
                "value",
                f"this box reaches past the end of {owner.name!r}: axis {axis} has {dim} elements, the box ends at "
                f"{int(offset.value) + extent}",
                node,
                "make it smaller, or say how much of it is valid: valid_shape=[...]",
            )


def view_of(builder: Builder, window: Window, node: ast.AST) -> Var:
    """An alias of the box (whole axes that cover the tensor are the tensor itself)."""
    base = window.base
    at_origin = all(isinstance(offset, Const) and offset.value == 0 for offset in window.offsets)
    if (
        not builder.explicit
        and at_origin
        and len(window.keep) == len(base.type.shape)
        and all(same(a, b) for a, b in zip(window.extents, base.type.shape, strict=True))
        and all(same(a, b) for a, b in zip(window.valid, base.type.valid, strict=True))
    ):
        return base
    valid = validity.kept(builder, window.valid, window.keep, node)
    type = TensorType(window.shape, base.type.dtype, partial=None if valid == window.shape else valid)
    return builder.op("slice", type, (base, window.offsets, window.extents), node, {"keep": window.keep}, base.name)


def placeholder(builder: Builder, name: str, type: TensorType, node: ast.AST) -> Var:
    """A variable for views of `type` that none is in yet: any memory of its dtype, which nobody looks at."""
    bases = [
        value
        for value in builder.frame.names.values()
        if isinstance(value, Var)
        and isinstance(value.type, TensorType)
        and value.type.dtype is type.dtype
        and len(value.type.shape) >= len(type.shape)
    ]
    if not bases or not all(isinstance(dim, (int, Symbol)) for dim in (*type.shape, *type.valid)):
        builder.fail(
            "value",
            f"{called(name)} is a view of which the extents are known on some paths only",
            node,
            "slice it after this statement: let the path decide the offset",
        )
    extra = len(bases[0].type.shape) - len(type.shape)
    extents = (*(1,) * extra, *type.shape)
    view = Var(name, type, builder.loc(node), mutable=True)
    attrs = {"keep": tuple(range(extra, len(extents)))}
    box = (bases[0], tuple(index(0) for _ in extents), extents)
    builder.placeholders[view] = made = OpStmt("slice", view, box, builder.loc(node), attrs)
    builder.emit(made)
    return view


def load_window(builder: Builder, window: Window, node: ast.AST, transposed: bool = False) -> Var:
    """The box as an on-chip value: a snapshot. `transposed` swaps the two axes that remain, on the way."""
    shape = tuple(window.extents[axis] for axis in window.keep)
    for extent in shape:
        if not isinstance(extent, int):
            builder.fail(
                "value",
                "an on-chip value has a static shape, and the extent of this slice is only known at run time",
                node,
                "slice a constant number, x[i : i + 16], or say what is valid: pl.slice(x, [16], [i], valid_shape=[n])",
            )
    valid = validity.kept(builder, window.valid, window.keep, node)
    if transposed:
        shape, valid = shape[::-1], valid[::-1]
    type = TileType(shape, window.base.type.dtype, valid, tensor_level=True)  # type: ignore[arg-type]  # checked above
    attrs = {"box": window.extents, "keep": window.keep, "transposed": transposed}
    return builder.op("load", type, (window.base, window.offsets, window.valid), node, attrs, window.base.name)


def in_memory(builder: Builder, tile: Var, node: ast.AST) -> Var:
    """The device memory in which an on-chip value waits between scopes, for orchestration code that needs it there."""
    return builder.op("spill", TensorType(tile.tile.shape, tile.tile.dtype), (tile,), node, hint=tile.name)


def whole(tensor: Var) -> Window:
    """A tensor as the box that covers it."""
    shape, valid = tensor.type.shape, tensor.type.valid
    return Window(tensor, tuple(index(0) for _ in shape), shape, valid, tuple(range(len(shape))))


def load_whole(builder: Builder, tensor: Var, node: ast.AST) -> Var:
    """A whole tensor as an on-chip value."""
    return load_window(builder, whole(tensor), node)


def clamp(
    owner: Var, offsets: tuple[Expr, ...], extents: tuple[Dim, ...], builder: Builder, node: ast.AST
) -> tuple[Dim, ...]:
    """The part of a box that lies inside its tensor."""
    inside: list[Dim] = []
    for offset, extent, dim in zip(offsets, extents, owner.type.shape, strict=True):
        left = binary("sub", of_dim(dim), offset, INDEX)
        part = binary("max", binary("min", of_dim(extent), left, INDEX), index(0), INDEX)
        inside.append(builder.dim(part, node))
    return tuple(inside)
