"""Arithmetic on valid extents."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pypto.frontend.builder import Builder
from pypto.ir.exprs import Dim, Expr, binary, index, of_dim, same
from pypto.ir.types import is_prefix, region
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def smaller(builder: Builder, a: Dim, b: Dim, node: ast.AST) -> Dim:
    """The smaller of two extents."""
    return a if same(a, b) else builder.dim(binary("min", of_dim(a), of_dim(b), INDEX), node)


def larger(call: BoundCall, a: Dim, b: Dim) -> Dim:
    """The larger of two extents."""
    return a if same(a, b) else call.builder.dim(binary("max", of_dim(a), of_dim(b), INDEX), call.node)


def rest(builder: Builder, extent: Dim, offset: Expr, node: ast.AST) -> Dim:
    """How much of an extent follows `offset`; 0 where nothing does."""
    left = binary("sub", of_dim(extent), offset, INDEX)
    return builder.dim(binary("max", left, index(0), INDEX), node)


def scaled(builder: Builder, extent: Dim, factor: int, node: ast.AST) -> Dim:
    """An extent times a factor."""
    return builder.dim(binary("mul", of_dim(extent), index(factor), INDEX), node)


def divided(builder: Builder, extent: Dim, divisor: int, node: ast.AST) -> Dim:
    """An extent divided by a factor of it."""
    return builder.dim(binary("floordiv", of_dim(extent), index(divisor), INDEX), node)


def total(builder: Builder, extents: tuple[Dim, ...], node: ast.AST) -> Dim:
    """The sum of extents."""
    result: Expr = index(0)
    for extent in extents:
        result = binary("add", result, of_dim(extent), INDEX)
    return builder.dim(result, node)


def kept(builder: Builder, valid: tuple[Dim, ...], keep: tuple[int, ...], node: ast.AST) -> tuple[Dim, ...]:
    """The valid extents of the axes that remain; of the one index along a dropped axis all is valid or nothing."""
    gate: Expr = index(1)
    for axis, part in enumerate(valid):
        if axis not in keep and part != 1:
            gate = binary("mul", gate, of_dim(part), INDEX)
    return _gated(builder, tuple(valid[axis] for axis in keep), gate, node)


def _gated(builder: Builder, valid: tuple[Dim, ...], gate: Expr, node: ast.AST) -> tuple[Dim, ...]:
    """Nothing is valid where `gate` is 0; it is 1 otherwise."""
    if gate == index(1) or not valid:
        return valid
    return builder.dim(binary("mul", of_dim(valid[0]), gate, INDEX), node), *valid[1:]


def reshaped(
    builder: Builder, shape: tuple[int, ...], valid: tuple[Dim, ...], wanted: tuple[int, ...], node: ast.AST
) -> tuple[Dim, ...] | None:
    """What is valid of the same elements in another shape; `None` where no box of it says so.

    Axes are compared in the smallest groups that hold equally many elements in both shapes: what is valid of a group is
    kept where both have the same axes, or where its first elements are valid and they are a box of the new axes, too.
    """
    parts: list[Dim] = []
    gate: Expr = index(1)
    for old, new in _groups(shape, wanted):
        axes = [(shape[axis], valid[axis]) for axis in old if shape[axis] != 1]
        extents = [wanted[axis] for axis in new if wanted[axis] != 1]
        for axis in old:  # of an axis of one element all is valid or nothing
            if shape[axis] == 1 and valid[axis] != 1:
                gate = binary("mul", gate, of_dim(valid[axis]), INDEX)
        if [extent for extent, _ in axes] == extents:
            same_axes: list[Dim] | None = [part for _, part in axes]
        else:
            same_axes = _first_elements(builder, axes, extents, node)
        if same_axes is None:
            return None
        rest_of = iter(same_axes)
        parts += [1 if wanted[axis] == 1 else next(rest_of) for axis in new]
    return _gated(builder, tuple(parts), gate, node)


def _groups(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """The axes of two shapes of equally many elements, in the smallest groups of which that is true, too."""
    left = right = 0
    while left < len(shape) or right < len(wanted):
        old: list[int] = []
        new: list[int] = []
        have = want = 1
        while not (old or new) or have != want:
            if have <= want and left < len(shape):
                old.append(left)
                have, left = have * shape[left], left + 1
            else:
                new.append(right)
                want, right = want * wanted[right], right + 1
        yield old, new


def _first_elements(
    builder: Builder, axes: list[tuple[int, Dim]], extents: list[int], node: ast.AST
) -> list[Dim] | None:
    """The valid extents of a group of new axes, where its first elements are the valid ones."""
    if any(part != extent for extent, part in axes[1:]):
        return None
    if not axes or axes[0][0] == axes[0][1]:
        return list(extents)
    part = axes[0][1]
    step, inner = math.prod(extent for extent, _ in axes[1:]), math.prod(extents[1:])
    if isinstance(part, int):
        if part * step % inner:
            return None
    elif step % inner:
        return None
    return [divided(builder, scaled(builder, part, step, node), inner, node), *extents[1:]]


def require_rows(call: BoundCall, shape: tuple[int, ...], valid: tuple[Dim, ...]) -> tuple[Dim, Dim]:
    """The valid rows and columns of a box whose leading axes merge into rows."""
    if not is_prefix(shape, valid):
        call.builder.fail(
            "unsupported",
            f"{call.form.spelling}: of {list(shape)} only the outermost axis and the last one may be partly valid",
            call.node,
            "work on the planes one by one",
        )
    return region(shape, valid)
