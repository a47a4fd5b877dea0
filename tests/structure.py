"""Programs as plain data, so that two can be compared: variables are numbered as they appear, places are left out."""

from __future__ import annotations

from enum import Enum
from typing import Any

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
    TaskStmt,
    Var,
    WhileStmt,
)
from pypto.ir.types import TensorType, TileType
from pypto.language.dtypes import DataType


def structure(program: Program) -> dict[str, list[Any]]:
    """Every function of a program."""
    return {name: _Function(function).described() for name, function in program.functions.items()}


class _Function:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.numbers: dict[Any, str] = {}

    def described(self) -> list[Any]:
        function = self.function
        # A scalar that was fixed at compile time is a constant in the text already: its parameter has no reader left.
        params = [(param.direction, self.value(param.var)) for param in function.params]
        return [function.kind, params, self.block(function.body), [self.value(var) for var in function.returns]]

    def value(self, value: Any) -> Any:
        if isinstance(value, Var):
            value = value.resolve()
            known = value in self.numbers
            number = self.numbers.setdefault(value, f"v{len(self.numbers)}")
            return number if known else (number, self.type(value.type))
        if isinstance(value, (ScalarVar, Symbol)):
            number = self.numbers.setdefault(value, f"s{len(self.numbers)}")
            return f"{number}:{value.dtype}"
        if isinstance(value, ScalarOp):
            return (value.op, str(value.dtype), *(self.value(arg) for arg in value.args))
        if isinstance(value, Const):
            return repr(value.value), str(value.dtype)
        if isinstance(value, (tuple, list)):
            return [self.value(item) for item in value]
        return str(value) if isinstance(value, (DataType, Enum)) else value

    def type(self, type: TensorType | TileType) -> Any:
        if isinstance(type, TensorType):
            return "tensor", str(type.dtype), self.value(type.shape), self.value(type.partial), str(type.layout)
        place = (str(type.space), type.tensor_level)
        return "tile", str(type.dtype), self.value(type.shape), self.value(type.valid), place

    def block(self, body: list[Any]) -> list[Any]:
        # The text leaves out in which order tasks were declared to run, which changes no result.
        return [self.statement(stmt) for stmt in body if not isinstance(stmt, TaskStmt)]

    def statement(self, stmt: Any) -> Any:
        match stmt:
            case Let():
                return "let", self.value(stmt.value), self.value(stmt.var)
            case OpStmt():
                attrs = {name: self.value(value) for name, value in stmt.attrs.items() if value not in (None, False)}
                return stmt.op, self.value(stmt.args), attrs, self.value(stmt.out)
            case CallStmt():
                return "call", stmt.callee.name, self.value(stmt.args), self.value(stmt.blocks)
            case ScopeStmt():
                return "scope", stmt.name, self.value(stmt.blocks), self.block(stmt.body)
            case ForStmt():
                bounds = [self.value(bound) for bound in (stmt.start, stmt.stop, stmt.step)]
                return "for", stmt.kind, bounds, self.value(stmt.var), self.block(stmt.body)
            case WhileStmt():
                return "while", self.block(stmt.head), self.value(stmt.cond), self.block(stmt.body)
            case IfStmt():
                return "if", self.value(stmt.cond), self.block(stmt.then), self.block(stmt.orelse)
            case BreakStmt() | ContinueStmt():
                return type(stmt).__name__
        raise AssertionError(f"no statement: {stmt!r}")
