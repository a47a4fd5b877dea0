"""Boxes of boxes: what a window of device memory means for the tensor behind it."""

from __future__ import annotations

import ast

from pypto.frontend.builder import Builder
from pypto.frontend.values import Window
from pypto.ir.exprs import Dim, Expr, binary, index, of_dim
from pypto.ir.nodes import Var
from pypto.ir.types import same_extents
from pypto.language.dtypes import INDEX


def name_of(source: Var | Window) -> str:
    """The name of the tensor."""
    return source.name if isinstance(source, Var) else source.base.name


def extents_of(source: Var | Window) -> tuple[Dim, ...]:
    """The extents of the axes that can be indexed."""
    return source.type.shape if isinstance(source, Var) else source.shape


def subwindow(
    builder: Builder,
    source: Var | Window,
    offsets: tuple[Expr, ...],
    shape: tuple[Dim, ...],
    valid: tuple[Dim, ...],
    keep: tuple[int, ...],
    node: ast.AST,
) -> Window:
    """A box of device memory, or of a window of it; one entry per axis of the source, `keep` lists those that remain.

    What is valid is what the source has valid there, cut to `valid`.
    """
    if isinstance(source, Var):
        inside = _inside(builder, source.type.valid, source.type.shape, offsets, valid, node)
        return Window(source, offsets, shape, inside, keep)
    own, whole = (tuple(every[axis] for axis in source.keep) for every in (source.valid, source.extents))
    valid = _inside(builder, own, whole, offsets, valid, node)
    all_offsets = list(source.offsets)
    extents: list[Dim] = [1] * len(all_offsets)
    parts: list[Dim] = [1] * len(all_offsets)
    for position, axis in enumerate(source.keep):
        all_offsets[axis] = binary("add", source.offsets[axis], offsets[position], INDEX)
        extents[axis], parts[axis] = shape[position], valid[position]
    kept = tuple(source.keep[position] for position in keep)
    return Window(source.base, tuple(all_offsets), tuple(extents), tuple(parts), kept)


def _inside(
    builder: Builder,
    own: tuple[Dim, ...],
    whole: tuple[Dim, ...],
    offsets: tuple[Expr, ...],
    valid: tuple[Dim, ...],
    node: ast.AST,
) -> tuple[Dim, ...]:
    """The part of a box that a partly valid source has valid; along an axis that is all valid nothing is cut."""
    if builder.explicit:
        return valid
    cut: list[Dim] = []
    for part, have, extent, offset in zip(valid, own, whole, offsets, strict=True):
        if not same_extents((have,), (extent,)):
            left = binary("max", binary("sub", of_dim(have), offset, INDEX), index(0), INDEX)
            part = builder.dim(binary("min", of_dim(part), left, INDEX), node)
        cut.append(part)
    return tuple(cut)
