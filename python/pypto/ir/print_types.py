"""Scalars and types as DSL text."""

from __future__ import annotations

from typing import Any

from pypto.ir.exprs import Const, Expr, ScalarOp, ScalarVar, Symbol, of_dim
from pypto.ir.types import TensorType, ValueType
from pypto.language.dtypes import BOOL, FP32, INDEX
from pypto.language.enums import MemorySpace

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "shl": "<<",
    "shr": ">>",
    "and": "and",
    "or": "or",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
PREFIX = {"neg": "-", "bitnot": "~", "not": "not "}


def scalar_text(expr: Expr, names: dict[Any, str] | None = None) -> str:
    """A scalar expression."""
    if isinstance(expr, Const):
        return _const_text(expr)
    if isinstance(expr, (ScalarVar, Symbol)):
        return expr.name if names is None else names.get(expr, expr.name)
    args = [scalar_text(arg, names) for arg in expr.args]
    if expr.op in _INFIX:
        return f"({args[0]} {_INFIX[expr.op]} {args[1]})"
    if expr.op in PREFIX:
        return f"({PREFIX[expr.op]}{args[0]})"
    if expr.op in ("min", "max"):
        return f"pl.{expr.op}({args[0]}, {args[1]})"
    if expr.op in ("cast", "relabel"):
        return f"pl.cast({args[0]}, pl.{expr.dtype})"
    return f"pl.get_{expr.op}()"


def _const_text(expr: Const) -> str:
    value = expr.value
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        text = f'float("{value}")'
    else:
        text = repr(value)
    if expr.dtype in (BOOL, INDEX, FP32):
        return text
    return f"pl.const({text}, pl.{expr.dtype})"


def scalar_names(expr: Expr) -> list[Any]:
    """The variables in a scalar expression."""
    if isinstance(expr, (ScalarVar, Symbol)):
        return [expr]
    return [name for arg in expr.args for name in scalar_names(arg)] if isinstance(expr, ScalarOp) else []


def type_text(type: ValueType, names: dict[Any, str] | None = None) -> str:
    """Level, shape and dtype of a type, as in an annotation."""
    kind = "Tensor" if isinstance(type, TensorType) else "Tile"
    return f"pl.{kind}[{_extents(type.shape, names)}, pl.{type.dtype}]"


def full_type_text(type: ValueType, names: dict[Any, str]) -> str:
    """All of a type: also what is valid of it, its memory, and whether tensor operations gave it."""
    parts = [_extents(type.shape, names), f"pl.{type.dtype}"]
    view = f"valid_shape={_extents(type.valid, names)}"
    if isinstance(type, TensorType):
        return f"pl.Tensor[{', '.join([*parts, *([] if type.partial is None else [f'pl.TensorView({view})'])])}]"
    if not type.is_full:
        parts.append(f"pl.TileView({view})")
    if type.space is not MemorySpace.Vec:
        parts.append(f"pl.MemorySpace.{type.space.value}")
    return f"pl.{'Tensor' if type.tensor_level else 'Tile'}[{', '.join(parts)}]"


def _extents(items: tuple[Any, ...], names: dict[Any, str] | None) -> str:
    return "[" + ", ".join(scalar_text(of_dim(item), names) for item in items) + "]"


__all__ = ["PREFIX", "full_type_text", "scalar_names", "scalar_text", "type_text"]
