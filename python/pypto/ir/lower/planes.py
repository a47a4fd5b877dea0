"""Boxes of more than two axes whose rows do not lie side by side: one operation for each plane.

On chip a value is rows and columns; leading axes merge into rows. The core knows a region of rows and columns only, so
an operation that must touch exactly what is valid, or that takes a part out of the middle, is done plane by plane.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pypto.ir.diagnostics import Loc
from pypto.ir.exprs import Const, Dim, Expr, ScalarVar, binary, index, of_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TileType, is_prefix
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering

UNROLLED = 8
"""Planes of a static number are written out up to this many; more of them are a loop."""


def outer_axes(
    shape: tuple[int, ...],
    valid: tuple[Dim, ...],
    whole: tuple[int, ...] | None = None,
    offsets: tuple[Expr, ...] | None = None,
) -> int:
    """How many outer axes must be walked so that what remains is one prefix of rows, side by side in `whole`."""
    for depth in range(len(shape)):
        if is_prefix(shape[depth:], valid[depth:]) and (
            whole is None or offsets is None or _side_by_side(shape[depth:], whole[depth:], offsets[depth:])
        ):
            return depth
    return 0


def _side_by_side(shape: tuple[int, ...], whole: tuple[int, ...], offsets: tuple[Expr, ...]) -> bool:
    leading = range(len(shape) - 1)
    first = next((axis for axis in leading if shape[axis] != 1), len(shape))
    return all(
        shape[axis] == whole[axis] and isinstance(offsets[axis], Const) and offsets[axis].value == 0  # type: ignore[union-attr]
        for axis in leading[first + 1 :]
    )


def planes(to: FunctionLowering, extents: tuple[Dim, ...], loc: Loc) -> Iterator[tuple[Expr, ...]]:
    """Every index along outer axes of these extents; what is emitted for each becomes part of the function."""
    count = 1
    for extent in extents:
        count = count * extent if isinstance(extent, int) else UNROLLED + 1
    if count <= UNROLLED:
        for at in itertools.product(*(range(extent) for extent in extents if isinstance(extent, int))):
            yield tuple(map(index, at))
        return
    loops: list[tuple[list[dict[str, Any]], ScalarVar, dict[str, Any]]] = []
    for extent in extents:
        loops.append((to.block, ScalarVar("plane", INDEX), to.scalars.dim(extent, loc)))
        to.block = []
    yield tuple(var for _, var, _ in loops)
    for outer, var, stop in reversed(loops):
        body, to.block = to.block, outer
        bounds = {"start": {"Int": 0}, "stop": stop, "step": {"Int": 1}}
        to.emit({"For": {"var": to.scalars.slot(var), **bounds, "parallel": False, "body": body}}, loc)


def merged_row(at: tuple[Expr, ...], extents: tuple[int, ...]) -> Expr:
    """The row that indices along leading axes merge into; axes that `at` leaves out count as 0."""
    row: Expr = index(0)
    for axis, extent in enumerate(extents[:-1]):
        row = binary("mul", row, of_dim(extent), INDEX)
        row = binary("add", row, at[axis], INDEX) if axis < len(at) else row
    return row


def moved(offsets: tuple[Expr, ...], at: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Offsets further on by the index of a plane."""
    first = tuple(binary("add", offset, place, INDEX) for offset, place in zip(offsets, at, strict=False))
    return first + offsets[len(at) :]


def plane_of(like: Var, shape: tuple[int, ...], valid: tuple[Dim, ...]) -> Var:
    """A fresh on-chip value for one plane."""
    return Var(f"{like.name}_plane", TileType(shape, like.type.dtype, valid), like.loc)


__all__ = ["merged_row", "moved", "outer_axes", "plane_of", "planes"]
