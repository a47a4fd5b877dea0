"""Scalar expressions as core statements over numbered slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.ir.diagnostics import Loc
from pypto.ir.exprs import Const, Dim, Expr, ScalarOp, ScalarVar, Symbol, wrap
from pypto.language.dtypes import BF16, FP16, UINT64, DataType

Emit = Callable[[Any, Loc], None]
"""Appends a statement kind at a place."""


_WITHOUT_SIGN = frozenset(("floordiv", "mod", "shr", "min", "max", "lt", "le", "gt", "ge"))
"""Operations that need to know whether the first bit is a sign. All integers but UINT64 live in 64 bits with a sign."""


def scalar_class(dtype: DataType) -> str:
    """What a scalar slot of this dtype holds."""
    if dtype.is_bool:
        return "Bool"
    return "Float" if dtype.is_float else "Int"


class ScalarLowering:
    """Slots of scalars, and the statements that compute them."""

    def __init__(self, emit: Emit) -> None:
        self.types: list[str] = []
        self.slots: dict[ScalarVar | Symbol, int] = {}
        self.symbols: dict[Symbol, int] = {}
        self._emit = emit

    def new(self, dtype: DataType) -> int:
        """A fresh slot."""
        self.types.append(scalar_class(dtype))
        return len(self.types) - 1

    def slot(self, var: ScalarVar | Symbol) -> int:
        """The slot of a variable or an extent."""
        found = self.slots.get(var)
        if found is None:
            found = self.slots[var] = self.new(var.dtype)
            if isinstance(var, Symbol):
                self.symbols[var] = found
        return found

    def dim(self, dim: Dim, loc: Loc) -> dict[str, Any]:
        """An extent as an operand."""
        return {"Int": dim} if isinstance(dim, int) else self.operand(dim, loc)

    def operand(self, expr: Expr, loc: Loc) -> dict[str, Any]:
        """A scalar as an operand; computes it into a temporary slot where it is an operation."""
        if isinstance(expr, Const):
            if isinstance(expr.value, bool) or expr.dtype.is_bool:
                return {"Bool": bool(expr.value)}
            return {"Float": float(expr.value)} if expr.dtype.is_float else {"Int": wrap(int(expr.value), 64, True)}
        if isinstance(expr, (ScalarVar, Symbol)):
            return {"Var": self.slot(expr)}
        if expr.op == "relabel":
            return self.operand(expr.args[0], loc)
        slot = self.new(expr.dtype)
        self.assign(slot, expr, loc)
        return {"Var": slot}

    def assign(self, slot: int, expr: Expr, loc: Loc) -> None:
        """`slot = expr`."""
        if not isinstance(expr, ScalarOp) or expr.op == "relabel":
            self._emit({"Scalar": {"dst": slot, "op": "copy", "args": [self.operand(expr, loc)]}}, loc)
        elif expr.op == "cast":
            self._cast(slot, expr.args[0], expr.dtype, loc)
        else:
            args = [self.operand(arg, loc) for arg in expr.args]
            op = f"{expr.op}_u64" if _is_without_sign(expr) else expr.op
            self._emit({"Scalar": {"dst": slot, "op": op, "args": args}}, loc)

    def _cast(self, slot: int, arg: Expr, dtype: DataType, loc: Loc) -> None:
        steps = list(_conversions(arg.dtype, dtype)) or ["copy"]
        value = self.operand(arg, loc)
        for position, (op, result) in enumerate(zip(steps, _results(steps), strict=True)):
            last = position == len(steps) - 1
            target = slot if last else len(self.types)
            if not last:
                self.types.append(result)
            self._emit({"Scalar": {"dst": target, "op": op, "args": [value]}}, loc)
            value = {"Var": target}


def _is_without_sign(expr: ScalarOp) -> bool:
    operands = expr.args[:1] if expr.op == "shr" else expr.args
    return expr.op in _WITHOUT_SIGN and all(operand.dtype is UINT64 for operand in operands)


def _conversions(source: DataType, target: DataType) -> list[str]:
    steps: list[str] = []
    if target.is_bool:
        return [] if source.is_bool else ["to_bool"]
    if target.is_float:
        if not source.is_float:
            steps.append("u64_to_float" if source is UINT64 else "to_float")
        if target is FP16:
            steps.append("round_f16")
        elif target is BF16:
            steps.append("round_bf16")
        return steps
    if not source.is_integer:
        steps.append("to_u64" if target is UINT64 and source.is_float else "to_int")
    if target.bits < 64:
        steps.append(f"wrap_{'i' if target.is_signed else 'u'}{target.bits}")
    return steps


def _results(steps: list[str]) -> list[str]:
    floats = ("to_float", "u64_to_float", "round_f16", "round_bf16")
    return ["Bool" if step == "to_bool" else "Float" if step in floats else "Int" for step in steps]
