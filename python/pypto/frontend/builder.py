"""The state of one function while its source is read: where statements go, what names mean, what went wrong.

`Builder` is what the other modules of this package work on; it knows nothing of syntax.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pypto.frontend.assigned import is_result
from pypto.frontend.namespace import Namespace
from pypto.frontend.source import Source
from pypto.frontend.values import POISON, Poison, PyValue, Value, is_task_id
from pypto.ir.diagnostics import Diagnostic, Loc
from pypto.ir.exprs import Const, Dim, Expr, ScalarVar, Symbol, cast, depends_on_mutable, to_dim
from pypto.ir.nodes import Let, Operand, OpStmt, Stmt, TaskRef, TaskStmt, TaskVar, Var
from pypto.ir.types import TileType, ValueType
from pypto.language.annotations import DynVar
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.frontend.left_out import LeftOut

Chain: TypeAlias = tuple[tuple[str, Loc], ...]
"""Functions that are being read, outermost first, with the place of each call."""


class Refused(Exception):
    """A statement was refused; its diagnostic is recorded. Caught where statements are read, which then goes on."""


@dataclass(slots=True)
class Frame:
    """One function body being read: the outermost one, or one that is spliced into it.

    `where` says in which block a name was last assigned; `baked` names the scalar parameters whose value was fixed;
    `conditional` counts the branches and loops around the current statement; `result` is what `return` gave, `returned`
    the statement, and `given` of each `return` on some path how many values it gives (`None` for one that is no tuple).
    `unsure` holds names whose value is missing on some path, with the place that may be skipped;
    `seen` what a name last got anywhere in the function; `lanes` names that have a value in each vector lane;
    `tasks` where the names of task ids keep them; `hidden` are names that a loop or branch with yields keeps inside;
    `unrolled` says of each `pl.unroll` around the current statement how many loops are around that;
    `left_out` are arms of branches that known conditions leave out.
    """

    source: Source
    namespace: Namespace
    names: dict[str, Value] = field(default_factory=dict)
    dynamic: dict[DynVar, Dim] = field(default_factory=dict)
    methods: dict[str, Any] | None = None
    where: dict[str, list[Stmt]] = field(default_factory=dict)
    baked: frozenset[str] = frozenset()
    result: Value | None = None
    returned: ast.Return | None = None
    given: dict[ast.stmt, int | None] = field(default_factory=dict)
    conditional: int = 0
    unsure: dict[str, tuple[Value, Loc]] = field(default_factory=dict)
    seen: dict[str, Value] = field(default_factory=dict)
    lanes: set[str] = field(default_factory=set)
    tasks: dict[str, TaskVar] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    unrolled: list[int] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


class Builder:
    """One function being built.

    `level` is `orchestration` or `kernel`; `pl.at` raises it to `kernel` for its body; `manual` says that a manual
    scope is open. `users` counts how many names hold a variable, which decides whether it may be assigned in place.
    `around` are the blocks around the current one. `explicit` text has every statement already (`explicit.py`).
    `dump_tags` are the tensors that the source marks for dumps. `placeholders` are variables that hold any memory until
    a path gives them a value, with the statement that says so.
    """

    def __init__(self, frame: Frame, level: str, name: str, diagnostics: list[Diagnostic], chain: Chain) -> None:
        self.frame = frame
        self.level = level
        self.name = name
        self.block: list[Stmt] = []
        self.around: list[list[Stmt]] = []
        self.diagnostics = diagnostics
        self.chain = chain
        self.users: dict[Var, int] = {}
        self.homes: dict[str, Var | ScalarVar] = {}
        self.fresh = 0
        self.manual = False
        self.explicit = False
        self.dump_tags: list[Var] = []
        self.placeholders: dict[Var, OpStmt] = {}

    # Places and errors.

    def loc(self, node: ast.AST) -> Loc:
        """Where a node of the current frame stands."""
        return self.frame.source.loc(node)

    def report(self, kind: str, message: str, node: ast.AST | Loc, hint: str) -> None:
        """Records a mistake and goes on."""
        loc = node if isinstance(node, Loc) else self.loc(node)
        self.diagnostics.append(Diagnostic(kind, message, loc, hint, self.chain))

    def fail(self, kind: str, message: str, node: ast.AST | Loc, hint: str) -> NoReturn:
        """Records a mistake and leaves the statement."""
        self.report(kind, message, node, hint)
        raise Refused

    # Names.

    def bind(self, name: str, value: Value) -> None:
        """Makes `name` mean `value` in the current frame. A name of a task id has a place of its own for it."""
        if self.level == "orchestration" and is_task_id(value):
            own = TaskRef(self.frame.tasks.setdefault(name, TaskVar(name)))
            if value.ids != own:
                self.emit(
                    TaskStmt("assign", own, () if value.ids is None else (value.ids,), self.loc(self.frame.source.node))
                )
            value = PyValue(value.obj, own)
        names, users = self.frame.names, self.users
        for var in _variables(names.get(name)):
            users[var] -= 1
        for var in _variables(value):
            users[var] = users.get(var, 0) + 1
        names[name] = value

    def unbind(self, name: str) -> None:
        """Makes `name` mean nothing in the current frame."""
        for var in _variables(self.frame.names.pop(name, None)):
            self.users[var] -= 1

    def hide(self, names: Iterable[str]) -> None:
        """Ends the meaning of names that were introduced where `pl.yield_` says what is visible afterwards."""
        for name in itertools.filterfalse(is_result, names):
            self.unbind(name)
            self.frame.hidden.add(name)

    def restore(self, names: dict[str, Value]) -> None:
        """Makes the names of the current frame mean what they meant in a copy of them."""
        current = self.frame.names
        for name in [name for name in current if name not in names]:
            self.unbind(name)
        for name, value in names.items():
            if current.get(name) is not value:
                self.bind(name, value)

    # Statements.

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the current block."""
        self.block.append(stmt)

    @contextmanager
    def into(self, block: list[Stmt]) -> Iterator[list[Stmt]]:
        """Emits into `block` for a while."""
        outer, self.block = self.block, block
        self.around.append(outer)
        try:
            yield block
        finally:
            self.around.pop()
            self.block = outer

    def is_open(self, block: list[Stmt]) -> bool:
        """Whether statements still go to `block`, now or after what is being read."""
        return block is self.block or any(block is outer for outer in self.around)

    def unique(self, base: str) -> str:
        """A name for a value that the source does not name."""
        self.fresh += 1
        return f"{base}_{self.fresh}"

    def let(self, value: Expr, node: ast.AST | Loc, name: str = "s") -> Expr:
        """A variable that keeps `value` as it is now; constants and unchanging values stay what they are."""
        if isinstance(value, (Const, Symbol)) or (isinstance(value, ScalarVar) and not value.mutable):
            return value
        var = ScalarVar(self.unique(name), value.dtype, None if depends_on_mutable(value) else value)
        self.emit(Let(var, value, node if isinstance(node, Loc) else self.loc(node)))
        return var

    def detach(self, value: Value, node: ast.AST | Loc) -> Value:
        """`value` as it is now: a scalar, or the task id of a name, that may change is copied, also inside a tuple."""
        if isinstance(value, ScalarVar) and value.mutable:
            return self.let(value, node, value.name)
        if isinstance(value, PyValue) and value.ids is not None and value.ids.var in self.frame.tasks.values():
            now = TaskRef(TaskVar(self.unique("task")))
            self.emit(TaskStmt("assign", now, (value.ids,), node if isinstance(node, Loc) else self.loc(node)))
            return PyValue(value.obj, now)
        if isinstance(value, tuple):
            return tuple(self.detach(item, node) for item in value)
        return value

    def op(
        self,
        name: str,
        type: ValueType | None,
        args: tuple[Operand, ...],
        node: ast.AST | Loc,
        attrs: dict[str, Any] | None = None,
        hint: str = "t",
    ) -> Var:
        """Emits an operation; the result is a new variable of `type` (for `None` the result is not to be used)."""
        loc = node if isinstance(node, Loc) else self.loc(node)
        if (
            not self.explicit
            and isinstance(type, TileType)
            and any(isinstance(part, ScalarVar) and part.mutable for part in type.valid)
        ):
            # An operand carries its validity in variables that change with it; the result keeps its own.
            valid = tuple(part if isinstance(part, int) else self.let(part, loc, "n") for part in type.valid)
            type = replace(type, valid=valid)  # type: ignore[arg-type]  # a runtime extent is no constant
        out = None if type is None else Var(self.unique(hint), type, loc)
        self.emit(OpStmt(name, out, args, loc, attrs or {}))
        return out  # type: ignore[return-value]

    def dim(self, value: Expr, node: ast.AST) -> Dim:
        """An extent for a type: an int, or something that never changes afterwards."""
        dim = to_dim(value)
        if isinstance(dim, int) or self.explicit:  # explicit text gives it a name, and the type of the result
            return dim
        # A kernel takes extents as INDEX alone: as text an INT32 one would be a scalar of the author's, and no extent.
        return self.let(cast(dim, INDEX), node, "n")  # type: ignore[return-value]  # not constant

    # Symbols.

    def symbol_of(self, var: DynVar, node: ast.AST) -> Dim:
        """What a dynamic extent means here."""
        found = self.frame.dynamic.get(var)
        if found is None:
            self.fail(
                "value",
                f"{var!r} is no extent of a parameter of {self.frame.source.node.name!r}, so it has no value",
                node,
                f"use it in an annotation (pl.Tensor[[{var.name}, 64], ..]) or write x.bind_dynamic(0, {var.name})",
            )
        return found


def _variables(value: Value | None) -> Iterator[Var]:
    if isinstance(value, Var):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _variables(item)


def usable(builder: Builder, value: Value) -> Value:
    """`value`, or leaves the statement silently where an earlier mistake already explains it."""
    if isinstance(value, Poison):
        raise Refused
    return value


__all__ = ["POISON", "Builder", "Frame", "Refused", "usable"]
