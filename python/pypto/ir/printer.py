"""The IR as DSL text. What is printed parses back to the same program."""

from __future__ import annotations

import keyword
from collections import Counter
from typing import Any

from pypto.ir.effects import defined
from pypto.ir.exprs import Const, Dim, Expr, ScalarOp, ScalarVar, Symbol, of_dim
from pypto.ir.nodes import (
    BreakStmt,
    CallStmt,
    ContinueStmt,
    ForStmt,
    Function,
    IfStmt,
    Let,
    OpStmt,
    Param,
    Program,
    ScopeStmt,
    Stmt,
    TaskStmt,
    Var,
    WhileStmt,
    walk,
)
from pypto.ir.passes.copies import scope_copies
from pypto.ir.print_ops import operation_text
from pypto.ir.types import TensorType, TileType, ValueType
from pypto.language.dtypes import BOOL, FP32, INDEX
from pypto.language.enums import FunctionType

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
_PREFIX = {"neg": "-", "bitnot": "~", "not": "not "}


def scalar_text(expr: Expr, names: dict[Any, str] | None = None) -> str:
    """A scalar expression."""
    if isinstance(expr, Const):
        return _const_text(expr)
    if isinstance(expr, (ScalarVar, Symbol)):
        return expr.name if names is None else names.get(expr, expr.name)
    args = [scalar_text(arg, names) for arg in expr.args]
    if expr.op in _INFIX:
        return f"({args[0]} {_INFIX[expr.op]} {args[1]})"
    if expr.op in _PREFIX:
        return f"({_PREFIX[expr.op]}{args[0]})"
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


def type_text(type: ValueType, names: dict[Any, str] | None = None) -> str:
    """A type, as in an annotation."""
    extents = ", ".join(scalar_text(of_dim(dim), names) for dim in type.shape)
    if isinstance(type, TensorType):
        return f"pl.Tensor[[{extents}], pl.{type.dtype}]"
    return f"pl.Tile[[{extents}], pl.{type.dtype}]"


def print_program(program: Program, concise: bool = False) -> str:
    """A program as a `@pl.program` class. `concise` leaves out the header."""
    symbols = {symbol.name: symbol for function in program.functions.values() for symbol in function.symbols}
    lines = [] if concise else ["import pypto.language as pl", ""]
    lines += [f'{_identifier(name)} = pl.dynamic("{_identifier(name)}")' for name in symbols]
    lines += ["", "@pl.program", f"class {program.name}:"]
    for position, function in enumerate(program.functions.values()):
        if position:
            lines.append("")
        beside = program.entry_name not in (None, function.name) and function.kind is FunctionType.Orchestration
        # Of several functions of one kind none is the entry; opaque ones are read as what their bodies are.
        kind = FunctionType.Opaque if beside else function.kind
        lines += ["    " + line if line else "" for line in _Printer(function, method=True).lines(kind)]
    return "\n".join(lines).lstrip("\n") + "\n"


def print_function(function: Function, concise: bool = False) -> str:
    """A function as a `@pl.function`."""
    lines = [] if concise else ["import pypto.language as pl", ""]
    lines += [f'{_identifier(symbol.name)} = pl.dynamic("{_identifier(symbol.name)}")' for symbol in function.symbols]
    lines += _Printer(function, method=False).lines(function.kind)
    return "\n".join(lines) + "\n"


def python_print(node: Any, concise: bool = False) -> str:
    """A program, function, type or scalar as DSL text."""
    if isinstance(node, Program):
        return print_program(node, concise)
    if isinstance(node, Function):
        return print_function(node, concise)
    if isinstance(node, (TensorType, TileType)):
        return type_text(node)
    if isinstance(node, (Const, ScalarVar, Symbol, ScalarOp)):
        return scalar_text(node)
    raise TypeError(f"cannot print {type(node).__name__}")


def _identifier(name: str) -> str:
    cleaned = "".join(char if char.isalnum() or char == "_" else "_" for char in name) or "v"
    return cleaned + "_" if keyword.iskeyword(cleaned) or cleaned[0].isdigit() or cleaned in ("pl", "self") else cleaned


class _Printer:
    def __init__(self, function: Function, method: bool) -> None:
        self.function = function
        self.method = method
        self.names: dict[Any, str] = {}
        self.times = Counter(map(defined, walk(function.body)))
        self.explicit = _needs_explicit(function, self.times)
        self.typed: set[Any] = set()
        self.taken: set[str] = set()
        for symbol in function.symbols:
            self._name(symbol)
        for param in function.params:
            self._name(param.var)

    def _name(self, variable: Any) -> str:
        if isinstance(variable, Var):
            variable = variable.resolve()
        found = self.names.get(variable)
        if found is None:
            base = found = _identifier(variable.name)
            number = 1
            while found in self.taken:
                found = f"{base}_{number}"
                number += 1
            self.taken.add(found)
            self.names[variable] = found
        return found

    def _scalar(self, expr: Dim | Expr) -> str:
        if isinstance(expr, int):
            return str(expr)
        for name in _scalar_names(expr):
            self._name(name)
        text = scalar_text(expr, self.names)
        return text[1:-1] if text.startswith("(") and isinstance(expr, ScalarOp) and expr.op not in _PREFIX else text

    def _list(self, items: Any) -> str:
        return "[" + ", ".join(self._scalar(item) for item in items) + "]"

    def lines(self, kind: FunctionType) -> list[str]:
        """The decorated function."""
        function = scope_copies(self.function, "")  # the reader of explicit text knows them by their empty name
        params = ["self"] if self.method else []
        params += [f"{self._name(param.var)}: {self._annotation(param)}" for param in function.params]
        returns = [self._name(var) for var in function.returns]
        head = [
            f"@pl.function(type=pl.FunctionType.{kind.value})",
            f"def {_identifier(function.name)}({', '.join(params)}):",
        ]
        body = ['pl.func_attr({"explicit": True})'] if self.explicit else []
        body += self._block(function.body)
        if returns:
            body.append(f"return {', '.join(returns)}")
        return head + ["    " + line for line in body or ["pass"]]

    def _annotation(self, param: Param) -> str:
        if not isinstance(param.var, Var):
            return f"pl.Scalar[pl.{param.var.dtype}]"
        text = type_text(param.var.type, self.names)
        return text if param.direction == "In" else f"pl.{param.direction}[{text}]"

    def _block(self, body: list[Stmt]) -> list[str]:
        return [line for stmt in body for line in self._statement(stmt)]

    def _indented(self, head: str, body: list[Stmt]) -> list[str]:
        return [head, *("    " + line for line in self._block(body) or ["pass"])]

    def _statement(self, stmt: Stmt) -> list[str]:
        if isinstance(stmt, Let):
            value = self._scalar(stmt.value)
            return [f"{self._name(stmt.var)}{self._scalar_type(stmt)} = {value}"]
        if isinstance(stmt, OpStmt):
            return [self._operation(stmt)]
        if isinstance(stmt, TaskStmt):
            return []  # the text says what is computed; the order of tasks changes none of it
        if isinstance(stmt, CallStmt):
            return self._call(stmt)
        if isinstance(stmt, ScopeStmt):
            hint = f'name_hint="{stmt.name}"'
            if stmt.blocks is None:
                return self._indented(f"with pl.at(level=pl.Level.CORE_GROUP, {hint}):", stmt.body)
            return self._indented(f"with pl.spmd({self._scalar(stmt.blocks)}, {hint}):", stmt.body)
        if isinstance(stmt, ForStmt):
            bounds = f"{self._scalar(stmt.start)}, {self._scalar(stmt.stop)}, {self._scalar(stmt.step)}"
            stage = ", stage=2" if stmt.kind == "pipeline" else ""
            return self._indented(f"for {self._name(stmt.var)} in pl.{stmt.kind}({bounds}{stage}):", stmt.body)
        if isinstance(stmt, WhileStmt):
            if not stmt.head:
                return self._indented(f"while {self._scalar(stmt.cond)}:", stmt.body)
            lines = [
                *self._block(stmt.head),
                f"if not ({self._scalar(stmt.cond)}):",
                "    break",
                *self._block(stmt.body),
            ]
            return ["while True:", *("    " + line for line in lines)]
        if isinstance(stmt, IfStmt):
            lines = self._indented(f"if {self._scalar(stmt.cond)}:", stmt.then)
            return lines + (self._indented("else:", stmt.orelse) if stmt.orelse else [])
        return ["break" if isinstance(stmt, BreakStmt) else "continue" if isinstance(stmt, ContinueStmt) else "pass"]

    def _call(self, stmt: CallStmt) -> list[str]:
        args = [self._name(arg) if isinstance(arg, Var) else self._scalar(arg) for arg in stmt.args]
        prefix = "self." if self.method else ""
        call = f"{prefix}{_identifier(stmt.callee.name)}({', '.join(args)})"
        if isinstance(stmt.blocks, Const) and stmt.blocks.value == 1:
            return [call]
        return [f"with pl.spmd({self._scalar(stmt.blocks)}):", f"    {call}"]

    def _operation(self, stmt: OpStmt) -> str:
        call = operation_text(stmt, self._operand)
        return call if stmt.out is None else f"{self._name(stmt.out)}{self._tile_type(stmt.out)} = {call}"

    def _first(self, variable: Any) -> bool:
        """Whether explicit text assigns a variable here for the first time."""
        if not self.explicit or variable in self.typed:
            return False
        self.typed.add(variable)
        return True

    def _scalar_type(self, stmt: Let) -> str:
        return (
            f": pl.Scalar[pl.{stmt.var.dtype}]"
            if self._first(stmt.var) and stmt.var.dtype is not stmt.value.dtype
            else ""
        )

    def _tile_type(self, out: Var | ScalarVar) -> str:
        """The type of a tile whose first assignment does not tell all of it."""
        var = out.resolve() if isinstance(out, Var) else out
        if not self._first(var) or not isinstance(var, Var) or not isinstance(var.type, TileType):
            return ""
        type = var.type
        if self.times[var] == 1 and all(isinstance(part, int) for part in type.valid):
            return ""
        view = f"pl.TileView(valid_shape={self._list(type.valid)})"
        kind = "Tensor" if type.tensor_level else "Tile"
        return f": pl.{kind}[{self._list(type.shape)}, pl.{type.dtype}, {view}, pl.MemorySpace.{type.space.value}]"

    def _operand(self, value: Any) -> str:
        if isinstance(value, Var):
            return self._name(value)
        return self._list(value) if isinstance(value, tuple) else self._scalar(value)


def _needs_explicit(function: Function, times: Counter[Any]) -> bool:
    """Whether paths meet in a function, or values wait in memory: a reader must not arrange that once more."""
    if any(count > 1 for variable, count in times.items() if variable is not None):
        return True
    return any(
        (isinstance(stmt, OpStmt) and stmt.op == "spill")
        or (isinstance(stmt, Let) and isinstance(stmt.value, (Const, ScalarVar)))
        for stmt in walk(function.body)
    )


def _scalar_names(expr: Expr) -> list[Any]:
    if isinstance(expr, (ScalarVar, Symbol)):
        return [expr]
    return [name for arg in expr.args for name in _scalar_names(arg)] if isinstance(expr, ScalarOp) else []


__all__ = ["print_function", "print_program", "python_print", "scalar_text", "type_text"]
