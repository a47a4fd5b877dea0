"""Scalar expressions: immutable trees over constants, variables and extents, with folding and exact linear comparison.

Building an expression folds constants, so an `Op` always depends on something that is only known at run time.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pypto.language.dtypes import BOOL, FP32, INDEX, UINT64, DataType

Number: TypeAlias = int | float | bool


@dataclass(frozen=True, slots=True)
class Const:
    """A constant. The value is an `int`, `float` or `bool` as the dtype says."""

    value: Number
    dtype: DataType


class Symbol:
    """A runtime extent of a parameter; the same object wherever the extent is the same. Compared by identity."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = INDEX

    def __repr__(self) -> str:
        return f"Symbol({self.name})"


class ScalarVar:
    """A scalar variable. `value` is its only definition, or `None` where several statements assign it.

    Extents of types refer to variables, so a type must only ever mention variables that do not change under it.
    """

    __slots__ = ("dtype", "form", "mutable", "name", "value")

    def __init__(self, name: str, dtype: DataType, value: Expr | None = None, mutable: bool = False) -> None:
        self.name = name
        self.dtype = dtype
        self.value = value
        self.mutable = mutable
        self.form: _Linear | None = None
        if value is not None and dtype.is_integer:
            self.form = linear(value)  # now: a chain of definitions is then looked through one step at a time

    def __repr__(self) -> str:
        return f"ScalarVar({self.name}: {self.dtype})"


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """An operation on scalars: one of the core, `cast` (converts to `dtype`), or `relabel` (changes the label only)."""

    op: str
    args: tuple[Expr, ...]
    dtype: DataType


Expr: TypeAlias = Const | Symbol | ScalarVar | ScalarOp
Dim: TypeAlias = int | Symbol | ScalarVar | ScalarOp
"""An extent: an int where it is static."""

TRUE = Const(True, BOOL)
FALSE = Const(False, BOOL)


def index(value: int) -> Const:
    """An INDEX constant."""
    return Const(value, INDEX)


def literal(value: Number) -> Const:
    """The constant that a literal in a kernel means: BOOL, INDEX, UINT64 where INDEX has no such number, or FP32."""
    if isinstance(value, bool):
        return Const(value, BOOL)
    if isinstance(value, float):
        return Const(value, FP32)
    return Const(value, INDEX if value < 2**63 else UINT64)


_ARITHMETIC: dict[str, Callable[[Number, Number], Number]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "shl": lambda a, b: int(a) << int(b),
    "shr": lambda a, b: int(a) >> int(b),
    "min": min,
    "max": max,
}
_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
COMPARISONS = frozenset(_COMPARE)


def binary(op: str, lhs: Expr, rhs: Expr, dtype: DataType) -> Expr:
    """`lhs op rhs`, folded. Both have the same class of type (integer, float, bool) unless `op` says otherwise."""
    if isinstance(lhs, Const) and isinstance(rhs, Const):
        folded = _fold(op, lhs.value, rhs.value)
        if folded is not None:
            return Const(_fit(folded, dtype), dtype)
    if not dtype.is_float:  # `x + 0.0` is not `x` for every float
        if op in ("add", "sub") and _is(rhs, 0):
            return lhs
        if op == "add" and _is(lhs, 0):
            return rhs
        if op in ("mul", "floordiv") and _is(rhs, 1):
            return lhs
        if op == "mul" and _is(lhs, 1):
            return rhs
        if op == "mul" and (_is(lhs, 0) or _is(rhs, 0)):
            return Const(0, dtype)
    return ScalarOp(op, (lhs, rhs), dtype)


def _is(expr: Expr, value: int) -> bool:
    return isinstance(expr, Const) and expr.value == value and not isinstance(expr.value, bool)


def _fold(op: str, a: Number, b: Number) -> Number | None:
    if op in _COMPARE:
        return _COMPARE[op](a, b)
    if op == "and":
        return bool(a) and bool(b)
    if op == "or":
        return bool(a) or bool(b)
    if op == "div":
        return a / b if b else None
    if op in ("floordiv", "mod") and b == 0:
        return None  # the run-time result is defined; the mistake is reported where the source has the literal
    if op in ("shl", "shr") and not 0 <= b < 64:
        return None
    try:
        return _ARITHMETIC[op](a, b)
    except (OverflowError, ValueError):
        return None


def _fit(value: Number, dtype: DataType) -> Number:
    if dtype.is_bool:
        return bool(value)
    return float(value) if dtype.is_float else wrap(int(value), 64, dtype is not UINT64)


def wrap(value: int, bits: int, signed: bool) -> int:
    """`value` narrowed to `bits` as C narrows it."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def unary(op: str, arg: Expr, dtype: DataType) -> Expr:
    """`neg`, `bitnot` or `not` of a scalar, folded."""
    if isinstance(arg, Const):
        if op == "not":
            return Const(not arg.value, BOOL)
        if op == "neg":
            return Const(_fit(-arg.value, dtype), dtype)
        if op == "bitnot":
            return Const(_fit(~int(arg.value), dtype), dtype)
    return ScalarOp(op, (arg,), dtype)


def cast(arg: Expr, dtype: DataType) -> Expr:
    """`arg` as another type, as C converts it, folded. Rounding to a 16-bit float is left to the device."""
    if arg.dtype is dtype:
        return arg
    if isinstance(arg, Const):
        if dtype.is_bool:
            return Const(bool(arg.value), dtype)
        if dtype.is_integer and (not isinstance(arg.value, float) or math.isfinite(arg.value)):
            value = _saturated(arg.value, dtype) if isinstance(arg.value, float) else int(arg.value)
            return Const(wrap(value, dtype.bits, dtype.is_signed), dtype)
        if dtype is FP32:
            return Const(_binary32(float(arg.value)), dtype)
    if dtype.is_integer and dtype.bits == 64 and arg.dtype.is_integer:
        # Integers live in 64 bits: only the label changes, so extents stay comparable through the cast.
        return ScalarOp("relabel", (arg,), dtype)
    return ScalarOp("cast", (arg,), dtype)


def _saturated(value: float, dtype: DataType) -> int:
    """`value` as the device makes an integer of it, before that is narrowed: 64 bits, toward zero."""
    low, high = (0, 2**64 - 1) if dtype is UINT64 else (-(2**63), 2**63 - 1)
    return min(max(int(value), low), high)


def _binary32(value: float) -> float:
    """The nearest number that a scalar of the device can be."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def of_dim(dim: Dim) -> Expr:
    """An extent as an expression."""
    return index(dim) if isinstance(dim, int) else dim


def to_dim(expr: Expr) -> Dim:
    """An expression as an extent: an int where it is constant, looking through exact linear arithmetic."""
    if isinstance(expr, Const):
        return int(expr.value)
    terms, constant = linear(expr)
    return constant if not terms else expr


_Linear: TypeAlias = tuple[dict[Expr, int], int]


def linear(expr: Expr) -> _Linear:
    """`expr` as a sum of integer multiples of atoms, and a constant. Definitions of variables are looked through."""
    if isinstance(expr, Const):
        return {}, int(expr.value)
    if isinstance(expr, ScalarVar):
        return ({expr: 1}, 0) if expr.form is None else expr.form
    if isinstance(expr, ScalarOp):
        if expr.op == "relabel":
            return linear(expr.args[0])
        if expr.op in ("add", "sub"):
            left, right = linear(expr.args[0]), linear(expr.args[1])
            return _combine(left, right, 1 if expr.op == "add" else -1)
        if expr.op == "mul":
            left, right = linear(expr.args[0]), linear(expr.args[1])
            if not left[0]:
                left, right = right, left
            if not right[0]:
                scale = right[1]
                return ({atom: factor * scale for atom, factor in left[0].items()} if scale else {}), left[1] * scale
    return {expr: 1}, 0


def spelt_out(var: ScalarVar) -> Expr:
    """The value of an extent that has a definition, of what definitions are made of."""
    terms, constant = linear(var)
    result: Expr = index(constant)
    for atom, factor in terms.items():
        result = binary("add", result, binary("mul", cast(atom, INDEX), index(factor), INDEX), INDEX)
    return result


def _combine(left: _Linear, right: _Linear, sign: int) -> _Linear:
    terms = dict(left[0])
    for atom, factor in right[0].items():
        total = terms.get(atom, 0) + sign * factor
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return terms, left[1] + sign * right[1]


def same(a: Dim, b: Dim) -> bool:
    """Whether two extents are provably equal."""
    if a is b or a == b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    return linear(of_dim(a)) == linear(of_dim(b))


def difference(a: Expr, b: Expr) -> Dim:
    """`a - b`, an int where that is exact."""
    terms, constant = _combine(linear(a), linear(b), -1)
    return constant if not terms else binary("sub", a, b, INDEX)  # type: ignore[return-value]  # not constant


def product(dims: tuple[Dim, ...]) -> Dim:
    """The product of extents; 1 of none."""
    result: Expr = index(1)
    for dim in dims:
        result = binary("mul", result, of_dim(dim), INDEX)
    return to_dim(result)


def depends_on_mutable(expr: Expr) -> bool:
    """Whether evaluating `expr` later could give another value."""
    if isinstance(expr, ScalarVar):
        return expr.mutable
    return isinstance(expr, ScalarOp) and any(depends_on_mutable(arg) for arg in expr.args)


def text(expr: Dim | Const) -> str:
    """The expression as an author would write it."""
    from pypto.ir.print_types import scalar_text

    return scalar_text(of_dim(expr) if isinstance(expr, int) else expr)
