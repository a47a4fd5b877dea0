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
        return Window(source, offsets, shape, valid, keep)
    all_offsets = list(source.offsets)
    extents: list[Dim] = [1] * len(all_offsets)
    parts: list[Dim] = [1] * len(all_offsets)
    for position, axis in enumerate(source.keep):
        all_offsets[axis] = binary("add", source.offsets[axis], offsets[position], INDEX)
        extents[axis], parts[axis] = shape[position], valid[position]
        if not same_extents((source.valid[axis],), (source.extents[axis],)):
            left = binary("max", binary("sub", of_dim(source.valid[axis]), offsets[position], INDEX), index(0), INDEX)
            parts[axis] = builder.dim(binary("min", of_dim(parts[axis]), left, INDEX), node)
    kept = tuple(source.keep[position] for position in keep)
    return Window(source.base, tuple(all_offsets), tuple(extents), tuple(parts), kept)
