"""A branch or a loop while it is read: what it needs, what was found, and how to read it again."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pypto.frontend.moves import Move
from pypto.frontend.values import Value
from pypto.ir.effects import defined
from pypto.ir.exprs import Dim, ScalarVar
from pypto.ir.nodes import BreakStmt, ContinueStmt, IfStmt, OpStmt, Stmt, Var, walk

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader


@dataclass(slots=True)
class Needs:
    """What a loop was found to need while it was read, by name: then it is read again.

    `wide`: the validity of a tile changes, so that it is carried too. `loaded`: the name starts as device memory and
    becomes an on-chip value. `late`: the name is read on a path that only later rounds take, and gets its first value
    inside the loop (`if k == 0: acc = ... else: acc = f(acc)`); the value is a sample of its type. `anew`: the name has
    a value that a finished block left, and means something else here (branches have this need too).
    """

    wide: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    late: dict[str, Value] = field(default_factory=dict)
    anew: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.wide or self.loaded or self.late or self.anew)

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.wide | other.wide, self.loaded | other.loaded, self.late | other.late, self.anew | other.anew)


@dataclass(slots=True)
class Carried:
    """A tensor variable that a loop carries: what it is before the loop, and what assigns it, each in its block."""

    home: Var
    entry: Var
    moves: list[tuple[list[Stmt], OpStmt]]

    def stays(self) -> bool:
        """Whether all that assigns it leaves it what it was."""
        entry = self.entry.resolve()
        return all(isinstance(value := stmt.args[0], Var) and value.resolve() is entry for _, stmt in self.moves)


class ReadAgain(Exception):
    """`region` is to be read again, from its start."""

    def __init__(self, region: Region, needs: Needs) -> None:
        self.region = region
        self.needs = needs


@dataclass(slots=True, kw_only=True)
class Region:
    """A branch or a loop being read.

    `left` are the names whose values before it come from finished blocks. `yields` says that `pl.yield_` has a meaning,
    `yielded` what it gave. `decided` says that it is the one arm that a known condition leaves: its statements stand
    in the block around it, and what it yields belongs to its names, not to the loop around it. `introduced` are names
    whose home is only where the first arm of a branch has them.
    """

    left: frozenset[str]
    yields: bool = True
    decided: bool = False
    introduced: set[str] = field(default_factory=set)
    yielded: tuple[Value, ...] | None = None


class Start:
    """Where a branch or a loop begins, to read it again from there."""

    def __init__(self, reader: Reader) -> None:
        builder = reader.builder
        self.reader = reader
        self.names = dict(builder.frame.names)
        self.where = dict(builder.frame.where)
        self.mark, self.mistakes = len(builder.block), len(builder.diagnostics)
        self.refused = reader.library.refused

    def left(self) -> frozenset[str]:
        """Names whose values come from blocks that are finished."""
        is_open = self.reader.builder.is_open
        return frozenset(name for name in self.names if name in self.where and not is_open(self.where[name]))

    def again(self, needs: Needs) -> None:
        """Goes back. Names that mean something else in the region have no value there."""
        builder = self.reader.builder
        for name in needs.anew:
            self.names.pop(name, None)
        del builder.block[self.mark :]
        del builder.diagnostics[self.mistakes :]
        self.reader.library.refused = self.refused
        builder.frame.where = dict(self.where)
        builder.restore(self.names)


@dataclass(slots=True)
class LoopState(Region):
    """A loop being read; it yields if it has `init_values`.

    `level` is where it stands, a kernel or orchestration code, `kind` the iterator of `pl`. `homes` are the places of
    the names that it carries; `entries` what those that are tensors held before, `moved` the statements that assign
    them in a round, each in its block.
    `assigned` are the names that the body assigns, `depth` how many branches and loops are around it; `wanted` are
    names that it reads before the text assigns them. `results` are what a `return` in it gives, of what has no home,
    and `before` what names mean before the loop.
    """

    node: ast.stmt
    level: str
    kind: str = "range"
    homes: dict[str, Var | ScalarVar] = field(default_factory=dict)
    entries: dict[str, Var] = field(default_factory=dict)
    moved: dict[Var, list[tuple[list[Stmt], OpStmt]]] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    depth: int = 0
    wanted: dict[str, ast.Name] = field(default_factory=dict)
    results: dict[str, Value] = field(default_factory=dict)
    before: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Arm:
    """One arm of a branch: its statements, and what the assigned names mean at its end."""

    block: list[Stmt]
    values: dict[str, Value | None]
    moves: list[Move] = field(default_factory=list)
    keep: list[tuple[str, Value]] = field(default_factory=list)

    @property
    def leaves(self) -> bool:
        """Whether it ends with `break` or `continue`, so that nothing of it reaches what follows."""
        return leaves(self.block)

    def names(self, dims: tuple[Dim, ...]) -> bool:
        """Whether some of these extents have their names in this arm, and no value where it did not run."""
        fixed = {dim for dim in dims if isinstance(dim, ScalarVar) and not dim.mutable}
        return any(defined(stmt) in fixed for stmt in walk(self.block)) if fixed else False


def leaves(block: list[Stmt]) -> bool:
    """Whether a block ends with `break` or `continue` on every path."""
    last = block[-1] if block else None
    if isinstance(last, IfStmt):
        return leaves(last.then) and leaves(last.orelse)
    return isinstance(last, (BreakStmt, ContinueStmt))
