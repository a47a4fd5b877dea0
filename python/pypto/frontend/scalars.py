"""Arithmetic on scalars: typing and promotion."""

from __future__ import annotations

import ast
from typing import Final

from pypto.frontend.builder import Builder
from pypto.frontend.values import Value, Window, describe, is_scalar
from pypto.ir.exprs import COMPARISONS, Const, Expr, binary, cast, unary
from pypto.ir.nodes import Var
from pypto.language.dtypes import BOOL, FP32, INDEX, UINT64, DataType

BINARY: Final = {
    ast.Add: ("add", "+"),
    ast.Sub: ("sub", "-"),
    ast.Mult: ("mul", "*"),
    ast.Div: ("div", "/"),
    ast.FloorDiv: ("floordiv", "//"),
    ast.Mod: ("mod", "%"),
    ast.LShift: ("shl", "<<"),
    ast.RShift: ("shr", ">>"),
}
COMPARE: Final = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_ELEMENTWISE: Final = {"add": "pl.add", "sub": "pl.sub", "mul": "pl.mul", "div": "pl.div", "mod": "pl.fmod"}


def scalar(builder: Builder, value: Value, node: ast.AST, what: str) -> Expr:
    """`value` as a scalar, or an error that says what stands there instead."""
    if is_scalar(value):
        return value
    builder.fail(
        "type",
        f"{what} must be a scalar, got {describe(value)}",
        node,
        "read one element of a tensor with pl.read(x, [i, j])"
        if isinstance(value, (Var, Window))
        else "write a number, or a name that means one",
    )


def integer(builder: Builder, value: Value, node: ast.AST, what: str) -> Expr:
    """`value` as an integer scalar."""
    expr = scalar(builder, value, node, what)
    if not expr.dtype.is_integer:
        builder.fail(
            "type",
            f"{what} must be an integer, got {expr.dtype.with_article} scalar",
            node,
            "convert it: pl.cast(x, pl.INDEX)",
        )
    return expr


def truth(builder: Builder, value: Value, node: ast.AST, what: str) -> Expr:
    """`value` as a truth value. Numbers are not truth values, so that `if n:` cannot be a slip for `if n == 0:`."""
    expr = scalar(builder, value, node, what)
    if not expr.dtype.is_bool:
        builder.fail(
            "type",
            f"{what} must be a truth value, got {expr.dtype.with_article} scalar",
            node,
            f"compare it: {ast.unparse(node)} != 0",
        )
    return expr


def promote(a: DataType, b: DataType) -> DataType:
    """The dtype of arithmetic on two scalars: float beats integer, wider beats narrower, INDEX beats INT64."""
    if a is b:
        return a
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_float or b.is_float:
        if a.is_float and b.is_float:
            return a if a.bits >= b.bits else b
        return FP32
    if INDEX in (a, b) and a.bits <= 64 and b.bits <= 64:
        return INDEX
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.is_signed else b


def _common(a: Expr, b: Expr) -> DataType:
    """What two scalars are computed in: as `promote` says, but a constant does not take UINT64 its last bit."""
    for one, other in ((a, b), (b, a)):
        if one.dtype is UINT64 and isinstance(other, Const) and other.dtype.is_integer and other.value >= 0:
            return UINT64
    return promote(a.dtype, b.dtype)


def arithmetic(builder: Builder, op: str, symbol: str, lhs: Value, rhs: Value, node: ast.AST) -> Expr:
    """`lhs op rhs` of two scalars."""
    if not is_scalar(lhs) or not is_scalar(rhs):
        wrong = lhs if not is_scalar(lhs) else rhs
        hint = f"write {_ELEMENTWISE.get(op, 'an operation of pl')}(a, b)"
        builder.fail("type", f"{symbol!r} works on scalars, got {describe(wrong)}", node, hint)
    a: Expr = lhs
    b: Expr = rhs
    if a.dtype.is_bool and b.dtype.is_bool:
        builder.fail("type", f"{symbol!r} works on numbers, got two truth values", node, "use `and`, `or`, `not`")
    dtype = _common(a, b)
    if op in ("shl", "shr") and not (a.dtype.is_integer and b.dtype.is_integer):
        builder.fail(
            "type",
            f"{symbol!r} works on integers, got {a.dtype} and {b.dtype}",
            node,
            "convert them: pl.cast(x, pl.INDEX)",
        )
    if op == "div":
        dtype = dtype if dtype.is_float else FP32
    if (
        op in ("floordiv", "mod", "div")
        and isinstance(b, Const)
        and b.value == 0
        and not (op == "div" and b.dtype.is_float)
    ):
        builder.fail(
            "value",
            f"division by zero: the right side of {symbol!r} is the constant 0",
            node,
            "divide by something that cannot be 0",
        )
    return binary(op, _as(a, dtype), _as(b, dtype), dtype)


def _as(expr: Expr, dtype: DataType) -> Expr:
    """`expr` in the class of `dtype`: integers of any width live in 64 bits, so only a change of class converts.

    UINT64 is a class of its own: operations on it treat the first bit as a digit.
    """
    if expr.dtype.is_integer and dtype.is_integer and dtype is not UINT64:
        return Const(expr.value, dtype) if isinstance(expr, Const) else expr
    return cast(expr, dtype)


def compare(builder: Builder, op: str, lhs: Value, rhs: Value, node: ast.AST) -> Expr:
    """A comparison of two scalars."""
    a = scalar(builder, lhs, node, "an operand of a comparison")
    b = scalar(builder, rhs, node, "an operand of a comparison")
    if a.dtype.is_bool != b.dtype.is_bool:
        builder.fail(
            "type",
            f"cannot compare {a.dtype.with_article} scalar with {b.dtype.with_article} scalar",
            node,
            "compare numbers with numbers, and truth values with truth values",
        )
    if a.dtype.is_bool and op not in ("eq", "ne"):
        builder.fail(
            "type",
            "truth values compare with == and != only",
            node,
            "write `a == b`, or combine them with `and`, `or`, `not`",
        )
    dtype = _common(a, b)
    return binary(op, _as(a, dtype), _as(b, dtype), BOOL)


def logical(builder: Builder, op: str, values: list[Value], nodes: list[ast.expr]) -> Expr:
    """`and`/`or` of truth values; every side is evaluated."""
    result = truth(builder, values[0], nodes[0], f"an operand of `{op}`")
    for value, node in zip(values[1:], nodes[1:], strict=True):
        result = binary(op, result, truth(builder, value, node, f"an operand of `{op}`"), BOOL)
    return result


def negate(builder: Builder, op: str, value: Value, node: ast.AST) -> Expr:
    """`-x`, `~x`, `not x`."""
    if op == "not":
        return unary("not", truth(builder, value, node, "the operand of `not`"), BOOL)
    if not is_scalar(value):
        hint = "write pl.neg(x)" if op == "neg" else "write pl.not_(x)"
        builder.fail("type", f"{'-' if op == 'neg' else '~'!r} works on scalars, got {describe(value)}", node, hint)
    expr = scalar(builder, value, node, "the operand")
    if expr.dtype.is_bool or (op == "bitnot" and not expr.dtype.is_integer):
        builder.fail(
            "type",
            f"{op} does not apply to {expr.dtype.with_article} scalar",
            node,
            "write `not x` for a truth value" if expr.dtype.is_bool else "convert it: pl.cast(x, pl.INDEX)",
        )
    return unary(op, expr, expr.dtype)


def extremum(builder: Builder, op: str, lhs: Value, rhs: Value, node: ast.AST) -> Expr:
    """`pl.min`/`pl.max` of two scalars."""
    for value in (lhs, rhs):
        if not is_scalar(value):
            builder.fail(
                "type",
                f"pl.{op} works on scalars, got {describe(value)}",
                node,
                f"element by element: pl.{op}imum(a, b); along a row: pl.row_{op}(x)",
            )
    a = scalar(builder, lhs, node, "an operand")
    b = scalar(builder, rhs, node, "an operand")
    dtype = _common(a, b)
    return binary(op, _as(a, dtype), _as(b, dtype), dtype)


__all__ = [
    "BINARY",
    "COMPARE",
    "COMPARISONS",
    "arithmetic",
    "compare",
    "extremum",
    "integer",
    "logical",
    "negate",
    "promote",
    "scalar",
    "truth",
]
