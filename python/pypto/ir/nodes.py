"""The nodes of the IR: functions of statements over variables.

Names of the source are resolved: a variable is one place that holds a value. Most are assigned once; a variable that
several statements assign (carried by a loop, merged after an `if`) is `mutable`. Operations are those of the language's
table, already typed, with every tensor operand loaded; scalars are expression trees (`exprs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from pypto.ir.diagnostics import NOWHERE, Loc
from pypto.ir.exprs import Dim, Expr, ScalarVar, Symbol
from pypto.ir.types import TensorType, TileType, ValueType
from pypto.language.dtypes import DataType
from pypto.language.enums import FunctionType


class Var:
    """A variable that holds a tensor (a view of device memory) or a tile. Compared by identity.

    `forward` is set where two variables turned out to be one: `resolve` follows it. `untracked` marks an argument under
    `pl.no_dep`: the variable itself says so, and forwards to the tensor.
    """

    __slots__ = ("forward", "loc", "mutable", "name", "type", "untracked")

    def __init__(self, name: str, type: ValueType, loc: Loc = NOWHERE, mutable: bool = False) -> None:
        self.name = name
        self.type = type
        self.loc = loc
        self.mutable = mutable
        self.forward: Var | None = None
        self.untracked = False

    def resolve(self) -> Var:
        """The variable that this one stands for."""
        var = self
        while var.forward is not None:
            var = var.forward
        return var

    @property
    def is_tensor(self) -> bool:
        """Whether it is device memory."""
        return isinstance(self.type, TensorType)

    @property
    def tile(self) -> TileType:
        """The type of a tile variable."""
        assert isinstance(self.type, TileType), f"{self.name} is not a tile"
        return self.type

    @property
    def tensor(self) -> TensorType:
        """The type of a tensor variable."""
        assert isinstance(self.type, TensorType), f"{self.name} is not a tensor"
        return self.type

    def __repr__(self) -> str:
        return f"Var({self.name})"


def untracked(var: Var) -> Var:
    """A tensor as an argument that no task waits for."""
    hidden = Var(var.name, var.type, var.loc)
    hidden.forward, hidden.untracked = var, True
    return hidden


Operand: TypeAlias = Var | Expr | tuple[Any, ...]
"""An argument of an operation: a variable, a scalar, or a tuple of scalars (offsets, extents)."""


@dataclass(slots=True)
class Let:
    """`var = value` of scalars."""

    var: ScalarVar
    value: Expr
    loc: Loc


@dataclass(slots=True)
class OpStmt:
    """`out = op(args)` by an operation of the table. `attrs` are constant keywords; reads have a scalar `out`."""

    op: str
    out: Var | ScalarVar | None
    args: tuple[Operand, ...]
    loc: Loc
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class TaskVar:
    """A place for task ids: one, or `extent` of them. Compared by identity."""

    name: str
    extent: int = 1


@dataclass(frozen=True, slots=True)
class TaskRef:
    """Task ids of a variable: the one at `index`, or all."""

    var: TaskVar
    index: Expr | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What the source declares about the order of a task. Results do not depend on it; sanitizers do.

    `out` is where its id goes, `deps` what it waits for. In a `manual` scope it waits for nothing else. `no_dep` are
    tensors of a region that it waits for nobody for; of a call the arguments say so themselves.
    """

    out: TaskRef | None = None
    deps: tuple[TaskRef, ...] = ()
    manual: bool = False
    no_dep: tuple[Var, ...] = ()


@dataclass(slots=True)
class TaskStmt:
    """A statement about task ids.

    `kind` is `assign` (`out` becomes the only one of `deps`, or the id of no task), or `dummy` (a task that only waits
    for `deps`).
    """

    kind: str
    out: TaskRef
    deps: tuple[TaskRef, ...]
    loc: Loc


@dataclass(slots=True)
class CallStmt:
    """Launches a kernel as one task of `blocks` blocks."""

    callee: Function
    args: tuple[Var | Expr, ...]
    blocks: Expr
    loc: Loc
    order: Order = Order()


@dataclass(slots=True)
class ScopeStmt:
    """A region that becomes one kernel (`pl.at`, `pl.spmd`): `blocks` is not `None` for the latter."""

    name: str
    blocks: Expr | None
    body: list[Stmt]
    loc: Loc
    order: Order = Order()


@dataclass(slots=True)
class ForStmt:
    """A counted loop. `kind` is what the source says: `range`, `parallel` or `pipeline`."""

    var: ScalarVar
    start: Expr
    stop: Expr
    step: Expr
    kind: str
    body: list[Stmt]
    loc: Loc


@dataclass(slots=True)
class WhileStmt:
    """`head` computes what `cond` reads, before each round."""

    head: list[Stmt]
    cond: Expr
    body: list[Stmt]
    loc: Loc


@dataclass(slots=True)
class IfStmt:
    """A branch on a truth value."""

    cond: Expr
    then: list[Stmt]
    orelse: list[Stmt]
    loc: Loc


@dataclass(slots=True)
class BreakStmt:
    """Leaves the innermost loop."""

    loc: Loc


@dataclass(slots=True)
class ContinueStmt:
    """Goes on with the next round of the innermost loop."""

    loc: Loc


Stmt: TypeAlias = (
    Let | OpStmt | TaskStmt | CallStmt | ScopeStmt | ForStmt | WhileStmt | IfStmt | BreakStmt | ContinueStmt
)


@dataclass(slots=True)
class Param:
    """A parameter.

    `var` is a `Var` for tensors, a `Symbol` for an extent that outlining passes on. `direction` is as declared, `In`
    where the source says nothing. `baked` holds the value of a scalar that was fixed at compile time: the parameter
    remains, what is passed is ignored.
    """

    name: str
    var: Var | ScalarVar | Symbol
    direction: str
    loc: Loc
    declared: bool = False
    baked: Any = None


@dataclass(slots=True)
class Function:
    """A function.

    Attributes:
        name: Its name.
        kind: What runs it: a core, or who says which tasks there are.
        params: Its parameters, in order.
        body: Its statements.
        returns: The parameters, or fresh outputs, that it returns.
        loc: Where it is declared.
        symbols: The dynamic extents that it uses.
        attrs: What decorators say besides.
        left_out: Outputs that source uses which is in no program of these constants: why, and what to write.
    """

    name: str
    kind: FunctionType
    params: list[Param]
    body: list[Stmt]
    returns: list[Var]
    loc: Loc
    symbols: list[Symbol] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, tuple[str, str]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def func_type(self) -> FunctionType:
        """The kind, under its public name."""
        return self.kind

    @property
    def requires_runtime_binding(self) -> bool:
        """Whether its body is `...`, so that a launch must give a Python function for it."""
        return bool(self.attrs.get("stub"))

    @property
    def return_types(self) -> list[ValueType]:
        """The types of what it returns."""
        return [var.type for var in self.returns]

    def as_python(self, concise: bool = False) -> str:
        """The function as DSL text that parses back; `concise` leaves out the import above it."""
        from pypto.ir.printer import print_function

        return print_function(self, concise=concise)


@dataclass(slots=True)
class Program:
    """Functions of which a launch runs one.

    Attributes:
        name: Its name.
        functions: By name, callers after callees.
        entry_name: What a launch runs; `None` where the program leaves it open.
        loc: Where it is declared.
        entry_names: The candidates, where it is left open.
    """

    name: str
    functions: dict[str, Function]
    entry_name: str | None
    loc: Loc = NOWHERE
    entry_names: list[str] = field(default_factory=list)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """What a class of `@pl.program` is called for: it is compiled first."""
        raise TypeError(
            f"a program is compiled before it runs: compiled = pypto.ir.compile({self.name}); compiled(...)"
        )

    def entries(self) -> list[Program]:
        """One program for each function that a launch may run."""
        if self.entry_name is not None:
            return [self]
        return [Program(name, dict(self.functions), name, self.loc) for name in self.entry_names]

    def get_function(self, name: str) -> Function | None:
        """The function called `name`, or `None`."""
        return self.functions.get(name)

    @property
    def entry(self) -> Function:
        """The function that a launch runs.

        Raises:
            ValueError: The program does not say which.
        """
        if self.entry_name is None:
            raise ValueError(
                f"program {self.name!r} has no single entry among {', '.join(self.functions)}: mark one function with "
                f"@pl.function(type=pl.FunctionType.Orchestration)"
            )
        return self.functions[self.entry_name]

    def as_python(self, concise: bool = False) -> str:
        """The program as DSL text that parses back; `concise` leaves out the import above it."""
        from pypto.ir.printer import print_program

        return print_program(self, concise=concise)


def children(stmt: Stmt) -> tuple[list[Stmt], ...]:
    """The blocks inside a statement."""
    if isinstance(stmt, (ScopeStmt, ForStmt)):
        return (stmt.body,)
    if isinstance(stmt, WhileStmt):
        return stmt.head, stmt.body
    if isinstance(stmt, IfStmt):
        return stmt.then, stmt.orelse
    return ()


def with_blocks(stmt: Stmt, change: Callable[[list[Stmt]], list[Stmt]]) -> Stmt:
    """A loop or a branch with each of its blocks changed; any other statement, scopes too, as it is."""
    if isinstance(stmt, ForStmt):
        return ForStmt(stmt.var, stmt.start, stmt.stop, stmt.step, stmt.kind, change(stmt.body), stmt.loc)
    if isinstance(stmt, WhileStmt):
        return WhileStmt(change(stmt.head), stmt.cond, change(stmt.body), stmt.loc)
    if isinstance(stmt, IfStmt):
        return IfStmt(stmt.cond, change(stmt.then), change(stmt.orelse), stmt.loc)
    return stmt


def walk(body: list[Stmt]) -> Iterator[Stmt]:
    """Every statement, outer before inner."""
    stack: list[Stmt] = list(reversed(body))
    while stack:
        stmt = stack.pop()
        yield stmt
        for block in reversed(children(stmt)):
            stack.extend(reversed(block))


__all__ = [
    "BreakStmt",
    "CallStmt",
    "ContinueStmt",
    "DataType",
    "Dim",
    "ForStmt",
    "Function",
    "IfStmt",
    "Let",
    "Loc",
    "OpStmt",
    "Operand",
    "Order",
    "Param",
    "Program",
    "ScopeStmt",
    "Stmt",
    "TaskRef",
    "TaskStmt",
    "TaskVar",
    "Var",
    "WhileStmt",
    "children",
    "untracked",
    "walk",
    "with_blocks",
]
