"""The matrix of operations: arithmetic, comparisons, bits, reductions and broadcasts."""

from __future__ import annotations

from typing import Any

import numpy as np
from operations.case import FLOATS, INTEGERS, SIGNED, Cases, Reference


def _trunc_div(a: Any, b: Any) -> Any:
    if a.dtype == np.float64:
        return a / b
    quotient = np.abs(a) // np.where(b == 0, 1, np.abs(b)) * np.sign(a) * np.sign(b)
    return np.where(b == 0, 0, quotient)


def _fmod(a: Any, b: Any) -> Any:
    return np.fmod(a, b) if a.dtype == np.float64 else np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


def _rem(a: Any, b: Any) -> Any:
    return np.mod(a, b) if a.dtype == np.float64 else np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))


def _sel(condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition, a, b)


ARITHMETIC: dict[str, Reference] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _trunc_div,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
UNARY: dict[str, tuple[Reference, str, int]] = {
    "exp": (np.exp, "any", 2),
    "log": (np.log, "positive", 2),
    "sqrt": (np.sqrt, "positive", 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "positive", 2),
    "recip": (lambda x: 1 / x, "nonzero", 2),
    "sin": (np.sin, "angle", 2),
    "cos": (np.cos, "angle", 2),
}
COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)

_case = Cases()
CASES = _case.all


for _name, _reference in ARITHMETIC.items():
    _case(_name, f"pl.{_name}({{0}}, {{1}})", _reference, ("full", "full"))
    _case(_name, f"pl.tensor.{_name}({{0}}, 3)", lambda a, f=_reference: f(a, np.asarray(3, a.dtype)))
    _scalar = f"{_name}s"
    _case(_scalar, f"pl.tile.{_scalar}({{0}}, 5)", lambda a, f=_reference: f(a, np.asarray(5, a.dtype)))
for _name in ("max", "min"):
    _whole = ARITHMETIC[f"{_name}imum"]
    _case(f"tile_{_name}", f"pl.tile.{_name}({{0}}, {{1}})", _whole, ("full", "full"))
    _case(f"tile_{_name}", f"pl.tile.{_name}({{0}}, 2)", lambda a, f=_whole: f(a, np.asarray(2, a.dtype)))
for _name, (_reference, _domain, _ulp) in UNARY.items():
    _case(_name, f"pl.{_name}({{0}})", _reference, dtypes=FLOATS, domain=_domain, ulp=_ulp)
_case("neg", "pl.neg({0})", np.negative)
_case("abs", "pl.abs({0})", np.abs)
_case("relu", "pl.relu({0})", lambda x: np.maximum(x, 0))
_case("lrelu", "pl.lrelu({0}, 0.5)", lambda x: np.where(x > 0, x, x * 0.5), dtypes=FLOATS)
_case("prelu", "pl.prelu({0}, {1}, {0})", lambda x, s: np.where(x > 0, x, x * s), ("full", "full"), dtypes=FLOATS)
_case("lrelu", "pl.lrelu({0}, 2)", lambda x: np.where(x > 0, x, x * 2), dtypes=SIGNED)
for _name, _sign in (("addc", 1), ("subc", -1)):  # of small whole numbers no step rounds
    _call = f"pl.{_name}({{0}}, {{1}}, {{2}})"
    _case(_name, _call, lambda a, b, c, s=_sign: a + s * b + c, ("full",) * 3, domain="small")
    _scalar = _name.replace("c", "sc")
    _call = f"pl.{_scalar}({{0}}, 3, {{1}})"
    _case(_scalar, _call, lambda a, c, s=_sign: a + s * 3 + c, ("full",) * 2, domain="small")
# The quotient of fmod may need far more bits than an element has; the device is exact, and so is numpy.
_case("fmod", "pl.fmod({0}, {1})", _fmod, ("full", "full"))
_case("fmods", "pl.fmods({0}, 7)", lambda a: _fmod(a, np.asarray(7, a.dtype)))
# Where the exact remainder is not representable (a tiny negative number plus the divisor) it is rounded once.
_case("rem", "pl.rem({0}, {1}, {0})", _rem, ("full", "full"))
_case("rems", "pl.rems({0}, 7, {0})", lambda a: _rem(a, np.asarray(7, a.dtype)))

for _number, _compare in enumerate(COMPARISONS):
    _case(
        "cmp",
        f"pl.tensor.cmp({{0}}, {{1}}, cmp_type={_number})",
        lambda a, b, f=_compare: f(a, b).astype(a.dtype),
        ("full", "full"),
    )
    _case(
        "cmps",
        f"pl.sel(pl.cmps({{0}}, 1, cmp_type={_number}), {{0}}, {{1}}, {{0}})",
        lambda a, b, f=_compare: np.where(f(a, 1), a, b),
        ("full", "full"),
    )
_case(
    "sel",
    "pl.sel(pl.tile.cmp({0}, {1}, cmp_type=4), {0}, {1}, {0})",
    lambda a, b: np.where(a > b, a, b),
    ("full", "full"),
)
_case(
    "sels",
    "pl.sels(pl.tile.cmp({0}, {1}, cmp_type=2), {0}, {0}, 4)",
    lambda a, b: np.where(a < b, a, 4),
    ("full", "full"),
)

for _name, _bits in (("and_", np.bitwise_and), ("or_", np.bitwise_or), ("xor", np.bitwise_xor)):
    _case(_name, f"pl.{_name}({{0}}, {{1}})", _bits, ("full", "full"), dtypes=INTEGERS)
    _scalar = _name.rstrip("_") + "s"
    _case(_scalar, f"pl.{_scalar}({{0}}, 21)", lambda a, f=_bits: f(a, 21), dtypes=INTEGERS)
_case("not_", "pl.not_({0})", np.invert, dtypes=INTEGERS)
for _count in (0, 3, 7):
    _case("shls", f"pl.shls({{0}}, {_count})", lambda a, n=_count: a << n, dtypes=INTEGERS)
    _case("shrs", f"pl.shrs({{0}}, {_count})", lambda a, n=_count: a >> n, dtypes=INTEGERS)
_case(
    "shl", "pl.shl({0}, {1})", lambda a, n: np.where((n >= 0) & (n < 64), a << (n & 63), 0), ("full", "full"),
    dtypes=("INT64",), domain="count",
)  # fmt: skip
_case("shr", "pl.shr({0}, pl.ands({1}, 7))", lambda a, n: a >> (n & 7), ("full", "full"), dtypes=INTEGERS)
_case("shl", "pl.shl({0}, pl.ands({1}, 7))", lambda a, n: a << (n & 7), ("full", "full"), dtypes=INTEGERS)

for _name, _width in (("row", "col"), ("col", "row")):
    for _short, _whole in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("max", "maximum"), ("min", "minimum")):  # fmt: skip  # noqa: E501
        _op = f"{_name}_expand_{_short}"
        _case(_op, f"pl.{_op}({{0}}, {{1}})", ARITHMETIC[_whole], ("full", _width))
    _op = f"{_name}_expand_expdif"
    _call = f"pl.{_op}({{0}}, {{1}})"
    _case(_op, _call, lambda a, v: np.exp(a - v), ("full", _width), dtypes=FLOATS, ulp=2, domain="small")
    _op = f"{_name}_expand"
    _case(_op, f"pl.{_op}({{0}}, {{1}})", lambda a, v: np.broadcast_to(v, a.shape), ("full", _width))
_case("expand_clone", "pl.expand_clone({1}, {0})", lambda a, v: np.broadcast_to(v, a.shape), ("full", "row"))
_case("expands", "pl.expands({0}, 6)", lambda a: np.full_like(a, 6))

for _axis, _name in ((1, "row"), (0, "col")):
    _shape = "col" if _axis else "row"
    for _short, _reduce in (("max", np.max), ("min", np.min)):
        _op = f"{_name}_{_short}"
        _tmp = ", {0}" if _name == "row" else ""
        _case(_op, f"pl.{_op}({{0}}{_tmp})", lambda a, f=_reduce, x=_axis: f(a, x, keepdims=True), out=_shape)
        _op = f"{_name}_arg{_short}"
        _pick = np.argmax if _short == "max" else np.argmin
        _case(
            _op,
            f"pl.{_op}({{0}}, {{0}})",
            lambda a, f=_pick, x=_axis: np.expand_dims(f(a, x), x),
            out=_shape,
            result="INT32",
            domain="ties",
        )
    # Sums of few small whole numbers are exact in every dtype; the bound of rounding is tested apart.
    _case(
        f"{_name}_sum",
        f"pl.{_name}_sum({{0}}, {{0}})",
        lambda a, x=_axis: a.sum(x, keepdims=True),
        out=_shape,
        domain="small",
    )
    _args = "({0}, {0})" if _name == "row" else "({0})"
    _case(
        f"{_name}_prod",
        f"pl.{_name}_prod{_args}",
        lambda a, x=_axis: a.prod(x, keepdims=True),
        out=_shape,
        domain="signs",
    )
