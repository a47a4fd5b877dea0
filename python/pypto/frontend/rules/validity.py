"""Arithmetic on valid extents."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pypto.frontend.builder import Builder
from pypto.ir.exprs import Dim, Expr, binary, index, of_dim, same
from pypto.ir.types import region
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


def require_rows(call: BoundCall, shape: tuple[int, ...], valid: tuple[Dim, ...]) -> tuple[Dim, Dim]:
    """The valid rows and columns of a box whose leading axes merge into rows."""
    found = region(shape, valid)
    if found is None:
        call.builder.fail(
            "unsupported",
            f"{call.form.spelling}: of {list(shape)} only the outermost axis and the last one may be partly valid",
            call.node,
            "work on the planes one by one",
        )
    return found
