"""A plain interpreter of the IR on numpy arrays: the semantics that the device is compared with.

It favours being obviously right over everything else. Elements that have no defined value (outside the valid region,
never written) are NaN, or a large odd integer, so that a program which uses them shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interp.elementwise import Elementwise
from interp.gather import Gather
from interp.movement import Movement
from pypto.ir.exprs import Symbol
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


class Broke(Exception):
    """`break`."""


class Continued(Exception):
    """`continue`."""


def phases(body: list[Any]) -> list[list[Any]]:
    """A body cut at its barriers: every block runs one piece before any runs the next."""
    pieces: list[list[Any]] = [[]]
    for stmt in body:
        if isinstance(stmt, OpStmt) and stmt.op == "syncall":
            pieces.append([])
        else:
            pieces[-1].append(stmt)
    return pieces


class Interpreter(Elementwise, Movement, Gather):
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

    def run(self, body: list[Any]) -> None:
        for stmt in body:
            getattr(self, f"_{type(stmt).__name__}")(stmt)

    def _Let(self, stmt: Let) -> None:
        self.env[stmt.var] = self.get(stmt.value)

    def _TaskStmt(self, stmt: TaskStmt) -> None:
        """Tasks run in program order."""

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
            for block, env in enumerate(envs):
                self.block, self.env = block, env
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


def run(program: Program, *args: Any) -> None:
    """Runs a program on numpy arrays (written in place) and numbers."""
    entry = program.entry
    values = [param.baked if param.baked is not None else arg for param, arg in zip(entry.params, args, strict=True)]
    Interpreter(entry, values).run(entry.body)
