"""Functions that other libraries have as one, and kernels write out of operations."""

from __future__ import annotations

from typing import Final

_SIGMOID: Final = "pl.recip(pl.add(pl.exp(pl.neg(x)), 1.0))"
_CUBIC: Final = "pl.mul(pl.mul(pl.mul(x, x), x), 0.044715)"
_POWERS: Final = "pl.exp(pl.sub(x, pl.row_max(x)))"

WRITTEN: Final = {
    "gelu": f"pl.div(x, pl.add(pl.exp(pl.mul(pl.add(x, {_CUBIC}), -1.5957691216057308)), 1.0))",
    "mean": "pl.mul(pl.row_sum(x), 1 / x.shape[1])",
    "sigmoid": _SIGMOID,
    "silu": f"pl.mul(x, {_SIGMOID})",
    "softmax": f"pl.div({_POWERS}, pl.row_sum({_POWERS}))",
    "square": "pl.mul(x, x)",
    "sum": "pl.row_sum(x)",
    "tanh": "pl.sub(pl.mul(pl.recip(pl.add(pl.exp(pl.mul(x, -2.0)), 1.0)), 2.0), 1.0)",
}
"""By name, what computes the same of an `x` of the shape `[M, N]`, along its rows; `gelu` is the form with `tanh`. The
names of `pl` that look alike (`ands` for `tanh`) would lead astray."""
