"""The matrix of operations: products of matrices, of small whole numbers that make them exact.

`test_reductions` has the bound of rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from operations.case import FLOATS, Cases

_case = Cases()
CASES = _case.all


def _plus(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a @ b + c


for _dtypes, _sum in ((FLOATS, "FP32"), (("INT8",), "INT32")):
    _keywords: dict[str, Any] = {"out": "product", "dtypes": _dtypes, "result": _sum, "domain": "small"}
    _added = ("full", "right", f"product of {_sum}")
    _biased = ("full", "right", f"line of {_sum}")
    for _name in ("matmul", "batch_matmul"):
        _case(_name, f"pl.{_name}({{0}}, {{1}})", np.matmul, ("full", "right"), **_keywords)
    for _name in ("pl.matmul_acc", "pl.tile.batch_matmul_acc"):
        _case(_name.rpartition(".")[2], f"{_name}({{2}}, {{0}}, {{1}})", _plus, _added, **_keywords)
    _case("matmul_bias", "pl.matmul_bias({0}, {1}, {2})", _plus, _biased, **_keywords)
    _row = {**_keywords, "out": "line"}
    _case("gemv", "pl.gemv({0}, {1})", np.matmul, ("row", "right"), **_row)
    _line = ("row", "right", f"line of {_sum}")
    _case("gemv_acc", "pl.gemv_acc({2}, {0}, {1})", _plus, _line, **_row)
    _case("gemv_bias", "pl.gemv_bias({0}, {1}, {2})", _plus, _line, **_row)
