"""Rows: reductions, and operations that broadcast a row or a column."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_BOUND = (
    "The {0} of `n` elements is off by at most `n` roundings of FP32 of the {0} of magnitudes, and by the one rounding "
    "to a 16-bit dtype."
)
_ROW_FORMS = {"pl": "input, tmp_tile=None", "tensor": "input", "tile": "tile, tmp_tile"}
for _name, _doc in (
    ("row_max", "Largest element of each row: `[M, N]` to `[M, 1]`; NaN if any is NaN."),
    (
        "row_sum",
        "Sum of each row: `[M, N]` to `[M, 1]`, 0 where no column is valid. Floats accumulate in FP32, in the order of "
        f"the device's vectors. {_BOUND.format('sum')}",
    ),
    ("row_min", "Smallest element of each row: `[M, N]` to `[M, 1]`; NaN if any is NaN."),
    ("row_prod", f"Product of each row: `[M, N]` to `[M, 1]`. Floats accumulate in FP32. {_BOUND.format('product')}"),
):
    row(_name, _doc, rule="row_reduce", core=_name, **_ROW_FORMS)
for _name, _doc in (
    ("row_argmax", "Column of the first largest element of each row: `[M, 1]`, INT32."),
    ("row_argmin", "Column of the first smallest element of each row: `[M, 1]`, INT32."),
    ("col_argmax", "Row of the first largest element of each column: `[1, N]`, INT32."),
    ("col_argmin", "Row of the first smallest element of each column: `[1, N]`, INT32."),
):
    row(_name, _doc, rule=f"{_name[:3]}_reduce", core=_name, **_ROW_FORMS)
row(
    "col_sum",
    "Sum of each column: `[M, N]` to `[1, N]`, rows in ascending order. FP16 and BF16 accumulate in FP32 and are "
    f"rounded once, where PyPTO's simulator accumulates in the dtype itself. {_BOUND.format('sum')}",
    rule="col_reduce",
    core="col_sum",
    pl="input, tmp_tile=None",
    tensor="input",
    tile="tile, tmp_tile=None",
)
for _name, _doc in (
    ("col_max", "Largest element of each column: `[M, N]` to `[1, N]`; NaN if any is NaN."),
    ("col_min", "Smallest element of each column: `[M, N]` to `[1, N]`; NaN if any is NaN."),
    ("col_prod", f"Product of each column: `[M, N]` to `[1, N]`, rows in ascending order. {_BOUND.format('product')}"),
):
    row(_name, _doc, rule="col_reduce", core=_name, pl="input", tensor="input", tile="tile")

_LHS = "lhs, rhs"
_ROW, _COL = "row_vec", "col_vec"
_OPS = (
    ("mul", "`x * v`", "mul"),
    ("div", "`x / v`", "div"),
    ("add", "`x + v`", "add"),
    ("sub", "`x - v`", "sub"),
    ("max", "The larger of `x` and `v`", "maximum"),
    ("min", "The smaller of `x` and `v`", "minimum"),
    ("expdif", "`exp(x - v)`, the difference rounded to the dtype first,", "sub exp"),
)
for _name, _doc, _core in _OPS:
    _tmp = ", tmp=None" if _name == "add" else ""
    row(
        f"row_expand_{_name}",
        f"{_doc} with one `v` per row: `[M, N]` with `[M, 1]`.",
        rule="row_expand_binary",
        core=_core,
        pl=_LHS + _tmp,
        tensor=f"tensor, {_ROW}",
        tile=f"tile, {_ROW}" + _tmp,
    )
    row(
        f"col_expand_{_name}",
        f"{_doc} with one `v` per column: `[M, N]` with `[1, N]`.",
        rule="col_expand_binary",
        core=_core,
        pl=_LHS,
        tensor=f"tensor, {_COL}",
        tile=f"tile, {_COL}",
    )
row(
    "row_expand",
    "`v[M, 1]` broadcast to the shape of the target, whose elements do not matter.",
    rule="row_expand",
    core="expand",
    pl=_LHS,
    tensor=f"target, {_ROW}",
    tile=f"target, {_ROW}",
)
row(
    "col_expand",
    "`v[1, N]` broadcast to the shape of the target, whose elements do not matter.",
    rule="col_expand",
    core="expand",
    pl=_LHS,
    tensor=f"tensor, {_COL}",
    tile=f"target, {_COL}",
)
row(
    "expands",
    "A scalar broadcast to the shape and dtype of the target, whose elements do not matter.",
    rule="expands",
    core="fill",
    pl="target, scalar",
    tensor="target, scalar",
    tile="target, scalar",
)
row(
    "expand_clone",
    "`src`, of one row, one column or one element, broadcast to the shape of the target, whose elements do not matter.",
    rule="expand_clone",
    core="expand",
    pl="src, target",
    tensor="src, target",
)
