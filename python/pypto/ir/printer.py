"""The IR as DSL text. What is printed parses back to the same program."""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pypto.ir.effects import defined
from pypto.ir.exprs import Const, Dim, Expr, ScalarOp, ScalarVar, Symbol
from pypto.ir.nodes import (
    BreakStmt,
    CallStmt,
    ContinueStmt,
    ForStmt,
    Function,
    IfStmt,
    Let,
    OpStmt,
    Order,
    Param,
    Program,
    ScopeStmt,
    Stmt,
    TaskRef,
    TaskStmt,
    Var,
    WhileStmt,
    children,
    walk,
)
from pypto.ir.passes.copies import scope_copies
from pypto.ir.print_form import arrays_of_tasks, needs_explicit
from pypto.ir.print_ops import operation_text
from pypto.ir.print_types import PREFIX, full_type_text, scalar_names, scalar_text, type_text
from pypto.ir.types import TensorType, TileType
from pypto.language.dtypes import DataType
from pypto.language.enums import FunctionType


def print_program(program: Program, concise: bool = False, explicit: bool = False) -> str:
    """A program as a `@pl.program` class. `concise` leaves out the header, `explicit` tells the type of every value."""
    extents: dict[str, None] = {}
    lines: list[str] = []
    for position, function in enumerate(program.functions.values()):
        if position:
            lines.append("")
        beside = program.entry_name not in (None, function.name) and function.kind is FunctionType.Orchestration
        # Of several functions of one kind none is the entry; opaque ones are read as what their bodies are.
        kind = FunctionType.Opaque if beside else function.kind
        printer = _Printer(function, method=True, explicit=explicit)
        lines += ["    " + line if line else "" for line in printer.lines(kind)]
        extents.update(dict.fromkeys(printer.extents))
    head = [*_header(extents, concise), "", "@pl.program", f"class {program.name}:"]
    return "\n".join(head + lines).lstrip("\n") + "\n"


def _header(extents: Iterable[str], concise: bool) -> list[str]:
    lines = [] if concise else ["import pypto.language as pl", ""]
    return lines + [f'{name} = pl.dynamic("{name}")' for name in extents]


def print_function(function: Function, concise: bool = False) -> str:
    """A function as a `@pl.function`."""
    printer = _Printer(function, method=False)
    lines = printer.lines(function.kind)
    return "\n".join(_header(printer.extents, concise) + lines) + "\n"


def python_print(node: Any, concise: bool = False) -> str:
    """A program, function, type or scalar as DSL text.

    Args:
        node: What to print.
        concise: Leave out the import and what else stands above the program.

    Raises:
        TypeError: It is something else.
    """
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
    """Prints one function. `extents` are the names of runtime extents in the types of its parameters."""

    def __init__(self, function: Function, method: bool, explicit: bool = False) -> None:
        self.function = function
        self.method = method
        self.names: dict[Any, str] = {}
        self.times = Counter(map(defined, walk(function.body)))
        self.explicit = explicit or needs_explicit(function, self.times)
        self.arrays = arrays_of_tasks(function)
        self.manual = False
        self.typed: set[Any] = set()
        self.taken: set[str] = set()
        for symbol in function.symbols:
            self._name(symbol)
        for param in function.params:
            self._name(param.var)
        types = [param.var.type for param in function.params if isinstance(param.var, Var)]
        dims = [dim for type in types for dim in (*type.shape, *type.valid) if not isinstance(dim, int)]
        named = [name for dim in dims for name in scalar_names(dim)]
        self.extents = list(dict.fromkeys(self._name(symbol) for symbol in [*function.symbols, *named]))

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
        for name in scalar_names(expr):
            self._name(name)
        text = scalar_text(expr, self.names)
        return text[1:-1] if text.startswith("(") and isinstance(expr, ScalarOp) and expr.op not in PREFIX else text

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
        text = full_type_text(param.var.type, self.names)
        return text if param.direction == "In" else f"pl.{param.direction}[{text}]"

    def _block(self, body: list[Stmt]) -> list[str]:
        """Statements; neighbours whose launches wait only for what they declare share a `pl.manual_scope`."""
        lines: list[str] = []
        open_scope = False
        for stmt in body:
            manual = not self.manual and _modes(stmt) == {True}
            if manual and not open_scope:
                lines.append("with pl.manual_scope():")
            open_scope = manual
            if manual:
                self.manual = True
                lines += ["    " + line for line in self._statement(stmt)]
                self.manual = False
            else:
                lines += self._statement(stmt)
        return lines

    def _indented(self, head: str, body: list[Stmt]) -> list[str]:
        return [head, *("    " + line for line in self._block(body) or ["pass"])]

    def _statement(self, stmt: Stmt) -> list[str]:
        if isinstance(stmt, Let):
            value = self._scalar(stmt.value)
            return [f"{self._name(stmt.var)}{self._scalar_type(stmt.var, stmt.value.dtype)} = {value}"]
        if isinstance(stmt, OpStmt):
            return [self._operation(stmt)]
        if isinstance(stmt, TaskStmt):
            return [self._task(stmt)]
        if isinstance(stmt, CallStmt):
            return self._call(stmt)
        if isinstance(stmt, ScopeStmt):
            hint = f'name_hint="{stmt.name}"'
            scope = "at(level=pl.Level.CORE_GROUP" if stmt.blocks is None else f"spmd({self._scalar(stmt.blocks)}"
            return self._indented(f"with pl.{scope}, {hint}{self._order(stmt.order)}:", stmt.body)
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
        args = [self._argument(arg) if isinstance(arg, Var) else self._scalar(arg) for arg in stmt.args]
        prefix = "self." if self.method else ""
        call = f"{prefix}{_identifier(stmt.callee.name)}({', '.join(args)})"
        order = stmt.order
        one = isinstance(stmt.blocks, Const) and stmt.blocks.value == 1
        if one and order.out is None and not order.deps:
            return [call]
        return [f"with pl.spmd({self._scalar(stmt.blocks)}{self._order(order)}:", f"    {call}"]

    def _argument(self, var: Var) -> str:
        return f"pl.no_dep({self._name(var)})" if var.untracked else self._name(var)

    def _order(self, order: Order) -> str:
        """What the arguments of a launch end with, and what follows them."""
        deps = f", deps={self._ids(order.deps)}" if order.deps else ""
        no_dep = f", no_dep_args=[{', '.join(map(self._name, order.no_dep))}]" if order.no_dep else ""
        return f"{deps}{no_dep})" + (f" as {self._id(order.out)}" if order.out is not None else "")

    def _id(self, ids: TaskRef) -> str:
        return self._name(ids.var) + ("" if ids.index is None else f"[{self._scalar(ids.index)}]")

    def _ids(self, ids: tuple[TaskRef, ...]) -> str:
        return f"[{', '.join(map(self._id, ids))}]"

    def _task(self, stmt: TaskStmt) -> str:
        """A statement about task ids: names and elements of arrays keep them."""
        if stmt.kind == "dummy":
            value = f"pl.system.task_dummy(deps={self._ids(stmt.deps)})"
        elif stmt.deps:
            value = self._id(stmt.deps[0])
        elif stmt.out.index is None and stmt.out.var in self.arrays:
            value = f"pl.array.create({stmt.out.var.extent}, pl.TASK_ID)"
        else:
            value = "pl.system.task_invalid()" if stmt.out.index is None else "None"
        return f"{self._id(stmt.out)} = {value}"

    def _operation(self, stmt: OpStmt) -> str:
        call = operation_text(stmt, self._operand, self.explicit)
        if isinstance(stmt.out, ScalarVar):
            source = stmt.args[0]
            given = source.type.dtype if isinstance(source, Var) else stmt.out.dtype
            return f"{self._name(stmt.out)}{self._scalar_type(stmt.out, given)} = {call}"
        return call if stmt.out is None else f"{self._name(stmt.out)}{self._value_type(stmt.out)} = {call}"

    def _first(self, variable: Any) -> bool:
        """Whether explicit text assigns a variable here for the first time."""
        if not self.explicit or variable in self.typed:
            return False
        self.typed.add(variable)
        return True

    def _scalar_type(self, var: ScalarVar, given: DataType) -> str:
        """The dtype of a scalar, where explicit text assigns it first and the value has another one."""
        return f": pl.Scalar[pl.{var.dtype}]" if self._first(var) and var.dtype is not given else ""

    def _value_type(self, out: Var) -> str:
        """The type of a value, where explicit text assigns it first."""
        var = out.resolve()
        if not self._first(var):
            return ""
        if isinstance(var.type, TensorType) and var.type.partial is None:
            return ""
        for dim in (*var.type.shape, *var.type.valid):
            for name in [] if isinstance(dim, int) else scalar_names(dim):
                self._name(name)
        return f": {full_type_text(var.type, self.names)}"

    def _operand(self, value: Any) -> str:
        if isinstance(value, Var):
            return self._name(value)
        return self._list(value) if isinstance(value, tuple) else self._scalar(value)


def _modes(stmt: Stmt) -> set[bool]:
    """Of the launches in a statement, whether they are in a manual scope."""
    if isinstance(stmt, (CallStmt, ScopeStmt)):
        return {stmt.order.manual}
    return {mode for block in children(stmt) for inner in block for mode in _modes(inner)}


__all__ = ["print_function", "print_program", "python_print", "scalar_text", "type_text"]
