"""A plain interpreter of the IR on numpy arrays: the semantics that the device is compared with.

It favours being obviously right over everything else. Elements that have no defined value (outside the valid region,
never written) are NaN, or a large odd integer, so that a program which uses them shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.ir.exprs import Const, ScalarOp, ScalarVar, Symbol
from pypto.ir.nodes import (
    BreakStmt,
    CallStmt,
    ContinueStmt,
    ForStmt,
    Function,
    IfStmt,
    Let,
    OpStmt,
    Program,
    ScopeStmt,
    Var,
    WhileStmt,
)

NUMPY = {
    "FP32": np.float32,
    "FP16": np.float16,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "BOOL": np.bool_,
}

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "max": np.maximum,
    "min": np.minimum,
}
UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "recip": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
}
REDUCE = {"row_sum": np.sum, "row_max": np.max, "row_min": np.min}
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
    "relabel": lambda a: a,
}


class Broke(Exception):
    """`break`."""


class Continued(Exception):
    """`continue`."""


def rounded(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array in an element type. BF16 values live in FP32 arrays, rounded."""
    if dtype.name == "BF16":
        import torch  # takes seconds, and few tests need it

        exact = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
        return exact.to(torch.bfloat16).to(torch.float32).numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(array).astype(NUMPY[dtype.name])


def undefined(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Elements without a defined value."""
    kind = np.float32 if dtype.name == "BF16" else NUMPY[dtype.name]
    if dtype.is_float:
        return np.full(shape, np.nan, kind)
    return np.full(shape, True if dtype.is_bool else 77, kind)


def to_int(value: np.ndarray, mode: str) -> np.ndarray:
    """Float to integer in one of the rounding modes."""
    wide = value.astype(np.float64)
    return {
        "none": np.trunc,
        "trunc": np.trunc,
        "rint": np.rint,
        "floor": np.floor,
        "ceil": np.ceil,
        "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    }[mode](wide)


def phases(body: list[Any]) -> list[list[Any]]:
    """A body cut at its barriers: every block runs one piece before any runs the next."""
    pieces: list[list[Any]] = [[]]
    for stmt in body:
        if isinstance(stmt, OpStmt) and stmt.op == "syncall":
            pieces.append([])
        else:
            pieces[-1].append(stmt)
    return pieces


class Interpreter:
    """Runs one function. `env` maps variables to arrays and numbers."""

    def __init__(self, function: Function, args: list[Any], block: int = 0, blocks: int = 1) -> None:
        self.env: dict[Any, Any] = {}
        self.block, self.blocks = block, blocks
        for param, value in zip(function.params, args, strict=True):
            self.env[param.var] = value
            if isinstance(param.var, Var):
                for extent, dim in zip(value.shape, param.var.type.shape, strict=True):
                    if isinstance(dim, Symbol):
                        self.env.setdefault(dim, extent)

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
        if expr.op != "cast":
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

    def run(self, body: list[Any]) -> None:
        for stmt in body:
            getattr(self, f"_{type(stmt).__name__}")(stmt)

    def _Let(self, stmt: Let) -> None:
        self.env[stmt.var] = self.get(stmt.value)

    def _IfStmt(self, stmt: IfStmt) -> None:
        self.run(stmt.then if self.get(stmt.cond) else stmt.orelse)

    def _round(self, body: list[Any]) -> bool:
        try:
            self.run(body)
        except Broke:
            return False
        except Continued:
            pass
        return True

    def _ForStmt(self, stmt: ForStmt) -> None:
        for index in range(self.get(stmt.start), self.get(stmt.stop), self.get(stmt.step)):
            self.env[stmt.var] = index
            if not self._round(stmt.body):
                break

    def _WhileStmt(self, stmt: WhileStmt) -> None:
        while True:
            self.run(stmt.head)
            if not self.get(stmt.cond) or not self._round(stmt.body):
                break

    def _BreakStmt(self, stmt: BreakStmt) -> None:
        raise Broke

    def _ContinueStmt(self, stmt: ContinueStmt) -> None:
        raise Continued

    def _ScopeStmt(self, stmt: ScopeStmt) -> None:
        outer = self.block, self.blocks, self.env
        self.blocks = 1 if stmt.blocks is None else self.get(stmt.blocks)
        envs = [dict(self.env) for _ in range(self.blocks)]
        for phase in phases(stmt.body):
            for self.block, self.env in enumerate(envs):
                self.run(phase)
        last = self.env
        self.block, self.blocks, self.env = outer
        self.env.update(last)

    def _CallStmt(self, stmt: CallStmt) -> None:
        blocks = self.get(stmt.blocks)
        args = [self.get(arg) for arg in stmt.args]
        kernels = [Interpreter(stmt.callee, args, block, blocks) for block in range(blocks)]
        for phase in phases(stmt.callee.body):
            for kernel in kernels:
                kernel.run(phase)

    def _OpStmt(self, stmt: OpStmt) -> None:
        with np.errstate(all="ignore"):
            result = getattr(self, f"op_{stmt.op}", self.op_elementwise)(stmt)
        if stmt.out is not None:
            out = stmt.out.resolve() if isinstance(stmt.out, Var) else stmt.out
            self.env[out] = result

    # Operations.

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

    def cut(self, stmt: OpStmt, value: np.ndarray) -> np.ndarray:
        """The part of an operand that the result needs; an axis of one element broadcasts."""
        wanted = [self.get(extent) for extent in stmt.out.type.valid]
        return value[tuple(slice(0, 1 if have == 1 else want) for have, want in zip(value.shape, wanted, strict=True))]

    def op_elementwise(self, stmt: OpStmt) -> np.ndarray:
        name = stmt.op.removeprefix("row_expand_").removeprefix("col_expand_")
        name = name if name in UNARY or name in BINARY else name.rstrip("s")
        name = name if name in BINARY or name in UNARY else {"adds": "add", "divs": "div", "max": "maximum"}[stmt.op]
        args = [self.cut(stmt, self.get(arg)) if isinstance(arg, Var) else self.get(arg) for arg in stmt.args]
        dtype = stmt.out.type.dtype
        wide = [np.asarray(arg, np.float64 if dtype.is_float else np.int64) for arg in args]
        if name == "div" and not dtype.is_float:
            quotient = np.trunc(wide[0] / np.where(wide[1] == 0, 1, wide[1]))
            return self.tile(stmt, np.where(wide[1] == 0, 0, quotient).astype(np.int64))
        return self.tile(stmt, (UNARY[name] if len(args) == 1 else BINARY[name])(*wide))

    def op_load(self, stmt: OpStmt) -> np.ndarray:
        tensor, offsets, extents = (self.get(arg) for arg in stmt.args)
        assert all(
            start >= 0 and start + extent <= size
            for start, extent, size in zip(offsets, extents, tensor.shape, strict=True)
        ), "load outside its tensor"
        box = tensor[tuple(slice(start, start + extent) for start, extent in zip(offsets, extents, strict=True))]
        valid = [self.get(extent) for extent in stmt.out.type.valid]
        return self.tile(stmt, box.reshape(valid[::-1]).T if stmt.attrs["transposed"] else box.reshape(valid))

    def op_store(self, stmt: OpStmt) -> None:
        tile, offsets, tensor, extents = stmt.args
        target, at, size = self.get(tensor), self.get(offsets), self.get(extents)
        assert all(
            start >= 0 and start + extent <= have for start, extent, have in zip(at, size, target.shape, strict=True)
        ), "store outside its tensor"
        box = tuple(slice(start, start + extent) for start, extent in zip(at, size, strict=True))
        target[box] = rounded(self.valid(tile), tensor.type.dtype).reshape(target[box].shape)

    def op_move(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0]).copy()

    def op_spill(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0])

    def op_cast(self, stmt: OpStmt) -> np.ndarray:
        value, dtype = self.cut(stmt, self.get(stmt.args[0])), stmt.out.type.dtype
        if dtype.is_integer and stmt.args[0].type.dtype.is_float:
            value = to_int(value, stmt.attrs["mode"])
        return self.tile(stmt, value)

    def op_full(self, stmt: OpStmt) -> np.ndarray:
        return rounded(np.full(stmt.out.type.shape, self.get(stmt.args[0])), stmt.out.type.dtype)

    def op_create_tile(self, stmt: OpStmt) -> np.ndarray:
        return undefined(stmt.out.type.shape, stmt.out.type.dtype)

    def op_create_tensor(self, stmt: OpStmt) -> np.ndarray:
        result = undefined(self.get(stmt.args[0]), stmt.out.type.dtype)
        if stmt.attrs["init_value"] is not None:
            result[...] = stmt.attrs["init_value"]
        return result

    def op_reduce(self, stmt: OpStmt) -> np.ndarray:
        value = self.valid(stmt.args[0])
        wide = value.astype(np.float64 if stmt.out.type.dtype.is_float else np.int64)
        return self.tile(stmt, REDUCE[stmt.op](wide, axis=-1, keepdims=True))

    op_row_sum = op_row_max = op_row_min = op_reduce

    def product(self, a: Var, b: Var, stmt: OpStmt) -> np.ndarray:
        rows, cols = (self.get(extent) for extent in stmt.out.type.valid)
        inner = self.get(a.type.valid[-1])
        return self.get(a)[:rows, :inner].astype(np.float64) @ self.get(b)[:inner, :cols].astype(np.float64)

    def op_matmul(self, stmt: OpStmt) -> np.ndarray:
        return self.tile(stmt, self.product(stmt.args[0], stmt.args[1], stmt))

    def op_matmul_acc(self, stmt: OpStmt) -> np.ndarray:
        fresh = len(stmt.args) == 4 and self.get(stmt.args[3])
        base = 0 if fresh else self.cut(stmt, self.get(stmt.args[0])).astype(np.float64)
        return self.tile(stmt, base + self.product(stmt.args[1], stmt.args[2], stmt))

    def op_slice(self, stmt: OpStmt) -> np.ndarray:
        tensor, offsets, extents = (self.get(arg) for arg in stmt.args)
        view = tensor[tuple(slice(start, start + extent) for start, extent in zip(offsets, extents, strict=True))]
        return view[tuple(slice(None) if axis in stmt.attrs["keep"] else 0 for axis in range(view.ndim))]

    def op_reshape(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0]).reshape(self.get(stmt.args[1]))

    def op_transpose(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0]).swapaxes(*stmt.attrs["axes"])

    def op_read(self, stmt: OpStmt) -> Any:
        array, at = self.get(stmt.args[0]), self.get(stmt.args[1])
        inside = all(0 <= index < size for index, size in zip(at, array.shape, strict=True))
        return array[at].item() if inside else 0

    def op_write(self, stmt: OpStmt) -> None:
        self.get(stmt.args[0])[self.get(stmt.args[1])] = self.get(stmt.args[2])


def run(program: Program, *args: Any) -> None:
    """Runs a program on numpy arrays (written in place) and numbers."""
    entry = program.entry
    values = [param.baked if param.baked is not None else arg for param, arg in zip(entry.params, args, strict=True)]
    Interpreter(entry, values).run(entry.body)
