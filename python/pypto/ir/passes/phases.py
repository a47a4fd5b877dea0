"""Barriers: a kernel with `syncall` becomes one kernel for each phase, launched one after the other.

The real chip runs all blocks of such a kernel at once and lets them wait for each other. Here a launch already waits
for what an earlier one wrote, so that cutting the kernel at its barriers gives the same results with any number of
cores, in a fixed order, and without blocks that must all be alive together. The price is that values which live across
a barrier wait in device memory, one row for each block; views are made again instead. A loop with a barrier inside, of
however many rounds, becomes a loop of the code that launches the phases (`cut`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.ir.diagnostics import Loc
from pypto.ir.effects import VIEWS, Name, leaves
from pypto.ir.exprs import Expr, ScalarOp, ScalarVar, Symbol, binary, index, of_dim, to_dim
from pypto.ir.nodes import (
    BreakStmt,
    CallStmt,
    ContinueStmt,
    ForStmt,
    Function,
    IfStmt,
    OpStmt,
    Order,
    Param,
    Program,
    Stmt,
    TaskRef,
    TaskStmt,
    TaskVar,
    Var,
    WhileStmt,
    walk,
)
from pypto.ir.passes.carried_views import CarriedViews
from pypto.ir.passes.cells import cell_dtype, put, take
from pypto.ir.passes.cut import Counted, Cutter, Node, Piece, Repeated, is_barrier, with_fixed_views
from pypto.ir.passes.names import unused
from pypto.ir.passes.survey import Unit, survey
from pypto.ir.types import TensorType
from pypto.language.dtypes import INDEX

_BLOCK = ScalarOp("block_idx", (), INDEX)


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
    piece: Piece
    unit: Unit
    incoming: dict[Name, None]


class _Splitter:
    """One kernel, cut at its barriers."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.views: dict[Var, OpStmt] = {}
        self.waiting: dict[Name, Var] = {}
        cutter = Cutter()
        known: set[Name] = {param.var for param in function.params}
        self.carried = CarriedViews(with_fixed_views(function.body), set(known))
        self.tree = cutter.cut(self.carried.body)
        self.nested = any(not isinstance(node, Piece) for node in self.tree)
        self.parts = [_Part(piece, survey(piece.body), {}) for piece in cutter.pieces]
        self._remember_views()
        for part in self.parts:
            for name in part.unit.exposed:
                if name not in known and name not in part.piece.counters:
                    self._need(name, part)
        self.blocks = Symbol("blocks")
        needed: dict[Name, None] = {name: None for part in self.parts for name in part.incoming}
        needed.update(dict.fromkeys(cutter.decisions))
        for name in needed:
            if not self._is_view(name):
                self.waiting[name] = Var(f"{name.name}_waits", self._memory(name), function.loc)
        self.phases = [self._phase(part) for part in self.parts]

    def _remember_views(self) -> None:
        for part in self.parts:
            for stmt in walk(part.piece.body):
                if isinstance(stmt, OpStmt) and isinstance(stmt.out, Var) and stmt.op in VIEWS and stmt.out.is_tensor:
                    self.views[stmt.out.resolve()] = stmt

    def _is_view(self, name: Name) -> bool:
        return isinstance(name, Var) and name.is_tensor

    def _need(self, name: Name, part: _Part) -> None:
        """Notes what a part needs from others, and what making a view again needs in turn."""
        if name in part.incoming:
            return
        if not any(name in other.unit.assigned and part.piece.follows(other.piece) for other in self.parts):
            return
        if isinstance(name, Var) and name.is_tensor:
            view, state = self.views[name], self.carried.state(name)
            shape = view.out.type.shape if isinstance(view.out, Var) else ()
            for leaf in leaves((view.args, shape)) if state is None else state.names:
                self._need(leaf, part)
        part.incoming[name] = None

    def _memory(self, name: Name) -> TensorType:
        if isinstance(name, Var):
            return TensorType((self.blocks, *name.type.shape), name.type.dtype)
        return TensorType((self.blocks,), cell_dtype(name.dtype))

    def _phase(self, part: _Part) -> Function:
        loc, piece = self.function.loc, part.piece
        before: list[Stmt] = []
        # A tile is loaded as far as it is valid, which scalars say; a view needs both scalars and the view below it.
        for name in sorted(part.incoming, key=lambda name: isinstance(name, Var)):
            before += self._fetch(name, loc)
        after = [stmt for name in part.unit.assigned if name in self.waiting for stmt in self._keep(name, loc)]
        params = list(self.function.params)
        params += [Param(waits.name, waits, "In", loc) for waits in self.waiting.values()]
        params += [Param(counter.name, counter, "In", loc) for counter in piece.counters]
        symbols = [*self.function.symbols, self.blocks]
        label = f"{self.function.name}_phase{piece.number + 1}"
        return Function(label, self.function.kind, params, [*before, *piece.body, *after], [], loc, symbols)

    def _fetch(self, name: Name, loc: Loc) -> list[Stmt]:
        if isinstance(name, Var) and name.is_tensor:
            return self.carried.remade(name, loc) if self.carried.state(name) else [self.views[name]]
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
        return _Launch(self, stmt).run()


class _Launch:
    """The code that launches the phases of a kernel in place of one launch of it."""

    def __init__(self, splitter: _Splitter, stmt: CallStmt) -> None:
        self.splitter = splitter
        self.stmt = stmt
        self.rows: dict[Name, Var] = {}
        self.counters: dict[ScalarVar, ScalarVar] = {}
        self.last = TaskRef(TaskVar(f"{splitter.function.name}_phases"))

    def run(self) -> list[Stmt]:
        """The memory in which values wait, then the phases."""
        loc = self.stmt.loc
        # Where phases repeat, one may read what no earlier one wrote; and no block decides anything if there is none.
        result: list[Stmt] = []
        for name, waits in self.splitter.waiting.items():
            at_least_one = binary("max", self.stmt.blocks, index(1), INDEX)  # device memory has no empty tensors
            shape = (to_dim(at_least_one), *waits.type.shape[1:])
            row = self.rows[name] = Var(waits.name, TensorType(shape, waits.type.dtype), loc)
            extents = tuple(of_dim(dim) for dim in shape)
            zero = 0.0 if waits.type.dtype.is_float else 0
            attrs = {"init_value": zero if self.splitter.nested else None}
            result.append(OpStmt("create_tensor", row, (extents,), loc, attrs))
        order = self.stmt.order
        result.append(TaskStmt("dummy", self.last, order.deps, loc))
        result += self._nodes(self.splitter.tree)
        if order.out is not None:
            result.append(TaskStmt("assign", order.out, (self.last,), loc))
        return result

    def _nodes(self, nodes: list[Node]) -> list[Stmt]:
        return [stmt for node in nodes for stmt in self._node(node)]

    def _node(self, node: Node) -> list[Stmt]:
        if isinstance(node, Piece):
            counters = (self.counters[counter] for counter in node.counters)
            args = (*self.stmt.args, *self.rows.values(), *counters)
            # Each phase waits for all blocks of the one before; whoever waits for the kernel waits for the last.
            order = Order(self.last, (self.last,), self.stmt.order.manual)
            return [CallStmt(self.splitter.phases[node.number], args, self.stmt.blocks, self.stmt.loc, order)]
        if isinstance(node, (BreakStmt, ContinueStmt)):
            return [node]
        if isinstance(node, Counted):
            count, before = self._decision(node.count, node.loc)
            counter = self.counters[node.counter] = ScalarVar(node.counter.name, INDEX)
            body = self._nodes(node.body)
            return [*before, ForStmt(counter, index(0), count, index(1), "range", body, node.loc)]
        cond, before = self._decision(node.cond, node.loc)
        if isinstance(node, Repeated):
            return [WhileStmt([*self._nodes(node.head), *before], cond, self._nodes(node.body), node.loc)]
        return [*before, IfStmt(cond, self._nodes(node.then), self._nodes(node.orelse), node.loc)]

    def _decision(self, value: Expr, loc: Loc) -> tuple[Expr, list[Stmt]]:
        """What block 0 computed, and how it is read."""
        if not isinstance(value, ScalarVar):
            return value, []
        seen = ScalarVar(value.name, value.dtype)
        return seen, take(self.rows[value], (index(0),), seen, loc)
