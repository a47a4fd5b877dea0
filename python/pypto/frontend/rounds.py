"""Whether a name has a value in the first round of a loop wherever it is read.

`if k == 0: n = a else: n = n + b` reads `n` above the line that assigns it first, and is right: the first round takes
the other arm. The text is looked at twice, as the first round and as a later one, knowing in each how the index of the
loop compares with where it starts; whatever else a condition depends on may go either way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

State: TypeAlias = bool | None
"""Whether the name certainly has a value; `None` where no path gets to."""

_FIRST: Final = {ast.Eq: True, ast.LtE: True, ast.GtE: True, ast.NotEq: False, ast.Lt: False, ast.Gt: False}
_LATER: Final = {ast.Eq: False, ast.NotEq: True}


@dataclass(slots=True)
class Rounds:
    """Follows one name. `number` gives the value of an expression that is a known integer."""

    name: str
    number: Callable[[ast.expr], int | None]
    missed: list[ast.Name] = field(default_factory=list)
    after: State = False
    _facts: dict[str, tuple[str, bool]] = field(default_factory=dict)
    _next: list[State] = field(default_factory=list)
    _left: list[State] = field(default_factory=list)

    def loop(self, node: ast.For | ast.While, state: State) -> State:
        """Goes through a loop, and says what holds after it. `missed` gets the reads that find no value."""
        before = self._next, self._left
        self._left = []
        index, start, runs = "", "", False
        if isinstance(node, ast.For):
            self._read(node.iter, state)
            index, start, runs = self._counted(node)
        else:
            runs = isinstance(node.test, ast.Constant) and bool(node.test.value)
        ended = state
        for first in (True, False):
            self._next = []
            if isinstance(node, ast.While):
                self._read(node.test, ended)
            outer = self._facts.get(index)
            if index:
                self._facts[index] = start, first
            ended = _join([self._block(node.body, ended), *self._next])
            self._facts.pop(index, None)
            if outer is not None:
                self._facts[index] = outer
            if first:
                once = ended
        forever = isinstance(node, ast.While) and runs
        result = _join(([] if forever else [once]) + self._left)
        self._next, self._left = before
        return result if runs else state

    def _counted(self, node: ast.For) -> tuple[str, str, bool]:
        """The index of a counted loop, where it starts, and whether there is a round for certain."""
        target = node.target.elts[0] if isinstance(node.target, ast.Tuple) and node.target.elts else node.target
        if not isinstance(node.iter, ast.Call) or not isinstance(target, ast.Name) or not node.iter.args:
            return "", "", False
        bounds = node.iter.args
        start = ast.unparse(bounds[0]) if len(bounds) > 1 else "0"
        numbers = [self.number(bound) for bound in bounds]
        known = [number for number in numbers if number is not None]
        runs = len(known) == len(numbers) <= 3 and (len(known) < 3 or known[2] != 0) and len(range(*known)) > 0
        return target.id, start, runs

    def _block(self, body: Iterable[ast.stmt], state: State) -> State:
        for stmt in body:
            if state is None:
                return None
            state = self._statement(stmt, state)
        return state

    def _statement(self, stmt: ast.stmt, state: State) -> State:
        if isinstance(stmt, ast.If):
            self._read(stmt.test, state)
            taken = self._decided(stmt.test)
            arms = [stmt.body, stmt.orelse] if taken is None else [stmt.body if taken else stmt.orelse]
            return _join([self._block(arm, state) for arm in arms])
        if isinstance(stmt, (ast.For, ast.While)):
            return self.loop(stmt, state)
        if isinstance(stmt, ast.With):
            for item in stmt.items:
                self._read(item, state)
            return self._block(stmt.body, state)
        if isinstance(stmt, (ast.Break, ast.Continue)):
            (self._left if isinstance(stmt, ast.Break) else self._next).append(state)
            return None
        self._read(stmt, state)
        assigns = any(
            isinstance(node, ast.Name) and node.id == self.name and isinstance(node.ctx, ast.Store)
            for node in ast.walk(stmt)
        )
        return state or assigns

    def _read(self, node: ast.AST, state: State) -> None:
        if state is False:
            self.missed += [
                inner
                for inner in ast.walk(node)
                if isinstance(inner, ast.Name) and inner.id == self.name and isinstance(inner.ctx, ast.Load)
            ]

    def _decided(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._decided(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            settles = isinstance(test.op, ast.Or)
            parts = [self._decided(part) for part in test.values]
            return settles if settles in parts else None if None in parts else not settles
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
            start, first = self._facts.get(test.left.id, ("", False))
            if start and ast.unparse(test.comparators[0]) == start:
                later = {**_LATER, **{ast.Gt: True, ast.LtE: False}} if start == "0" else _LATER
                return (_FIRST if first else later).get(type(test.ops[0]))
        return None


def _join(states: list[State]) -> State:
    reached = [state for state in states if state is not None]
    return all(reached) if reached else None
