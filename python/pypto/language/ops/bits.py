"""Rows: comparisons, selection and bits, element by element."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_BINARY = "lhs, rhs"
_COMPARE = "cmp_eq cmp_ne cmp_lt cmp_le cmp_gt cmp_ge"
_TYPES = "`cmp_type`: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal."

row(
    "cmp",
    f"Comparison. Of tensors: 0 or 1 in the (promoted) dtype of the input. Of tiles: a mask for `sel`. {_TYPES}",
    rule="compare",
    core=_COMPARE,
    pl="lhs, rhs, cmp_type=0",
    tensor="lhs, rhs, cmp_type=0",
    tile="lhs, rhs, cmp_type=0",
)
row(
    "cmps",
    f"Comparison of a tile with a scalar: a mask for `sel`. {_TYPES}",
    rule="compare",
    core=_COMPARE,
    pl="lhs, rhs, cmp_type=0",
    tile="lhs, rhs, cmp_type=0",
)
_MASK = "The mask comes from `cmp` or `cmps`, or holds one bit per element, the lowest bit of a byte first."
row(
    "sel",
    f"`lhs` where the mask is set, else `rhs`. {_MASK}",
    rule="select",
    core="select",
    pl="mask, lhs, rhs, tmp",
    tile="mask, lhs, rhs, tmp",
)
row(
    "sels",
    f"`src` where the mask is set, else the scalar. {_MASK}",
    rule="select",
    core="select",
    pl="mask, src, tmp, scalar",
    tile="mask, src, tmp, scalar",
)

for _name, _doc, _core in (
    ("and_", "Bitwise and of integers", "bit_and"),
    ("or_", "Bitwise or of integers", "bit_or"),
    ("shl", "Shift left of integers", "shl"),
    ("shr", "Shift right of integers (arithmetic for signed ones)", "shr"),
):
    row(_name, f"{_doc}.", rule="bitwise", core=_core, pl=_BINARY, tensor=_BINARY, tile=_BINARY)
    row(
        _name.rstrip("_") + "s",
        f"{_doc}, with a scalar.",
        rule="bitwise_scalar",
        core=_core,
        pl=_BINARY,
        tensor=_BINARY,
        tile=_BINARY,
    )
row(
    "xor",
    "Bitwise exclusive or of integers.",
    rule="bitwise",
    core="bit_xor",
    pl="lhs, rhs, tmp=None",
    tensor=_BINARY,
    tile="lhs, rhs, tmp",
)
row(
    "xors",
    "Bitwise exclusive or of integers, with a scalar.",
    rule="bitwise_scalar",
    core="bit_xor",
    pl="lhs, rhs, tmp=None",
    tensor=_BINARY,
    tile="lhs, rhs, tmp",
)
row("not_", "Bitwise complement of integers.", rule="bit_not", core="bit_not", pl="input", tensor="input", tile="tile")
