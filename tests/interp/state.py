"""Variables and their values, and scalar expressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp.numbers import rounded, undefined
from pypto.ir.exprs import Const, ScalarOp, ScalarVar, Symbol
from pypto.ir.nodes import OpStmt, Var

SCALAR = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "min": min,
    "max": max,
    "neg": lambda a: -a,
    "bitnot": lambda a: ~a,
    "not": lambda a: not a,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


class State:
    """`env` maps variables to arrays and numbers."""

    env: dict[Any, Any]
    block: int
    blocks: int

    def get(self, value: Any) -> Any:
        if isinstance(value, Var):
            return self.env[value.resolve()]
        if isinstance(value, tuple):
            return tuple(self.get(item) for item in value)
        if isinstance(value, Const):
            return value.value
        if isinstance(value, (ScalarVar, Symbol)):
            return self.env[value]
        if isinstance(value, ScalarOp):
            return self.scalar(value)
        return value

    def scalar(self, expr: ScalarOp) -> Any:
        if expr.op == "block_idx":
            return self.block
        if expr.op == "block_num":
            return self.blocks
        args = [self.get(arg) for arg in expr.args]
        if expr.op not in ("cast", "relabel"):
            result = SCALAR[expr.op](*args)
            return float(np.float32(result)) if expr.dtype.is_float else result
        if expr.dtype.is_bool:
            return args[0] != 0
        if expr.dtype.is_integer:
            wrapped = int(args[0]) & ((1 << expr.dtype.bits) - 1)
            return (
                wrapped - (1 << expr.dtype.bits)
                if expr.dtype.is_signed and wrapped >> (expr.dtype.bits - 1)
                else wrapped
            )
        return float(rounded(np.float32(args[0]).reshape(1), expr.dtype)[0])

    def tile(self, stmt: OpStmt, value: np.ndarray) -> np.ndarray:
        """`value` (of the valid shape) as the result of a statement."""
        type = stmt.out.type
        result = undefined(type.shape, type.dtype)
        box = tuple(slice(0, self.get(extent)) for extent in type.valid)
        result[box] = rounded(value, type.dtype)
        return result

    def valid(self, var: Var) -> np.ndarray:
        """The valid part of a tile."""
        return self.get(var)[tuple(slice(0, self.get(extent)) for extent in var.type.valid)]
