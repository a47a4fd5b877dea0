"""`return` on some paths only: the body of a function, rewritten so that it ends in one place.

What follows a branch that returns becomes its other arm. Where that says too little, because only part of an arm
returns, or a loop does, a flag says whether the function has returned: `break` leaves the loop, and what follows is
skipped. Values go to names, so they meet like those of any name. (Copies of what follows in each arm would need no
flag, and grow without bound.)
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, TypeVar

from pypto.frontend.assigned import RETURNED, result_name
from pypto.frontend.builder import Builder
from pypto.frontend.roots import root
from pypto.frontend.values import NONE, POISON, Ambiguous, Poison, Value
from pypto.ir.nodes import Var

_AT_ONCE: Final = {
    "parallel": ("rounds", "loop with pl.range"),
    "pipeline": ("rounds", "loop with pl.range"),
    "spmd": ("blocks", "compute what decides, and return after the blocks"),
    "split_aiv": ("lanes", "compute what decides, and return after the region"),
}
"""Iterators of which several rounds, blocks or lanes may run at once: none of them ends the function for the others."""

_OF_CALL: Final = 8
"""How many values a call may give that a function returns on some paths: their names are made before it is read."""


class Give(ast.stmt):
    """`return`, of a function that goes on to its end. `origin` is the statement of the source, or what stands last."""

    _fields = ("value", "targets")

    def __init__(self, value: ast.expr | None, targets: list[ast.Name], origin: ast.stmt) -> None:
        super().__init__()
        self.value = value
        self.targets = targets
        self.origin = origin
        ast.copy_location(self, origin)


class Leave(ast.Break):
    """The `break` by which a `return` leaves a loop."""


class Misplaced(ast.stmt):
    """A `return` in code that runs several times at once; `kind` is the iterator."""

    _fields = ("kind",)

    def __init__(self, kind: str = "") -> None:  # a default, as a copy is made before it is filled
        super().__init__()
        self.kind = kind

    def texts(self) -> tuple[str, str]:
        """What is wrong, and what to write instead."""
        what, hint = _AT_ONCE[self.kind]
        return f"`return` inside pl.{self.kind}, whose {what} may run at once", hint


class _End(Enum):
    """How a block ends: it goes on to what follows, it has returned, or the flag says which."""

    GOES_ON = 0
    RETURNS = 1
    EITHER = 2


def single_exit(builder: Builder, body: list[ast.stmt], deepest: int) -> list[ast.stmt]:
    """A body that returns at its end only; the same one if it does already.

    Blocks that nest deeper than `deepest` are refused, those among them that hold what follows a branch that returns.
    """
    if not any(_has_return(stmt) for stmt in body if not isinstance(stmt, ast.Return)):
        return body
    rewriter = _Rewriter(body, deepest)
    whole = rewriter.whole()
    if rewriter.too_deep is not None:
        builder.fail(
            "syntax",
            f"more than {deepest} branches, loops and returns on some paths are inside each other here: what follows a "
            "`return` on some paths is inside it",
            rewriter.too_deep,
            "look values up in a tensor, or return once, at the end",
        )
    return whole


def _at_most(value: ast.expr | None) -> int:
    """How many values an expression is, or may be."""
    if isinstance(value, ast.Tuple):
        return len(value.elts)
    return _OF_CALL if isinstance(value, ast.Call) else 1


def _returns(body: list[ast.stmt]) -> Iterator[ast.Return]:
    stack = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            yield node
        elif isinstance(node, (ast.If, ast.For, ast.While, ast.With)):
            stack += [*node.body, *getattr(node, "orelse", ())]


def _has_return(stmt: ast.stmt) -> bool:
    return next(_returns([stmt]), None) is not None


def _kind(stmt: ast.stmt) -> str:
    """Which iterator or scope of the language a statement names."""
    call = (
        stmt.iter if isinstance(stmt, ast.For) else stmt.items[0].context_expr if isinstance(stmt, ast.With) else None
    )
    func = call.func if isinstance(call, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _is_endless(stmt: ast.stmt) -> bool:
    """Whether only `return` leaves a loop."""
    if not isinstance(stmt, ast.While) or not isinstance(stmt.test, ast.Constant) or not stmt.test.value:
        return False
    stack = list(stmt.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Break):
            return False
        if isinstance(node, (ast.If, ast.With)):
            stack += [*node.body, *getattr(node, "orelse", ())]
    return True


class _Rewriter:
    def __init__(self, body: list[ast.stmt], deepest: int) -> None:
        self.body = body
        self.left = deepest
        self.too_deep: ast.stmt | None = None
        self.gives: list[Give] = []
        self.tested = False
        self.values = [node.value for node in _returns(body)]
        self.count = max(map(_at_most, self.values))

    def whole(self) -> list[ast.stmt]:
        """The body."""
        block, end = self._block(self.body, in_loop=False)
        last = self.body[-1]
        if end is not _End.RETURNS and any(value is not None for value in self.values):
            fell = Give(None, [], last)
            block.append(fell if end is _End.GOES_ON else self._unless_returned(last, [fell]))
        if not self.tested:
            return block
        for give in self.gives:
            give.targets.append(ast.Name(RETURNED, ast.Store()))
        first = self.body[0]
        flag: list[ast.expr] = [ast.Name(RETURNED, ast.Store())]
        return [_at(first, ast.Assign(flag, _at(first, ast.Constant(False)))), *block]

    def _block(self, body: list[ast.stmt], in_loop: bool) -> tuple[list[ast.stmt], _End]:
        """The statements of a block, and how it ends. In a loop, who returns leaves it."""
        if not self.left:
            self.too_deep = self.too_deep or body[0]
            return body, _End.GOES_ON
        self.left -= 1
        try:
            return self._statements(body, in_loop)
        finally:
            self.left += 1

    def _statements(self, body: list[ast.stmt], in_loop: bool) -> tuple[list[ast.stmt], _End]:
        done: list[ast.stmt] = []
        for position, stmt in enumerate(body):
            if isinstance(stmt, ast.Return):
                give = Give(stmt.value, [ast.Name(result_name(i), ast.Store()) for i in range(self.count)], stmt)
                self.gives.append(give)
                return [*done, give, *([_at(stmt, Leave())] if in_loop else [])], _End.RETURNS
            kind = _kind(stmt)
            if not _has_return(stmt):
                done.append(stmt)
            elif kind in _AT_ONCE and not _is_last_of_all(stmt, kind):
                done.append(_misplaced(stmt, kind))
            else:
                rest = body[position + 1 :]
                if isinstance(stmt, ast.If):
                    new, end, rest = self._arms(stmt, rest, in_loop)
                else:
                    new, end = self._inner(stmt, kind, in_loop)
                done += new
                if end is _End.RETURNS:
                    return done, end
                if in_loop:  # who has returned has left it
                    continue
                if rest:
                    more, end = self._block(rest, in_loop)
                    done.append(self._unless_returned(stmt, more))
                return done, end if end is _End.RETURNS else _End.EITHER
        return done, _End.GOES_ON

    def _arms(self, stmt: ast.If, rest: list[ast.stmt], in_loop: bool) -> tuple[list[ast.stmt], _End, list[ast.stmt]]:
        """A branch, how it ends, and what still follows: an arm takes that where the other has returned."""
        (then, left), (orelse, right) = self._block(stmt.body, in_loop), self._block(stmt.orelse, in_loop)
        if rest and not in_loop and {left, right} == {_End.RETURNS, _End.GOES_ON}:
            more, end = self._block(rest, in_loop)
            if left is _End.RETURNS:
                orelse, right = [*orelse, *more], end
            else:
                then, left = [*then, *more], end
            rest = []
        new: list[ast.stmt] = [_at(stmt, ast.If(stmt.test, then, orelse))]
        return new, _End.RETURNS if left is right is _End.RETURNS else _End.EITHER, rest

    def _inner(self, stmt: Any, kind: str, in_loop: bool) -> tuple[list[ast.stmt], _End]:
        """A loop or a scope, and how it ends."""
        repeats = isinstance(stmt, (ast.For, ast.While)) and kind not in ("unroll", "spmd")
        new = copy.copy(stmt)
        new.body, end = self._block(stmt.body, repeats or (kind == "unroll" and in_loop))
        if kind == "unroll":
            if not in_loop:
                new.body = [self._unless_returned(stmt, new.body)]
            return [new], _End.EITHER  # in a loop, each round of it has left that loop
        if repeats:
            end = _End.RETURNS if _is_endless(stmt) else _End.EITHER
        if not in_loop:
            return [new], end
        leave = _at(stmt, Leave())
        return [new, leave if end is _End.RETURNS else self._if_returned(stmt, [leave])], end

    def _if_returned(self, origin: ast.stmt, body: list[ast.stmt]) -> ast.If:
        self.tested = True
        return _at(origin, ast.If(_at(origin, ast.Name(RETURNED, ast.Load())), body, []))

    def _unless_returned(self, origin: ast.stmt, body: list[ast.stmt]) -> ast.If:
        branch = self._if_returned(origin, body)
        branch.test = _at(origin, ast.UnaryOp(ast.Not(), branch.test))
        return branch


_Node = TypeVar("_Node", bound=ast.AST)


def _at(origin: ast.stmt, node: _Node) -> _Node:
    return ast.copy_location(node, origin)


def _is_last_of_all(stmt: Any, kind: str) -> bool:
    """Whether all blocks of a `pl.spmd` end with the same `return`, after which nothing follows."""
    return kind == "spmd" and not any(_has_return(inner) for inner in stmt.body if not isinstance(inner, ast.Return))


def _misplaced(stmt: Any, kind: str) -> Any:
    if isinstance(stmt, ast.Return):
        return _at(stmt, Misplaced(kind))
    new = copy.copy(stmt)
    for field in ("body", "orelse"):
        if hasattr(stmt, field) and _has_return(stmt):
            setattr(new, field, [_misplaced(inner, kind) for inner in getattr(stmt, field)])
    return new


def joined(builder: Builder) -> Value:
    """What the function that was just read returns: what each of its names holds at the end."""
    frame = builder.frame
    if not frame.given:  # each was refused, or the function certainly ends without
        return POISON if result_name(0) in frame.names else NONE
    (first, count), *others = frame.given.items()
    for node, other in others:
        if other != count:
            here, there = _count_text(other), _count_text(count)
            line = builder.loc(first).line
            builder.fail(
                "value",
                f"this path returns {here}, the one that ends in line {line} {there}",
                node,
                "return as many values on every path",
            )
    if count == 0:
        return NONE
    values = [frame.names.get(result_name(i), POISON) for i in range(1 if count is None else count)]
    for value in values:
        if isinstance(value, Ambiguous):
            hint = "return the same kind of value on every path"
            builder.fail("type", value.text, frame.returned or frame.source.node, hint)
        if isinstance(value, Poison):
            return POISON
    values = [root(builder, value) if isinstance(value, Var) and value.is_tensor else value for value in values]
    return values[0] if count is None else tuple(values)


def _count_text(count: int | None) -> str:
    return "nothing" if count == 0 else "one value" if count is None else f"a tuple of {count}"
