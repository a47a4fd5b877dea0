"""A plain interpreter of the IR on numpy arrays: the semantics that the device is compared with.

It favours being obviously right over everything else. Elements that have no defined value (outside the valid region,
never written) are NaN, or a large odd integer, so that a program which uses them shows it.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable, Iterator
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


def in_step(blocks: Iterable[Iterator[None]]) -> None:
    """Runs blocks up to their next barrier, in order, until all have ended."""
    running = list(blocks)
    while running:
        running = [block for block in running if next(block, ENDED) is not ENDED]


ENDED = object()


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

    def run(self, body: list[Any]) -> Iterator[None]:
        """Runs statements; stops at each barrier."""
        for stmt in body:
            if isinstance(stmt, OpStmt):
                if stmt.op == "syncall":
                    yield
                else:
                    self._operation(stmt)
            elif isinstance(stmt, Let):
                self.env[stmt.var] = self.get(stmt.value)
            else:
                yield from getattr(self, f"_{type(stmt).__name__}")(stmt)

    def _IfStmt(self, stmt: IfStmt) -> Iterator[None]:
        yield from self.run(stmt.then if self.get(stmt.cond) else stmt.orelse)

    def _TaskStmt(self, stmt: TaskStmt) -> Iterator[None]:
        """Tasks run in program order."""
        yield from ()

    def _round(self, body: list[Any]) -> Generator[None, None, bool]:
        try:
            yield from self.run(body)
        except Broke:
            return False
        except Continued:
            pass
        return True

    def _ForStmt(self, stmt: ForStmt) -> Iterator[None]:
        for index in range(self.get(stmt.start), self.get(stmt.stop), self.get(stmt.step)):
            self.env[stmt.var] = index
            if not (yield from self._round(stmt.body)):
                break

    def _WhileStmt(self, stmt: WhileStmt) -> Iterator[None]:
        while True:
            yield from self.run(stmt.head)
            if not self.get(stmt.cond) or not (yield from self._round(stmt.body)):
                break

    def _BreakStmt(self, stmt: BreakStmt) -> Iterator[None]:
        raise Broke

    def _ContinueStmt(self, stmt: ContinueStmt) -> Iterator[None]:
        raise Continued

    def _ScopeStmt(self, stmt: ScopeStmt) -> Iterator[None]:
        blocks = 1 if stmt.blocks is None else self.get(stmt.blocks)
        inside = [Interpreter.block_of(self, block, blocks) for block in range(blocks)]
        in_step([block.run(stmt.body) for block in inside])
        if inside:
            self.env.update(inside[-1].env)
        return iter(())

    @staticmethod
    def block_of(outer: Interpreter, block: int, blocks: int) -> Interpreter:
        """One block of a scope: it sees what the code around it sees."""
        inner = copy.copy(outer)
        inner.env, inner.block, inner.blocks = dict(outer.env), block, blocks
        return inner

    def _CallStmt(self, stmt: CallStmt) -> Iterator[None]:
        blocks = self.get(stmt.blocks)
        args = [self.get(arg) for arg in stmt.args]
        in_step([Interpreter(stmt.callee, args, block, blocks).run(stmt.callee.body) for block in range(blocks)])
        return iter(())

    def _operation(self, stmt: OpStmt) -> None:
        with np.errstate(all="ignore"):
            result = getattr(self, f"op_{stmt.op}", self.op_elementwise)(stmt)
        if stmt.out is not None:
            out = stmt.out.resolve() if isinstance(stmt.out, Var) else stmt.out
            self.env[out] = result


def run(program: Program, *args: Any) -> None:
    """Runs a program on numpy arrays (written in place) and numbers."""
    entry = program.entry
    values = [param.baked if param.baked is not None else arg for param, arg in zip(entry.params, args, strict=True)]
    in_step([Interpreter(entry, values).run(entry.body)])
