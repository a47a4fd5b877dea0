"""Which scalars and on-chip values may still be read after a scope, so that only those wait in device memory.

A name that scopes share by spelling alone (`acc`, `r0`) must not tie them together: a value that waits is written by
every task, and tasks that write the same memory run one after the other. Reads are followed backwards. Loops are looked
at again until nothing changes, which takes as many times as loops are nested; the first round of a loop is looked at
apart from later ones where a condition tells them apart (`if k == 0: acc = ... else: acc = f(acc)`), as such a loop
reads no value from before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from pypto.ir.effects import Name, defined, leaves, used
from pypto.ir.exprs import Const, Expr, ScalarOp, ScalarVar
from pypto.ir.nodes import (
    BreakStmt,
    ContinueStmt,
    ForStmt,
    Function,
    IfStmt,
    Let,
    OpStmt,
    ScopeStmt,
    Stmt,
    WhileStmt,
    walk,
)
from pypto.ir.passes.copies import COPIES

Names: TypeAlias = frozenset[Name]

_FIRST: Final = {"eq": True, "le": True, "ge": True, "ne": False, "lt": False, "gt": False}
_LATER: Final = {"eq": False, "ne": True}
_UP: Final = {**_LATER, "gt": True, "le": False}
"""What comparing an index with where it starts gives: in the first round, in later ones, in later ones counting up."""

MAX_ROUNDS_APART: Final = 4
"""Loops around each other whose first rounds are looked at apart: each doubles the work."""


@dataclass(frozen=True, slots=True)
class _Round:
    start: Const
    first: bool
    up: bool


class Liveness:
    """What is read after the scopes of a function that is not a kernel.

    `after` and `before` are by the identity of a scope: what may be read later of what there is after it, and what it
    or later code may read of what there is before it.
    """

    def __init__(self, function: Function) -> None:
        self.before: dict[int, Names] = {}
        self.after: dict[int, Names] = {}
        self._wanted: set[int] = set()
        self._heads: dict[tuple[int, frozenset[tuple[ScalarVar, _Round]]], Names] = {}
        self._rounds: dict[ScalarVar, _Round] = {}
        self._loops: list[tuple[Names, Names]] = []
        self._told: dict[int, bool] = {}
        self._arms: set[tuple[int, bool]] = set()
        self._in_scope = False
        self._follow(function)
        branches = [stmt for stmt in walk(function.body) if isinstance(stmt, IfStmt)]
        if not all((id(stmt), arm) in self._arms for stmt in branches for arm in (False, True)):
            # Conditions inside each other exclude each other. What is there is kept, as is what it reads.
            self._told = {id(stmt): False for stmt in walk(function.body)}
            self._follow(function)

    def _follow(self, function: Function) -> None:
        end = frozenset(name for var in function.returns for name in leaves(var))
        self._changed = True
        while self._changed:
            self._changed = False
            self._block(function.body, end)

    def is_dead(self, stmt: Stmt) -> bool:
        """Whether a statement outside scopes only gives a value to a name that nobody reads before its next one."""
        return _only_assigns(stmt) and id(stmt) not in self._wanted

    def _block(self, body: list[Stmt], live: Names) -> Names:
        now = set(live)
        for stmt in reversed(body):
            if isinstance(stmt, (ForStmt, WhileStmt, IfStmt, ScopeStmt)):
                now = set(self._nested(stmt, frozenset(now)))
                continue
            if isinstance(stmt, (BreakStmt, ContinueStmt)):
                left, following = self._loops[-1]
                now = set(left if isinstance(stmt, BreakStmt) else following)
                continue
            target = defined(stmt)
            if not self._in_scope and _only_assigns(stmt):
                if target not in now:
                    continue
                self._wanted.add(id(stmt))
            if target is not None:
                now.discard(target)
            now.update(used(stmt))
        return frozenset(now)

    def _nested(self, stmt: ForStmt | WhileStmt | IfStmt | ScopeStmt, live: Names) -> Names:
        if isinstance(stmt, ForStmt):
            return self._for(stmt, live)
        if isinstance(stmt, WhileStmt):
            return self._while(stmt, live)
        return self._if(stmt, live) if isinstance(stmt, IfStmt) else self._scope(stmt, live)

    def _if(self, stmt: IfStmt, live: Names) -> Names:
        taken = self._decided(_stated(stmt.cond))
        self._arms.update((id(stmt), arm) for arm in (False, True) if taken is not (not arm))
        if taken is None:
            return self._block(stmt.then, live).union(self._block(stmt.orelse, live), used(stmt))
        return self._block(stmt.then if taken else stmt.orelse, live).union(used(stmt))

    def _scope(self, stmt: ScopeStmt, live: Names) -> Names:
        self.after[id(stmt)] = self.after.get(id(stmt), frozenset()) | live
        self._in_scope = True
        inside = self._block(stmt.body, live)
        self._in_scope = False
        self.before[id(stmt)] = self.before.get(id(stmt), frozenset()) | inside
        runs = stmt.blocks is None or (isinstance(stmt.blocks, Const) and stmt.blocks.value > 0)
        return inside.union(used(stmt), frozenset() if runs else live)

    def _for(self, stmt: ForStmt, live: Names) -> Names:
        start, stop, step = stmt.start, stmt.stop, stmt.step
        up = isinstance(step, Const) and step.value > 0
        if isinstance(start, Const) and self._tells_rounds_apart(stmt):
            with self._round(stmt.var, _Round(start, False, up)):
                head = self._body(stmt, live)
            with self._round(stmt.var, _Round(start, True, up)):
                result = self._once(stmt, live, head)
        else:
            result = self._body(stmt, live)
        runs = up and isinstance(start, Const) and isinstance(stop, Const) and start.value < stop.value
        return result.union(used(stmt), frozenset() if runs else live)

    def _body(self, stmt: ForStmt, live: Names) -> Names:
        """What a round reads that others like it follow."""
        key = id(stmt), frozenset(self._rounds.items())
        return self._keep(key, self._once(stmt, live, self._heads.get(key, frozenset())))

    def _once(self, stmt: ForStmt, live: Names, head: Names) -> Names:
        following = live | head
        self._loops.append((live, following))
        result = self._block(stmt.body, following) - {stmt.var}
        self._loops.pop()
        return result

    def _while(self, stmt: WhileStmt, live: Names) -> Names:
        key = id(stmt), frozenset(self._rounds.items())
        head = self._heads.get(key, frozenset())
        self._loops.append((live, head))
        goes_on = self._block(stmt.body, head)
        self._loops.pop()
        return self._keep(key, self._block(stmt.head, goes_on.union(live, used(stmt))))

    def _keep(self, key: tuple[int, frozenset[tuple[ScalarVar, _Round]]], head: Names) -> Names:
        known = self._heads.get(key, frozenset())
        if not head <= known:
            known = self._heads[key] = head | known
            self._changed = True
        return known

    @contextmanager
    def _round(self, var: ScalarVar, which: _Round) -> Iterator[None]:
        self._rounds[var] = which
        yield
        del self._rounds[var]

    def _tells_rounds_apart(self, stmt: ForStmt) -> bool:
        if len(self._rounds) >= MAX_ROUNDS_APART:
            return False
        found = self._told.get(id(stmt))
        if found is None:
            found = any(
                isinstance(inner, IfStmt) and any(name is stmt.var for name in leaves(_stated(inner.cond)))
                for inner in walk(stmt.body)
            )
            self._told[id(stmt)] = found
        return found

    def _decided(self, cond: Expr) -> bool | None:
        if not isinstance(cond, ScalarOp):
            return None
        if cond.op in ("and", "or"):
            parts = [self._decided(part) for part in cond.args]
            settles = cond.op == "or"
            return settles if settles in parts else None if None in parts else not settles
        if cond.op == "not":
            inner = self._decided(cond.args[0])
            return None if inner is None else not inner
        which = self._rounds.get(cond.args[0]) if isinstance(cond.args[0], ScalarVar) else None
        if which is None or len(cond.args) != 2 or cond.args[1] != which.start:
            return None
        return (_FIRST if which.first else _UP if which.up else _LATER).get(cond.op)


def _stated(cond: Expr) -> Expr:
    """A condition as it is written: the source gives it a name of its own. Names in it are not looked through."""
    return cond.value if isinstance(cond, ScalarVar) and cond.value is not None else cond


def _only_assigns(stmt: Stmt) -> bool:
    """Whether a statement reconciles a name where paths meet, and does nothing else.

    Names that are assigned once are left alone: types may mention them.
    """
    if isinstance(stmt, Let):
        return stmt.var.mutable
    return isinstance(stmt, OpStmt) and stmt.op in COPIES
