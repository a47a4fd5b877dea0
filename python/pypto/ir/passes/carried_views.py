"""Views of device memory that differ from path to path, where a barrier cuts the paths.

`source, target = target, source` in a loop: which memory a name means depends on what ran before, and a view cannot
wait in device memory as a value can. So each such view has scalars beside it, which can: the number of the assignment
that made it, and what the scalars in that assignment were, those beside a view of which it is a box included. A piece
that needs the view makes it again by a branch over the assignments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pypto.ir.diagnostics import Diagnostic, Loc, error_for
from pypto.ir.effects import VIEWS, leaves
from pypto.ir.exprs import Const, Expr, ScalarOp, ScalarVar, binary, cast, index, of_dim
from pypto.ir.nodes import IfStmt, Let, Operand, OpStmt, Stmt, Var, walk, with_blocks
from pypto.ir.types import TensorType, same_extents
from pypto.language.dtypes import BOOL, INDEX


@dataclass(slots=True, eq=False)
class _Group:
    """Views that are assigned to each other, whatever their shapes. `made` are the assignments that name other memory.

    `refusal` is set where one of them cannot be made again; `filled` says that all is known, `None` that it is being
    found out.
    """

    members: list[Var] = field(default_factory=list)
    refusal: Diagnostic | None = None
    filled: bool | None = False
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
        self._definitions = _definitions(body)
        self._groups: dict[Var, _Group] = {}
        self._states: dict[Var, State] = {}
        for var in [var for var in self._definitions if var.mutable]:
            self._join(var, _Group())
        self.body = body
        if self._groups:
            self.body = self._steady(body)
            self._definitions = _definitions(self.body)
            self._relate()
            for group in dict.fromkeys(self._groups.values()):
                self._fill(group)
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
                    else:
                        kept = Var(f"{source.name}_then", source.type, stmt.loc)
                        self._merge(kept, source)
                        zeros = tuple(index(0) for _ in source.tensor.shape)
                        keep = {"keep": tuple(range(len(zeros)))}
                        result.append(OpStmt("slice", kept, (source, zeros, source.tensor.shape), stmt.loc, keep))
                        stmt = OpStmt(stmt.op, stmt.out, (kept, *stmt.args[1:]), stmt.loc, stmt.attrs)
            else:
                stmt = with_blocks(stmt, self._steady)
            result.append(stmt)
        return result

    def _merge(self, var: Var, other: Var) -> None:
        group = self._groups[other]
        old = self._groups.get(var)
        if old is group:
            return
        for member in [var] if old is None else old.members:
            self._groups[member] = group
            group.members.append(member)

    def _relate(self) -> None:
        """A view that has all elements of another, in their order, is another shape of it."""
        for stmt in _views(self.body):
            chain = self._chain(stmt)
            source = self._source(chain[0])
            if _out(stmt) in self._groups and source in self._groups and all(map(_keeps_all, chain)):
                self._merge(_out(stmt), source)

    def _fill(self, group: _Group) -> None:
        """Numbers the assignments of a group, and names the scalars beside its members; those of views below first."""
        if group.filled is not False:
            return
        group.filled = None
        for stmt in _views(self.body):
            chain = self._chain(stmt)
            below = self._source(chain[0])
            other = self._groups.get(below)
            if self._groups.get(_out(stmt)) is not group:
                continue
            if other is group:
                if not all(map(_keeps_all, chain)):
                    group.refusal = _refusal(_out(stmt), stmt.loc)
                continue
            number = len(group.made)
            group.made.append(stmt)
            if other is not None:
                self._fill(other)
                if other.filled is None:  # boxes of each other, which go on for ever
                    group.refusal = other.refusal = _refusal(_out(stmt), stmt.loc)
                    continue
                group.refusal = group.refusal or other.refusal
                group.captured += [(number, name) for name in self._states[below].names]
            group.captured += [(number, leaf) for leaf in self._scalars(stmt)]
        for var in group.members:
            captured = tuple(
                ScalarVar(f"{var.name}_{leaf.name}", leaf.dtype, mutable=True) for _, leaf in group.captured
            )
            self._states[var] = State(ScalarVar(f"{var.name}_which", INDEX, mutable=True), captured)
        group.filled = True

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
            result.append(with_blocks(stmt, self._counted))
            if not isinstance(stmt, OpStmt) or stmt.op not in VIEWS or not _is_tensor(stmt.out):
                continue
            state = self._states.get(_out(stmt))
            if state is None or self._groups[_out(stmt)].refusal is not None:
                continue
            group, below = self._groups[_out(stmt)], self._source(self._chain(stmt)[0])
            if self._groups.get(below) is group:
                other = self._states[below]
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
        return self._remade(var, self._groups[var], self._states[var].names, loc)

    def _remade(self, var: Var, group: _Group, names: tuple[Expr, ...], loc: Loc) -> list[Stmt]:
        """Statements that make `var` what a member of a group is beside which these scalars stand."""
        which, captured = names[0], names[1:]
        result: list[Stmt] = []
        for number in reversed(range(len(group.made))):
            known: dict[object, Expr] = {
                leaf: value for value, (of, leaf) in zip(captured, group.captured, strict=True) if of == number
            }
            made = self._copies(group.made[number], known, var)
            result = [IfStmt(binary("eq", which, index(number), BOOL), made, result, loc)] if result else made
        return result

    def _copies(self, made: OpStmt, known: dict[object, Expr], var: Var) -> list[Stmt]:
        """The views from device memory to `var`, as one assignment made them of these scalars."""
        result: list[Stmt] = []
        chain = self._chain(made)
        source = self._source(chain[0])
        if source in self._groups:
            below = Var(source.name, _with(source.tensor, known), made.loc, mutable=True)
            names = tuple(known[name] for name in self._states[source].names)
            result += self._remade(below, self._groups[source], names, made.loc)
            source = below
        whole = same_extents(_out(made).tensor.shape, var.tensor.shape)
        for stmt in chain:
            out = var if whole and stmt is made else Var(_out(stmt).name, _with(_out(stmt).tensor, known), stmt.loc)
            args = _renamed(stmt.args[1:], known)
            assert isinstance(args, tuple), "a tuple stays one"
            result.append(OpStmt(stmt.op, out, (source, *args), stmt.loc, stmt.attrs))
            source = out
        if not whole:
            shape = tuple(of_dim(dim) for dim in var.tensor.shape)
            result.append(OpStmt("reshape", var, (source, shape), made.loc))
        return result


def _with(type: TensorType, known: dict[object, Expr]) -> TensorType:
    """A type of which the extents are these."""
    partial = None if type.partial is None else _renamed(type.partial, known)
    return replace(type, shape=_renamed(type.shape, known), partial=partial)  # type: ignore[arg-type]  # extents stay extents


def _definitions(body: list[Stmt]) -> dict[Var, list[OpStmt]]:
    found: dict[Var, list[OpStmt]] = {}
    for stmt in _views(body):
        found.setdefault(_out(stmt), []).append(stmt)
    return found


def _keeps_all(stmt: OpStmt) -> bool:
    """Whether a view has all elements of what it is a view of, in their order."""
    return stmt.op == "reshape" or _is_alias(stmt)


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
        f"{name.name!r} is a box of itself, made again in each round of a loop, in a kernel with a barrier",
        loc,
        "keep the whole tensor under the name, and its offset as a number",
    )
