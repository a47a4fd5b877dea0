"""What statements read and write: variables, and device memory behind parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from pypto.ir.exprs import ScalarOp, ScalarVar, Symbol
from pypto.ir.nodes import (
    CallStmt,
    ForStmt,
    Function,
    IfStmt,
    Let,
    OpStmt,
    ScopeStmt,
    Stmt,
    TaskRef,
    TaskStmt,
    Var,
    WhileStmt,
    walk,
)
from pypto.ir.types import TileType

Name: TypeAlias = Var | ScalarVar | Symbol
"""Whatever a statement can mention: a variable, or a runtime extent."""

VIEWS = frozenset({"slice", "reshape", "transpose", "reinterpret_view"})
"""Operations whose result is the device memory of their first argument."""


def leaves(operand: object) -> Iterator[Name]:
    """The variables and extents inside an operand, including those that its type mentions."""
    stack = [operand]
    while stack:
        item = stack.pop()
        if isinstance(item, Var):
            var = item.resolve()
            yield var
            stack.extend(var.type.valid if isinstance(var.type, TileType) else var.type.partial or ())
        elif isinstance(item, (ScalarVar, Symbol)):
            yield item
        elif isinstance(item, ScalarOp):
            stack.extend(item.args)
        elif isinstance(item, tuple):
            stack.extend(item)


def used(stmt: Stmt) -> Iterator[Name]:
    """What a statement itself reads (nested blocks excluded)."""
    if isinstance(stmt, Let):
        yield from leaves(stmt.value)
    elif isinstance(stmt, OpStmt):
        yield from leaves(stmt.args)
        if isinstance(stmt.out, Var):
            yield from (name for name in leaves(stmt.out) if name is not stmt.out.resolve())
            if stmt.op == "slice":
                yield from leaves((stmt.out.type.shape, stmt.out.type.valid))
    elif isinstance(stmt, CallStmt):
        yield from leaves((*stmt.args, stmt.blocks))
        yield from _indices(stmt.order.out, *stmt.order.deps)
    elif isinstance(stmt, TaskStmt):
        yield from _indices(stmt.out, *stmt.deps)
    elif isinstance(stmt, ForStmt):
        yield from leaves((stmt.start, stmt.stop, stmt.step))
    elif isinstance(stmt, (WhileStmt, IfStmt)):
        yield from leaves(stmt.cond)
    elif isinstance(stmt, ScopeStmt):
        yield from leaves(stmt.blocks)
        yield from _indices(stmt.order.out, *stmt.order.deps)


def _indices(*ids: TaskRef | None) -> Iterator[Name]:
    for item in ids:
        if item is not None:
            yield from leaves(item.index)


def defined(stmt: Stmt) -> Name | None:
    """The variable that a statement itself assigns."""
    if isinstance(stmt, (Let, ForStmt)):
        return stmt.var
    if isinstance(stmt, OpStmt) and stmt.out is not None:
        return stmt.out.resolve() if isinstance(stmt.out, Var) else stmt.out
    return None


class Effects:
    """Reads and writes of device memory in one function, by the variable that introduces the memory."""

    def __init__(self, function: Function, known: dict[int, Effects] | None = None) -> None:
        self.reads: set[Var] = set()
        self.writes: set[Var] = set()
        self._known: dict[int, Effects] = {} if known is None else known
        self._known[id(function)] = self
        self._roots: dict[Var, set[Var]] = {}
        for _ in range(2):  # a view that a loop carries is used before the statement that assigns it again
            for stmt in walk(function.body):
                self._visit(stmt)

    def roots(self, var: Var) -> set[Var]:
        """The variables that introduce the device memory behind `var`."""
        var = var.resolve()
        return self._roots.get(var, {var})

    def _visit(self, stmt: Stmt) -> None:
        if isinstance(stmt, OpStmt):
            self._operation(stmt)
        elif isinstance(stmt, CallStmt):
            effects = self._known.get(id(stmt.callee)) or Effects(stmt.callee, self._known)
            for param, argument in zip(stmt.callee.params, stmt.args, strict=True):
                if isinstance(argument, Var) and isinstance(param.var, Var):
                    if param.var in effects.reads:
                        self.reads |= self.roots(argument)
                    if param.var in effects.writes:
                        self.writes |= self.roots(argument)

    def _operation(self, stmt: OpStmt) -> None:
        if stmt.op in VIEWS and isinstance(stmt.out, Var) and stmt.out.is_tensor:
            source = stmt.args[0]
            assert isinstance(source, Var)
            self._roots.setdefault(stmt.out.resolve(), set()).update(self.roots(source))
        elif stmt.op in ("load", "read", "mgather") and isinstance(stmt.args[0], Var) and stmt.args[0].is_tensor:
            self.reads |= self.roots(stmt.args[0])
        elif stmt.op in ("store", "mscatter"):
            assert isinstance(stmt.args[2], Var)
            self.writes |= self.roots(stmt.args[2])
            if stmt.attrs.get("atomic"):
                self.reads |= self.roots(stmt.args[2])
        elif stmt.op == "write" and isinstance(stmt.args[0], Var) and stmt.args[0].is_tensor:
            self.writes |= self.roots(stmt.args[0])

    def direction(self, var: Var) -> str:
        """`In`, `Out` or `InOut`: what the function does with a parameter."""
        if var in self.writes:
            return "InOut" if var in self.reads else "Out"
        return "In"


def written_params(function: Function) -> set[Var]:
    """The parameters whose memory a function writes."""
    return Effects(function).writes
