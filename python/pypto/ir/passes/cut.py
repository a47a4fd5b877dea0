"""A kernel with barriers as a tree: pieces that hold none, and the loops and branches around them.

A loop or a branch with a barrier in it leaves the kernel and becomes one of the code that launches it. What decides
there (how many rounds, which arm, whether to leave) is computed by the piece before. On the real chip the blocks of a
kernel that disagree about it wait for each other for ever; here block 0 decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pypto.ir.diagnostics import Loc
from pypto.ir.effects import VIEWS
from pypto.ir.exprs import Const, Expr, ScalarOp, ScalarVar, binary, depends_on_mutable, index, unary
from pypto.ir.nodes import (
    BreakStmt,
    ContinueStmt,
    ForStmt,
    IfStmt,
    Let,
    Operand,
    OpStmt,
    Stmt,
    Var,
    WhileStmt,
    children,
    walk,
)
from pypto.language.dtypes import INDEX


@dataclass(slots=True, eq=False)
class Piece:
    """Statements that every block runs before any block goes on.

    `loops` are the cut loops around it, outermost first, `counters` the numbers of the rounds of those that count.
    """

    body: list[Stmt]
    number: int
    loops: tuple[int, ...]
    counters: tuple[ScalarVar, ...]

    def follows(self, other: Piece) -> bool:
        """Whether what `other` computed may be there when this piece runs."""
        return other.number < self.number or (bool(self.loops) and self.loops[:1] == other.loops[:1])


@dataclass(slots=True)
class Counted:
    """A loop of `count` rounds, which `counter` numbers from 0."""

    counter: ScalarVar
    count: Expr
    body: list[Node]
    loc: Loc


@dataclass(slots=True)
class Repeated:
    """A loop that goes on while `cond` holds, which `head` computes before each round."""

    head: list[Node]
    cond: Expr
    body: list[Node]
    loc: Loc


@dataclass(slots=True)
class Chosen:
    """A branch."""

    cond: Expr
    then: list[Node]
    orelse: list[Node]
    loc: Loc


Node: TypeAlias = Piece | Counted | Repeated | Chosen | BreakStmt | ContinueStmt


def is_barrier(stmt: Stmt) -> bool:
    """Whether a statement is `syncall`."""
    return isinstance(stmt, OpStmt) and stmt.op == "syncall"


class Cutter:
    """Cuts one body. `pieces` are its pieces in the order of the text, `decisions` what the launching code reads."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.decisions: dict[ScalarVar, None] = {}
        self._loops = 0

    def cut(
        self,
        body: list[Stmt],
        loops: tuple[int, ...] = (),
        counters: tuple[ScalarVar, ...] = (),
        first: tuple[Stmt, ...] = (),
    ) -> list[Node]:
        """The body as nodes. `first` goes before its first statement."""
        nodes: list[Node] = []
        pending: list[Stmt] = list(first)

        def close() -> None:
            if pending:
                piece = Piece(list(pending), len(self.pieces), loops, counters)
                self.pieces.append(piece)
                nodes.append(piece)
                pending.clear()

        for stmt in body:
            if is_barrier(stmt):
                close()
            elif isinstance(stmt, (BreakStmt, ContinueStmt)):
                close()
                nodes.append(stmt)
            elif not _is_cut(stmt):
                pending.append(stmt)
            elif isinstance(stmt, ForStmt):
                start = _kept(stmt.start, f"{stmt.var.name}_start", stmt.loc, pending)
                step = _kept(stmt.step, f"{stmt.var.name}_step", stmt.loc, pending)
                # ceil((stop - start) / step), for steps of either sign
                behind = binary("floordiv", binary("sub", start, stmt.stop, INDEX), step, INDEX)
                rounds = binary("max", unary("neg", behind, INDEX), index(0), INDEX)
                count = self._decide(rounds, f"{stmt.var.name}_rounds", stmt.loc, pending)
                close()
                counter = ScalarVar(f"{stmt.var.name}_round", INDEX)
                here = binary("add", start, binary("mul", counter, step, INDEX), INDEX)
                inner = self.cut(stmt.body, self._inside(loops), (*counters, counter), (Let(stmt.var, here, stmt.loc),))
                nodes.append(Counted(counter, count, inner, stmt.loc))
            elif isinstance(stmt, WhileStmt):
                close()
                inside = self._inside(loops)
                lets: list[Stmt] = []
                cond = self._decide(stmt.cond, "goes_on", stmt.loc, lets)
                head = self.cut([*stmt.head, *lets], inside, counters)
                nodes.append(Repeated(head, cond, self.cut(stmt.body, inside, counters), stmt.loc))
            elif isinstance(stmt, IfStmt):
                cond = self._decide(stmt.cond, "taken", stmt.loc, pending)
                close()
                then = self.cut(stmt.then, loops, counters)
                nodes.append(Chosen(cond, then, self.cut(stmt.orelse, loops, counters), stmt.loc))
            else:
                raise AssertionError(f"a barrier inside {type(stmt).__name__}")
        close()
        return nodes

    def _inside(self, loops: tuple[int, ...]) -> tuple[int, ...]:
        self._loops += 1
        return (*loops, self._loops)

    def _decide(self, value: Expr, name: str, loc: Loc, pending: list[Stmt]) -> Expr:
        kept = _kept(value, name, loc, pending)
        if isinstance(kept, ScalarVar):
            self.decisions[kept] = None
        return kept


def _kept(value: Expr, name: str, loc: Loc, pending: list[Stmt]) -> Expr:
    """`value` as it is at the end of `pending`."""
    if isinstance(value, Const):
        return value
    var = ScalarVar(name, value.dtype)
    pending.append(Let(var, value, loc))
    return var


def _is_cut(stmt: Stmt) -> bool:
    """Whether a statement cannot be part of a piece: a barrier is in it, or it leaves a loop that is cut."""
    return any(is_barrier(inner) for inner in walk([stmt])) or (isinstance(stmt, IfStmt) and _leaves(stmt))


def _leaves(stmt: Stmt) -> bool:
    if isinstance(stmt, (BreakStmt, ContinueStmt)):
        return True
    return isinstance(stmt, IfStmt) and any(_leaves(inner) for block in children(stmt) for inner in block)


def with_fixed_views(body: list[Stmt]) -> list[Stmt]:
    """The body with every view in terms of scalars that keep their value, so that it can be made again later."""
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, OpStmt) and stmt.op in VIEWS and isinstance(stmt.out, Var) and stmt.out.is_tensor:
            args = tuple(_fixed(arg, stmt, result) for arg in stmt.args)
            result.append(OpStmt(stmt.op, stmt.out, args, stmt.loc, stmt.attrs))
        elif isinstance(stmt, ForStmt):
            inner = with_fixed_views(stmt.body)
            result.append(ForStmt(stmt.var, stmt.start, stmt.stop, stmt.step, stmt.kind, inner, stmt.loc))
        elif isinstance(stmt, WhileStmt):
            result.append(WhileStmt(with_fixed_views(stmt.head), stmt.cond, with_fixed_views(stmt.body), stmt.loc))
        elif isinstance(stmt, IfStmt):
            result.append(IfStmt(stmt.cond, with_fixed_views(stmt.then), with_fixed_views(stmt.orelse), stmt.loc))
        else:
            result.append(stmt)
    return result


def _fixed(arg: Operand | int, stmt: OpStmt, before: list[Stmt]) -> Operand:
    if isinstance(arg, tuple):
        return tuple(_fixed(item, stmt, before) for item in arg)
    if isinstance(arg, (ScalarVar, ScalarOp)) and depends_on_mutable(arg):
        return _kept(arg, "at", stmt.loc, before)
    return arg  # type: ignore[return-value]  # extents in a tuple may be ints
