"""Views of device memory that differ from path to path, where a barrier cuts the paths.

`source, target = target, source` in a loop: which memory a name means depends on what ran before, and a view cannot
wait in device memory as a value can. So each such view has scalars beside it, which can: the number of the assignment
that made it, and what the scalars in that assignment were. A piece that needs the view makes it again by a branch over
the assignments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pypto.ir.diagnostics import Diagnostic, Loc, error_for
from pypto.ir.effects import VIEWS, leaves
from pypto.ir.exprs import Const, Expr, ScalarOp, ScalarVar, binary, cast, index
from pypto.ir.nodes import ForStmt, IfStmt, Let, Operand, OpStmt, Stmt, Var, WhileStmt, children, walk
from pypto.ir.types import same_extents
from pypto.language.dtypes import BOOL, INDEX


@dataclass(slots=True, eq=False)
class _Group:
    """Views that are assigned to each other. `made` are the assignments that name other memory.

    `refusal` is set where one of them cannot be made again.
    """

    members: list[Var] = field(default_factory=list)
    refusal: Diagnostic | None = None
    made: list[OpStmt] = field(default_factory=list)
    captured: list[tuple[int, ScalarVar]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class State:
    """The scalars beside one view: which assignment made it, and the scalars of the assignments."""

    which: ScalarVar
    captured: tuple[ScalarVar, ...]

    @property
    def names(self) -> tuple[ScalarVar, ...]:
        """All of them."""
        return (self.which, *self.captured)


class CarriedViews:
    """The views of one body that differ from path to path, and the body with their scalars."""

    def __init__(self, body: list[Stmt], params: set[object]) -> None:
        self._params = params
        self._definitions: dict[Var, list[OpStmt]] = {}
        for stmt in _views(body):
            self._definitions.setdefault(_out(stmt), []).append(stmt)
        self._groups: dict[Var, _Group] = {}
        self._states: dict[Var, State] = {}
        for var in [var for var in self._definitions if var.mutable]:
            self._join(var, _Group())
        self.body = body
        if self._groups:
            self.body = self._steady(body)
            self._fill()
            self.body = [*self._zeros(), *self._counted(self.body)]

    def _join(self, var: Var, group: _Group) -> None:
        if var not in self._groups:
            self._groups[var] = group
            group.members.append(var)

    def _steady(self, body: list[Stmt]) -> list[Stmt]:
        """The body in which a view of such a view is one of a copy that is never assigned again."""
        result: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, OpStmt) and stmt.op in VIEWS and stmt.args and isinstance(stmt.args[0], Var):
                source = stmt.args[0].resolve()
                if source in self._groups and stmt.out is not None and _is_tensor(stmt.out):
                    out = _out(stmt)
                    if _is_alias(stmt):
                        self._merge(out, source)
                    elif out.mutable:
                        self._groups[out].refusal = _refusal(out, stmt.loc)
                    else:
                        kept = Var(f"{source.name}_then", source.type, stmt.loc)
                        self._merge(kept, source)
                        zeros = tuple(index(0) for _ in source.tensor.shape)
                        keep = {"keep": tuple(range(len(zeros)))}
                        result.append(OpStmt("slice", kept, (source, zeros, source.tensor.shape), stmt.loc, keep))
                        stmt = OpStmt(stmt.op, stmt.out, (kept, *stmt.args[1:]), stmt.loc, stmt.attrs)
            else:
                stmt = _with_blocks(stmt, [self._steady(block) for block in children(stmt)])
            result.append(stmt)
        return result

    def _merge(self, var: Var, other: Var) -> None:
        group = self._groups[other]
        old = self._groups.get(var)
        if old is group:
            return
        group.refusal = group.refusal or (old.refusal if old is not None else None)
        for member in [var] if old is None else old.members:
            self._groups[member] = group
            group.members.append(member)

    def _fill(self) -> None:
        """Numbers the assignments of each group, and names the scalars beside its members."""
        for stmt in _views(self.body):
            group = self._groups.get(_out(stmt))
            if group is None or self._source(stmt) in self._groups:
                continue
            if any(self._source(below) in self._groups for below in self._chain(stmt)):
                group.refusal = _refusal(_out(stmt), stmt.loc)
                continue
            number = len(group.made)
            group.made.append(stmt)
            group.captured += [(number, leaf) for leaf in self._scalars(stmt)]
        for var, group in self._groups.items():
            captured = tuple(
                ScalarVar(f"{var.name}_{leaf.name}", leaf.dtype, mutable=True) for _, leaf in group.captured
            )
            self._states[var] = State(ScalarVar(f"{var.name}_which", INDEX, mutable=True), captured)

    def _scalars(self, stmt: OpStmt) -> dict[ScalarVar, None]:
        """The scalars that making a view again needs, of all views below it."""
        found: dict[ScalarVar, None] = {}
        for below in self._chain(stmt):
            for leaf in leaves((below.args[1:], _out(below).tensor.shape, _out(below).tensor.valid)):
                if isinstance(leaf, ScalarVar) and leaf not in self._params:
                    found[leaf] = None
        return found

    def _chain(self, stmt: OpStmt) -> list[OpStmt]:
        """The views from device memory to this one."""
        chain = [stmt]
        source = self._source(stmt)
        while source in self._definitions and source not in self._groups:
            below = self._definitions[source][0]
            chain.append(below)
            source = self._source(below)
        return chain[::-1]

    @staticmethod
    def _source(stmt: OpStmt) -> Var:
        source = stmt.args[0]
        assert isinstance(source, Var), "a view is one of a tensor"
        return source.resolve()

    def _zeros(self) -> Iterator[Stmt]:
        """A view that is assigned to another takes all scalars with it, those of assignments that never ran too."""
        for var, state in self._states.items():
            if self._groups[var].refusal is None:
                yield from (Let(name, cast(index(0), name.dtype), var.loc) for name in state.names)

    def _counted(self, body: list[Stmt]) -> list[Stmt]:
        """The body in which each assignment of such a view sets its scalars."""
        result: list[Stmt] = []
        for stmt in body:
            result.append(_with_blocks(stmt, [self._counted(block) for block in children(stmt)]))
            if not isinstance(stmt, OpStmt) or stmt.op not in VIEWS or not _is_tensor(stmt.out):
                continue
            state = self._states.get(_out(stmt))
            if state is None or self._groups[_out(stmt)].refusal is not None:
                continue
            group, other = self._groups[_out(stmt)], self._states.get(self._source(stmt))
            if other is not None:
                result += [Let(to, value, stmt.loc) for to, value in zip(state.names, other.names, strict=True)]
                continue
            number = next(at for at, made in enumerate(group.made) if made is stmt)
            result.append(Let(state.which, index(number), stmt.loc))
            for to, (of, leaf) in zip(state.captured, group.captured, strict=True):
                if of == number:
                    result.append(Let(to, leaf, stmt.loc))
        return result

    def state(self, var: Var) -> State | None:
        """The scalars beside a view, `None` where it never changes; raises where it cannot be made again."""
        group = self._groups.get(var)
        if group is not None and group.refusal is not None:
            raise error_for([group.refusal])
        return self._states.get(var)

    def remade(self, var: Var, loc: Loc) -> list[Stmt]:
        """Statements that make a view again from its scalars."""
        state, group = self._states[var], self._groups[var]
        result: list[Stmt] = []
        for number in reversed(range(len(group.made))):
            made = self._copies(number, group, state, var)
            if not result:
                result = made
                continue
            condition = binary("eq", state.which, index(number), BOOL)
            result = [IfStmt(condition, made, result, loc)]
        return result

    def _copies(self, number: int, group: _Group, state: State, var: Var) -> list[Stmt]:
        names: dict[object, Expr] = {
            leaf: value for value, (of, leaf) in zip(state.captured, group.captured, strict=True) if of == number
        }
        result: list[Stmt] = []
        chain = self._chain(group.made[number])
        source: Var | None = None
        for stmt in chain:
            out = _out(stmt)
            if stmt is not chain[-1]:
                type = out.tensor
                partial = None if type.partial is None else _renamed(type.partial, names)
                out = Var(out.name, replace(type, shape=_renamed(type.shape, names), partial=partial), stmt.loc)  # type: ignore[arg-type]  # extents stay extents
            else:
                out = var
            args = _renamed(stmt.args[1:], names)
            assert isinstance(args, tuple), "a tuple stays one"
            result.append(OpStmt(stmt.op, out, (source or stmt.args[0], *args), stmt.loc, stmt.attrs))
            source = out
        return result


def _views(body: list[Stmt]) -> Iterator[OpStmt]:
    for stmt in walk(body):
        if isinstance(stmt, OpStmt) and stmt.op in VIEWS and _is_tensor(stmt.out):
            yield stmt


def _is_tensor(out: Var | ScalarVar | None) -> bool:
    return isinstance(out, Var) and out.is_tensor


def _out(stmt: OpStmt) -> Var:
    assert isinstance(stmt.out, Var), "a view has a result"
    return stmt.out.resolve()


def _is_alias(stmt: OpStmt) -> bool:
    """Whether a view is the whole of its source."""
    source, out = stmt.args[0], stmt.out
    assert isinstance(source, Var), "a view is one of a tensor"
    assert isinstance(out, Var), "a view has a result"
    offsets = stmt.args[1] if stmt.op == "slice" else None
    return (
        isinstance(offsets, tuple)
        and all(isinstance(offset, Const) and offset.value == 0 for offset in offsets)
        and len(source.tensor.shape) == len(out.tensor.shape)
        and same_extents(source.tensor.shape, out.tensor.shape)
    )


def _with_blocks(stmt: Stmt, blocks: list[list[Stmt]]) -> Stmt:
    if isinstance(stmt, ForStmt):
        return ForStmt(stmt.var, stmt.start, stmt.stop, stmt.step, stmt.kind, blocks[0], stmt.loc)
    if isinstance(stmt, WhileStmt):
        return WhileStmt(blocks[0], stmt.cond, blocks[1], stmt.loc)
    if isinstance(stmt, IfStmt):
        return IfStmt(stmt.cond, blocks[0], blocks[1], stmt.loc)
    return stmt


def _renamed(operand: Operand | int, names: dict[object, Expr]) -> Operand:
    if isinstance(operand, tuple):
        return tuple(_renamed(item, names) for item in operand)
    if isinstance(operand, ScalarOp):
        args = tuple(_renamed(arg, names) for arg in operand.args)
        return ScalarOp(operand.op, args, operand.dtype)  # type: ignore[arg-type]  # scalars stay scalars
    return names.get(operand, operand)  # type: ignore[arg-type]  # extents in a tuple may be ints


def _refusal(name: Var, loc: Loc) -> Diagnostic:
    return Diagnostic(
        "unsupported",
        f"{name.name!r} is a view of a view that differs from path to path, in a kernel with a barrier",
        loc,
        "keep the whole tensors under names that change, and view them where they are used",
    )
