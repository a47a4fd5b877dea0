"""Rows: reductions, and operations that broadcast a row or a column."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

for _name, _doc, _core in (
    ("row_max", "Largest element of each row: `[M, N]` to `[M, 1]`.", "row_max"),
    ("row_sum", "Sum of each row: `[M, N]` to `[M, 1]`. Floats accumulate in FP32.", "row_sum"),
    ("row_min", "Smallest element of each row: `[M, N]` to `[M, 1]`.", "row_min"),
    ("row_prod", "Product of each row: `[M, N]` to `[M, 1]`.", ""),
    ("row_argmax", "Index of the largest element of each row, INT32.", ""),
    ("row_argmin", "Index of the smallest element of each row, INT32.", ""),
    ("col_argmax", "Index of the largest element of each column, INT32.", ""),
    ("col_argmin", "Index of the smallest element of each column, INT32.", ""),
):
    row(
        _name,
        _doc,
        rule="row_reduce" if _core else "",
        core=_core,
        pl="input, tmp_tile=None",
        tensor="input",
        tile="tile, tmp_tile",
    )
row(
    "col_sum",
    "Sum of each column: `[M, N]` to `[1, N]`.",
    pl="input, tmp_tile=None",
    tensor="input",
    tile="tile, tmp_tile=None",
)
for _name in ("col_max", "col_min", "col_prod"):
    row(_name, "Reduction of each column: `[M, N]` to `[1, N]`.", pl="input", tensor="input", tile="tile")

_LHS = "lhs, rhs"
_ROW, _COL = "row_vec", "col_vec"
for _name, _doc, _core, _tmp in (
    ("mul", "`x * v` with one `v` per row.", "mul", ""),
    ("div", "`x / v` with one `v` per row.", "div", ""),
    ("add", "`x + v` with one `v` per row.", "add", ", tmp=None"),
    ("sub", "`x - v` with one `v` per row.", "sub", ""),
    ("max", "The larger of `x` and `v` with one `v` per row.", "maximum", ""),
    ("min", "The smaller of `x` and `v` with one `v` per row.", "minimum", ""),
):
    row(
        f"row_expand_{_name}",
        _doc,
        rule="row_expand_binary",
        core=_core,
        pl=_LHS + _tmp,
        tensor=f"tensor, {_ROW}",
        tile=f"tile, {_ROW}" + _tmp,
    )
for _name, _doc, _core in (
    ("mul", "`x * v` with one `v` per column.", "mul"),
    ("div", "`x / v` with one `v` per column.", "div"),
    ("add", "`x + v` with one `v` per column.", "add"),
    ("sub", "`x - v` with one `v` per column.", "sub"),
    ("max", "The larger of `x` and `v` with one `v` per column.", "maximum"),
    ("min", "The smaller of `x` and `v` with one `v` per column.", "minimum"),
):
    row(
        f"col_expand_{_name}",
        _doc,
        rule="col_expand_binary",
        core=_core,
        pl=_LHS,
        tensor=f"tensor, {_COL}",
        tile=f"tile, {_COL}",
    )
row("row_expand_expdif", "`exp(x - v)` with one `v` per row.", pl=_LHS, tensor=f"tensor, {_ROW}", tile=f"tile, {_ROW}")
row(
    "col_expand_expdif",
    "`exp(x - v)` with one `v` per column.",
    pl=_LHS,
    tensor=f"tensor, {_COL}",
    tile=f"tile, {_COL}",
)
row(
    "row_expand",
    "`v[M, 1]` broadcast to the shape of the target.",
    pl=_LHS,
    tensor=f"target, {_ROW}",
    tile=f"target, {_ROW}",
)
row(
    "col_expand",
    "`v[1, N]` broadcast to the shape of the target.",
    pl=_LHS,
    tensor=f"tensor, {_COL}",
    tile=f"target, {_COL}",
)
row(
    "expands",
    "A scalar broadcast to the shape of the target.",
    pl="target, scalar",
    tensor="target, scalar",
    tile="target, scalar",
)
row("expand_clone", "A value broadcast to the shape of the target.", pl="src, target", tensor="src, target")
