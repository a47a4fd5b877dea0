"""Rows: arithmetic, comparisons, bits and conversions, element by element."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_BINARY = "lhs, rhs"
_BROADCAST = (
    "`[M, N] op [M, 1]` broadcasts the narrow operand along the row; a number or scalar on the right is applied to "
    "every element."
)


def _three(name: str, doc: str, signature: str = _BINARY, rule: str = "", core: str = "") -> None:
    row(name, doc, rule=rule, core=core, pl=signature, tensor=signature, tile=signature)


def _scalar_form(name: str, doc: str, rule: str = "", core: str = "") -> None:
    row(name, doc, rule=rule, core=core, tensor=_BINARY, tile=_BINARY)


def _unary(name: str, doc: str, rule: str = "", core: str = "", extra: str = "") -> None:
    signature = "input" + extra
    row(name, doc, rule=rule, core=core, pl=signature, tensor=signature, tile="tile" + extra)


_three("add", f"Sum of two values; integers wrap. {_BROADCAST}", rule="binary", core="add")
_three("sub", f"Difference `lhs - rhs`; integers wrap. {_BROADCAST}", rule="binary", core="sub")
_three("mul", f"Product; integers wrap. {_BROADCAST}", rule="binary", core="mul")
_three(
    "div",
    f"Quotient `lhs / rhs`; integers truncate and a zero divisor yields 0. {_BROADCAST}",
    "lhs, rhs, high_precision=False",
    rule="binary",
    core="div",
)
_three("maximum", "The larger of two values, element by element; NaN if either is NaN.", rule="binary", core="maximum")
_three("minimum", "The smaller of two values, element by element; NaN if either is NaN.", rule="binary", core="minimum")
_scalar_form("adds", "Sum of a value and a scalar.", rule="binary_scalar", core="add")
_scalar_form("subs", "Difference of a value and a scalar.", rule="binary_scalar", core="sub")
_scalar_form("muls", "Product of a value and a scalar.", rule="binary_scalar", core="mul")
_scalar_form("divs", "Quotient of a value and a scalar.", rule="binary_scalar", core="div")
row(
    "maximums",
    "The larger of each element and a scalar.",
    rule="binary_scalar",
    core="maximum",
    pl=_BINARY,
    tile=_BINARY,
)
row(
    "minimums",
    "The smaller of each element and a scalar.",
    rule="binary_scalar",
    core="minimum",
    pl=_BINARY,
    tile=_BINARY,
)
row(
    "tile_max",
    "The larger of each element and a scalar, or of two tiles.",
    rule="binary",
    core="maximum",
    tile="max(lhs, rhs)",
)
row(
    "tile_min",
    "The smaller of each element and a scalar, or of two tiles.",
    rule="binary",
    core="minimum",
    tile="min(lhs, rhs)",
)

_unary("neg", "Negation.", rule="unary", core="neg")
_unary("abs", "Absolute value.", rule="unary", core="abs")
_unary("exp", "Exponential of floats.", rule="unary_float", core="exp")
_unary("log", "Natural logarithm of floats.", extra=", high_precision=False")
_unary("sqrt", "Square root of floats, correctly rounded.", rule="unary_float", core="sqrt")
row(
    "rsqrt",
    "`1 / sqrt(x)` of floats.",
    pl="input, high_precision=False",
    tensor="input, high_precision=False",
    tile="tile, tmp=None",
)
_unary("recip", "`1 / x` of floats.", rule="unary_float", core="recip", extra=", high_precision=False")
_unary("sin", "Sine of floats.")
_unary("cos", "Cosine of floats.")
row("relu", "`max(x, 0)`.", rule="unary", core="relu", pl="tile", tile="tile")
row("lrelu", "`x` where positive, else `x * slope`.", pl="tile, slope", tile="tile, slope")
row(
    "prelu",
    "`x` where positive, else `x * slope` with a slope per element.",
    pl="tile, slope, tmp",
    tile="tile, slope, tmp",
)

row(
    "cast",
    "Converts the elements. The mode acts on float to integer only; conversions to floats round to nearest even. "
    "The default mode rounds half away from zero. Of a scalar: a C conversion.",
    rule="cast",
    core="cast",
    pl="input, target_type, mode='round'",
    tensor="input, target_type, mode='round'",
    tile="tile, target_type, mode='round'",
)

for _name in ("part_add", "part_mul", "part_max", "part_min"):
    row(_name, "Combines where both are valid, copies where one is.", pl=_BINARY, tensor=_BINARY, tile="src0, src1")
_three("fmod", "Remainder with the sign of the dividend.")
_three("fmods", "Remainder by a scalar with the sign of the dividend.")
row("rem", "Remainder with the sign of the divisor.", pl="lhs, rhs, tmp", tile="lhs, rhs, tmp")
row("rems", "Remainder by a scalar with the sign of the divisor.", pl="lhs, rhs, tmp", tile="lhs, rhs, tmp")

_three("cmp", "Comparison: 0 or 1 in the input dtype for tensors, a packed mask for tiles.", "lhs, rhs, cmp_type=0")
row("cmps", "Comparison with a scalar: a packed mask.", pl="lhs, rhs, cmp_type=0", tile="lhs, rhs, cmp_type=0")
row("sel", "Selects by a packed mask.", pl="mask, lhs, rhs, tmp", tile="mask, lhs, rhs, tmp")
row(
    "sels",
    "Selects between elements and a scalar by a packed mask.",
    pl="mask, src, tmp, scalar",
    tile="mask, src, tmp, scalar",
)

for _name, _doc in (("and_", "Bitwise and."), ("or_", "Bitwise or."), ("shl", "Shift left."), ("shr", "Shift right.")):
    _three(_name, _doc)
    _three(_name.rstrip("_") + "s", _doc[:-1] + " with a scalar.")
row("xor", "Bitwise exclusive or.", pl="lhs, rhs, tmp=None", tensor=_BINARY, tile="lhs, rhs, tmp")
row("xors", "Bitwise exclusive or with a scalar.", pl="lhs, rhs, tmp=None", tensor=_BINARY, tile="lhs, rhs, tmp")
_unary("not_", "Bitwise complement.")
for _name, _doc in (
    ("addc", "`a + b + c`."),
    ("subc", "`a - b - c`."),
    ("addsc", "`a + s + c`."),
    ("subsc", "`a - s - c`."),
):
    row(_name, _doc, pl="lhs, rhs, rhs2", tile="lhs, rhs, rhs2")
