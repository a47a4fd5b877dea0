"""Operations element by element, reductions and broadcasts."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp.numbers import rounded, saturated, to_int, wide
from interp.state import State
from pypto.ir.nodes import OpStmt, Var


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype == np.float64:
        return a / b
    quotient = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return np.where(b == 0, 0, quotient * np.sign(a) * np.sign(b))


def _fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, b) if a.dtype == np.float64 else np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


def _rem(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.mod(a, b) if a.dtype == np.float64 else np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "max": np.maximum,
    "min": np.minimum,
    "fmod": _fmod,
    "rem": _rem,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
}
UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "relu": lambda x: np.maximum(x, 0),
    "not_": np.invert,
}
SCALAR_FORMS = {
    "adds": "add",
    "subs": "sub",
    "muls": "mul",
    "divs": "div",
    "maximums": "maximum",
    "minimums": "minimum",
    "fmods": "fmod",
    "rems": "rem",
    "ands": "and_",
    "ors": "or_",
    "xors": "xor",
}
COMPARE = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
REDUCE = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}
EMPTY = {"sum": 0, "prod": 1, "argmax": 0, "argmin": 0}


class Elementwise(State):
    """`getattr(self, "op_" + name)` runs one operation; those of the dictionaries have no method of their own."""

    def cut(self, stmt: OpStmt, value: np.ndarray) -> np.ndarray:
        """The part of an operand that the result needs; an axis of one element broadcasts."""
        wanted = [self.get(extent) for extent in stmt.out.type.valid]
        value = value.reshape((1,) * (len(wanted) - value.ndim) + value.shape)
        return value[tuple(slice(0, 1 if have == 1 else want) for have, want in zip(value.shape, wanted, strict=True))]

    def operands(self, stmt: OpStmt) -> list[Any]:
        """Tiles cut to the result, scalars as they are."""
        return [self.cut(stmt, self.get(arg)) if isinstance(arg, Var) else self.get(arg) for arg in stmt.args]

    def op_elementwise(self, stmt: OpStmt) -> np.ndarray:
        name = stmt.op.removeprefix("row_expand_").removeprefix("col_expand_")
        name = SCALAR_FORMS.get(name, name)
        dtype = stmt.out.type.dtype
        args = [wide(arg, dtype) for arg in self.operands(stmt)]
        return self.tile(stmt, (UNARY[name] if len(args) == 1 else BINARY[name])(*args))

    def op_shl(self, stmt: OpStmt) -> np.ndarray:
        value, count = (wide(arg, stmt.out.type.dtype) for arg in self.operands(stmt))
        inside = (count >= 0) & (count < stmt.out.type.dtype.bits)
        return self.tile(stmt, np.where(inside, value << np.where(inside, count, 0), 0))

    def op_shr(self, stmt: OpStmt) -> np.ndarray:
        value, count = (wide(arg, stmt.out.type.dtype) for arg in self.operands(stmt))
        inside = (count >= 0) & (count < stmt.out.type.dtype.bits)
        return self.tile(stmt, np.where(inside, value >> np.where(inside, count, 0), np.where(value < 0, -1, 0)))

    op_shls, op_shrs = op_shl, op_shr

    def op_cmp(self, stmt: OpStmt) -> np.ndarray:
        args = [wide(arg, stmt.args[0].type.dtype) for arg in self.operands(stmt)]
        return self.tile(stmt, COMPARE[stmt.attrs["cmp_type"]](*args))

    op_cmps = op_cmp

    def op_sel(self, stmt: OpStmt) -> np.ndarray:
        mask, a, b = self.operands(stmt)
        return self.tile(stmt, np.where(mask, a, b))

    op_sels = op_sel

    def op_cast(self, stmt: OpStmt) -> np.ndarray:
        value, dtype = self.cut(stmt, self.get(stmt.args[0])), stmt.out.type.dtype
        if dtype.is_integer and stmt.args[0].type.dtype.is_float:
            return self.tile(stmt, saturated(to_int(value, stmt.attrs["mode"]), dtype))
        return self.tile(stmt, value)

    def op_partial(self, stmt: OpStmt) -> np.ndarray:
        a, b = (wide(self.get(arg), stmt.out.type.dtype) for arg in stmt.args)
        here = [np.zeros(a.shape, bool) for _ in range(2)]
        for mask, arg in zip(here, stmt.args, strict=True):
            mask[tuple(slice(0, self.get(extent)) for extent in arg.type.valid)] = True
        both = BINARY[stmt.op.removeprefix("part_")](np.where(here[0], a, 0), np.where(here[1], b, 0))
        combined = np.where(here[0] & here[1], both, np.where(here[0], a, np.where(here[1], b, 0)))
        return self.tile(stmt, self.cut(stmt, combined))

    op_part_add = op_part_mul = op_part_max = op_part_min = op_partial

    def reduce(self, stmt: OpStmt, axis: int) -> np.ndarray:
        value, name = self.valid(stmt.args[0]), stmt.op[4:]
        dtype = stmt.args[0].type.dtype
        if value.shape[axis] == 0:
            limit = -np.inf if name == "max" else np.inf
            if not dtype.is_float and name in ("max", "min"):
                info = np.iinfo(value.dtype)
                limit = info.min if name == "max" else info.max
            shape = [1 if at == axis % value.ndim else extent for at, extent in enumerate(value.shape)]
            return self.tile(stmt, np.full(shape, EMPTY.get(name, limit)))
        found = REDUCE[name](wide(value, dtype), axis=axis)
        return self.tile(stmt, np.expand_dims(found, axis))

    def op_row(self, stmt: OpStmt) -> np.ndarray:
        return self.reduce(stmt, -1)

    def op_col(self, stmt: OpStmt) -> np.ndarray:
        return self.reduce(stmt, -2)

    op_row_sum = op_row_prod = op_row_max = op_row_min = op_row_argmax = op_row_argmin = op_row
    op_col_sum = op_col_prod = op_col_max = op_col_min = op_col_argmax = op_col_argmin = op_col

    def spread(self, stmt: OpStmt, source: Var) -> np.ndarray:
        wanted = tuple(self.get(extent) for extent in stmt.out.type.valid)
        value = self.cut(stmt, self.get(source).reshape(_physical(source, len(wanted))))
        return self.tile(stmt, np.broadcast_to(value, wanted))

    def op_row_expand(self, stmt: OpStmt) -> np.ndarray:
        return self.spread(stmt, stmt.args[1])

    op_col_expand = op_row_expand

    def op_expand_clone(self, stmt: OpStmt) -> np.ndarray:
        return self.spread(stmt, stmt.args[0])

    def op_expands(self, stmt: OpStmt) -> np.ndarray:
        wanted = tuple(self.get(extent) for extent in stmt.out.type.valid)
        return self.tile(stmt, np.full(wanted, rounded(np.asarray(self.get(stmt.args[1])), stmt.out.type.dtype)))


def _physical(var: Var, rank: int) -> tuple[int, ...]:
    shape = var.type.shape
    return (1,) * (rank - len(shape)) + tuple(shape) if len(shape) <= rank else var.type.physical
