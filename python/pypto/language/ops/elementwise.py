"""Rows: arithmetic and conversions, element by element."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_BINARY = "lhs, rhs"
_BROADCAST = (
    "`[M, N] op [M, 1]` broadcasts the narrow operand along the row; a number or scalar on the right is applied to "
    "every element."
)
_SCALAR = "The scalar is converted to the dtype of the value; a float beside integers makes the result FP32."


def _three(name: str, doc: str, signature: str = _BINARY, rule: str = "binary", core: str = "") -> None:
    row(name, doc, rule=rule, core=core, pl=signature, tensor=signature, tile=signature)


def _unary(name: str, doc: str, rule: str, extra: str = "") -> None:
    signature = "input" + extra
    row(name, doc, rule=rule, core=name, pl=signature, tensor=signature, tile="tile" + extra)


_three("add", f"Sum of two values; integers wrap. {_BROADCAST}", core="add")
_three("sub", f"Difference `lhs - rhs`; integers wrap. {_BROADCAST}", core="sub")
_three("mul", f"Product; integers wrap. {_BROADCAST}", core="mul")
_three(
    "div",
    f"Quotient `lhs / rhs`; integers truncate and a zero divisor yields 0. {_BROADCAST}",
    "lhs, rhs, high_precision=False",
    core="div",
)
_three("maximum", "The larger of two values, element by element; NaN if either is NaN.", core="maximum")
_three("minimum", "The smaller of two values, element by element; NaN if either is NaN.", core="minimum")
for _name, _doc, _core in (
    ("adds", "Sum of a value and a scalar.", "add"),
    ("subs", "Difference of a value and a scalar.", "sub"),
    ("muls", "Product of a value and a scalar.", "mul"),
    ("divs", "Quotient of a value and a scalar.", "div"),
):
    row(_name, f"{_doc} {_SCALAR}", rule="binary_scalar", core=_core, tensor=_BINARY, tile=_BINARY)
for _name, _doc, _core in (
    ("maximums", "The larger of each element and a scalar.", "maximum"),
    ("minimums", "The smaller of each element and a scalar.", "minimum"),
):
    row(_name, f"{_doc} {_SCALAR}", rule="binary_scalar", core=_core, pl=_BINARY, tile=_BINARY)
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

_unary("neg", "Negation; integers wrap.", "unary")
_unary("abs", "Absolute value; the smallest integer stays what it is.", "unary")
_ACCURACY = "FP32 is within 2 units in the last place, FP16 and BF16 are the exact result rounded once."
_unary("exp", f"Exponential of floats. {_ACCURACY}", "unary_float")
_unary(
    "log", f"Natural logarithm of floats: NaN of a negative one. {_ACCURACY}", "unary_float", ", high_precision=False"
)
_unary("sqrt", "Square root of floats, correctly rounded.", "unary_float")
row(
    "rsqrt",
    f"`1 / sqrt(x)` of floats, always in full precision as the simulator has it; `high_precision` changes nothing. "
    f"{_ACCURACY}",
    rule="unary_float",
    core="rsqrt",
    pl="input, high_precision=False",
    tensor="input, high_precision=False",
    tile="tile, tmp=None",
)
_unary("recip", "`1 / x` of floats, correctly rounded.", "unary_float", ", high_precision=False")
_unary("sin", f"Sine of floats, for arguments of any size. {_ACCURACY}", "unary_float")
_unary("cos", f"Cosine of floats, for arguments of any size. {_ACCURACY}", "unary_float")
row("relu", "`max(x, 0)`.", rule="unary", core="relu", pl="tile", tile="tile")
row(
    "lrelu",
    "`x` where positive, else `x * slope`.",
    rule="leaky",
    core="cmp_gt mul select",
    pl="tile, slope",
    tile="tile, slope",
)
row(
    "prelu",
    "`x` where positive, else `x * slope` with a slope per element.",
    rule="leaky",
    core="cmp_gt mul select",
    pl="tile, slope, tmp",
    tile="tile, slope, tmp",
)

row(
    "cast",
    "Converts the elements, along the shortest chain of conversions that the chip has: FP32 to INT8 passes through "
    "FP16, so it rounds twice and overflows above 65504. The mode acts on float to integer only, on each hop; "
    "conversions to floats round to nearest even. The default mode rounds half away from zero, `none` truncates. Where "
    "PyPTO leaves it undefined, floats out of range give the nearest integer there is, and NaN 0. Of a scalar: a C "
    "conversion.",
    rule="cast",
    core="cast",
    pl="input, target_type, mode='round'",
    tensor="input, target_type, mode='round'",
    tile="tile, target_type, mode='round'",
)

for _name, _doc in (
    ("part_add", "Sum"),
    ("part_mul", "Product"),
    ("part_max", "The larger"),
    ("part_min", "The smaller"),
):
    row(
        _name,
        f"{_doc} where both values are valid, a copy where one is; 0 where neither is. All of the box is valid after.",
        rule="partial",
        core=_name,
        pl=_BINARY,
        tensor=_BINARY,
        tile="src0, src1",
    )
_three("fmod", "Remainder with the sign of the dividend (C's `fmod`); integers: 0 for a zero divisor.", core="fmod")
_three("fmods", "Remainder by a scalar with the sign of the dividend.", rule="binary_scalar", core="fmod")
row(
    "rem",
    "Remainder with the sign of the divisor (Python's `%`); integers: 0 for a zero divisor.",
    rule="binary",
    core="rem",
    pl="lhs, rhs, tmp",
    tile="lhs, rhs, tmp",
)
row(
    "rems",
    "Remainder by a scalar with the sign of the divisor.",
    rule="binary_scalar",
    core="rem",
    pl="lhs, rhs, tmp",
    tile="lhs, rhs, tmp",
)
_SIGN = (
    " The simulator adds the third operand where PyPTO's documentation subtracts it: numbers here follow the simulator."
)
for _name, _doc, _core in (
    ("addc", "`lhs + rhs + rhs2`, rounded after each step.", "add"),
    ("subc", "`lhs - rhs + rhs2`, rounded after each step." + _SIGN, "sub add"),
    ("addsc", "`lhs + s + rhs2` with a scalar in the middle, rounded after each step.", "add"),
    ("subsc", "`lhs - s + rhs2` with a scalar in the middle, rounded after each step." + _SIGN, "sub add"),
):
    row(_name, _doc, rule="carry", core=_core, pl="lhs, rhs, rhs2", tile="lhs, rhs, rhs2")
