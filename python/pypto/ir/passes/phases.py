"""Barriers: a kernel with `syncall` becomes one kernel for each phase, launched one after the other.

The real chip runs all blocks of such a kernel at once and lets them wait for each other. Here a launch already waits
for what an earlier one wrote, so that cutting the kernel at its barriers gives the same results with any number of
cores, in a fixed order, and without blocks that must all be alive together. The price is that values which live across
a barrier wait in device memory, one row for each block; views are made again instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.ir.diagnostics import Diagnostic, Loc, error_for
from pypto.ir.effects import VIEWS, Name, leaves
from pypto.ir.exprs import ScalarOp, ScalarVar, Symbol, binary, index, of_dim, to_dim
from pypto.ir.nodes import (
    CallStmt,
    ForStmt,
    Function,
    IfStmt,
    OpStmt,
    Param,
    Program,
    Stmt,
    Var,
    WhileStmt,
    walk,
)
from pypto.ir.passes.cells import cell_dtype, put, take
from pypto.ir.passes.names import unused
from pypto.ir.passes.survey import Unit, survey
from pypto.ir.types import TensorType
from pypto.language.dtypes import INDEX

_BLOCK = ScalarOp("block_idx", (), INDEX)


def is_barrier(stmt: Stmt) -> bool:
    """Whether a statement is `syncall`."""
    return isinstance(stmt, OpStmt) and stmt.op == "syncall"


def split_phases(program: Program) -> Program:
    """The program without barriers. Scopes are outlined before. The given program is not changed."""
    split = {
        id(function): _Splitter(function)
        for function in program.functions.values()
        if function.kind.is_kernel and any(is_barrier(stmt) for stmt in walk(function.body))
    }
    if not split:
        return program
    functions: dict[str, Function] = {}
    for function in program.functions.values():
        splitter = split.get(id(function))
        if splitter is None:
            body = _rewrite(function.body, split)
            functions[function.name] = Function(
                function.name,
                function.kind,
                function.params,
                body,
                function.returns,
                function.loc,
                function.symbols,
                function.attrs,
            )
            continue
        for phase in splitter.phases:
            phase.name = unused(phase.name, functions, program)
            functions[phase.name] = phase
    return Program(program.name, functions, program.entry_name, program.loc, program.entry_names)


def _rewrite(body: list[Stmt], split: dict[int, _Splitter]) -> list[Stmt]:
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, CallStmt) and id(stmt.callee) in split:
            result.extend(split[id(stmt.callee)].launch(stmt))
        elif isinstance(stmt, ForStmt):
            inner = _rewrite(stmt.body, split)
            result.append(ForStmt(stmt.var, stmt.start, stmt.stop, stmt.step, stmt.kind, inner, stmt.loc))
        elif isinstance(stmt, WhileStmt):
            result.append(WhileStmt(_rewrite(stmt.head, split), stmt.cond, _rewrite(stmt.body, split), stmt.loc))
        elif isinstance(stmt, IfStmt):
            result.append(IfStmt(stmt.cond, _rewrite(stmt.then, split), _rewrite(stmt.orelse, split), stmt.loc))
        else:
            result.append(stmt)
    return result


@dataclass(slots=True)
class _Part:
    body: list[Stmt]
    unit: Unit
    incoming: dict[Name, None]


class _Splitter:
    """One kernel, cut at its barriers."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.views: dict[Var, OpStmt] = {}
        self.waiting: dict[Name, Var] = {}
        known: set[Name] = {param.var for param in function.params}
        earlier: dict[Name, None] = {}
        parts: list[_Part] = []
        for body in self._cut():
            unit = survey(body)
            self._remember_views(body)
            incoming: dict[Name, None] = {}
            for name in unit.exposed:
                if name not in known:
                    self._need(name, earlier, incoming)
            parts.append(_Part(body, unit, incoming))
            earlier.update(unit.assigned)
        self.blocks = Symbol("blocks")
        for part in parts:
            for name in part.incoming:
                if not self._is_view(name):
                    self.waiting.setdefault(name, Var(f"{name.name}_waits", self._memory(name), function.loc))
        self.phases = [self._phase(number, part, parts[number + 1 :]) for number, part in enumerate(parts)]

    def _cut(self) -> list[list[Stmt]]:
        pieces: list[list[Stmt]] = [[]]
        for stmt in self.function.body:
            if is_barrier(stmt):
                pieces.append([])
                continue
            pieces[-1].append(stmt)
            for inner in walk([stmt]):
                if is_barrier(inner):
                    raise error_for([_nested(inner.loc)])
        return pieces

    def _remember_views(self, body: list[Stmt]) -> None:
        for stmt in walk(body):
            if isinstance(stmt, OpStmt) and isinstance(stmt.out, Var) and stmt.op in VIEWS and stmt.out.is_tensor:
                self.views[stmt.out.resolve()] = stmt

    def _is_view(self, name: Name) -> bool:
        return isinstance(name, Var) and name.is_tensor

    def _need(self, name: Name, earlier: dict[Name, None], incoming: dict[Name, None]) -> None:
        """Notes what a part needs from the parts before, and what making a view again needs in turn."""
        if name not in earlier or name in incoming:
            return
        if isinstance(name, Var) and name.is_tensor:
            view = self.views[name]
            if name.mutable:
                raise error_for([_carried_view(name, view.loc)])
            for leaf in leaves((view.args, view.out.type.shape if isinstance(view.out, Var) else ())):
                self._need(leaf, earlier, incoming)
        incoming[name] = None

    def _memory(self, name: Name) -> TensorType:
        if isinstance(name, Var):
            return TensorType((self.blocks, *name.type.shape), name.type.dtype)
        return TensorType((self.blocks,), cell_dtype(name.dtype))

    def _phase(self, number: int, part: _Part, later: list[_Part]) -> Function:
        loc = self.function.loc
        before: list[Stmt] = []
        # A tile is loaded as far as it is valid, which scalars say; a view needs both scalars and the view below it.
        for name in sorted(part.incoming, key=lambda name: isinstance(name, Var)):
            before += self._fetch(name, loc)
        needed = {name for other in later for name in other.incoming if not self._is_view(name)}
        after = [stmt for name in part.unit.assigned if name in needed for stmt in self._keep(name, loc)]
        params = list(self.function.params)
        params += [Param(waits.name, waits, "In", loc) for waits in self.waiting.values()]
        symbols = [*self.function.symbols, self.blocks]
        label = f"{self.function.name}_phase{number + 1}"
        return Function(label, self.function.kind, params, [*before, *part.body, *after], [], loc, symbols)

    def _fetch(self, name: Name, loc: Loc) -> list[Stmt]:
        if isinstance(name, Var) and name.is_tensor:
            return [self.views[name]]
        waits = self.waiting[name]
        if not isinstance(name, Var):
            assert isinstance(name, ScalarVar), "extents are parameters"
            return take(waits, (_BLOCK,), name, loc)
        shape = name.tile.shape
        row = {"box": (1, *shape), "keep": tuple(range(1, len(shape) + 1)), "transposed": False}
        return [OpStmt("load", name, (waits, self._row(name), (1, *name.type.valid)), loc, row)]

    def _keep(self, name: Name, loc: Loc) -> list[Stmt]:
        waits = self.waiting[name]
        if not isinstance(name, Var):
            assert isinstance(name, ScalarVar), "extents are parameters"
            return put(waits, (_BLOCK,), name, loc)
        box = {"box": (1, *name.tile.shape)}
        return [OpStmt("store", None, (name, self._row(name), waits, (1, *name.type.valid)), loc, box)]

    @staticmethod
    def _row(name: Var) -> tuple[ScalarOp | object, ...]:
        return (_BLOCK, *(index(0) for _ in name.type.shape))

    def launch(self, stmt: CallStmt) -> list[Stmt]:
        """The phases in place of one launch."""
        result: list[Stmt] = []
        rows: list[Var] = []
        for waits in self.waiting.values():
            at_least_one = binary("max", stmt.blocks, index(1), INDEX)  # device memory has no empty tensors
            shape = (to_dim(at_least_one), *waits.type.shape[1:])
            row = Var(waits.name, TensorType(shape, waits.type.dtype), stmt.loc)
            extents = tuple(of_dim(dim) for dim in shape)
            result.append(OpStmt("create_tensor", row, (extents,), stmt.loc, {"init_value": None}))
            rows.append(row)
        for phase in self.phases:
            result.append(CallStmt(phase, (*stmt.args, *rows), stmt.blocks, stmt.loc))
        return result


def _nested(loc: Loc) -> Diagnostic:
    return Diagnostic(
        "unsupported",
        "pl.system.syncall inside a branch or loop",
        loc,
        "put the barrier at the top level of the kernel; a loop with a constant number of rounds can be pl.unroll",
    )


def _carried_view(name: Var, loc: Loc) -> Diagnostic:
    return Diagnostic(
        "unsupported",
        f"{name.name!r} is a view that differs from path to path, and is used after a barrier",
        loc,
        "make the view again after the barrier",
    )
