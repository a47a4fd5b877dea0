"""Branches and loops: where the values of a name meet.

A name that a branch or a loop assigns needs one place that holds its value wherever paths meet: its *home*. Tiles are
costly to copy, so a tile that only this name holds becomes its own home and operations assign it in place. Everything
else gets a fresh home and is copied into it where the path ends.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pypto.frontend.assigned import assigned_names
from pypto.frontend.builder import Builder, Refused
from pypto.frontend.values import POISON, PyValue, Value, describe, is_scalar, same_type
from pypto.ir.exprs import Const, Expr, ScalarVar, cast, index, of_dim
from pypto.ir.nodes import Let, OpStmt, Stmt, Var
from pypto.ir.types import TensorType, TileType, same_box, same_valid
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader


class _Widen(Exception):
    """A loop changes the validity of a tile that it carries: it is read again with a validity that is carried too."""

    def __init__(self, loop: LoopState, names: set[str]) -> None:
        self.loop = loop
        self.names = names


@dataclass(slots=True)
class LoopState:
    """A loop being read. `homes` are the places of the names that it carries, `entries` what tensors held before."""

    node: ast.stmt
    homes: dict[str, Var | ScalarVar] = field(default_factory=dict)
    entries: dict[str, Var] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    yielded: tuple[Value, ...] | None = None
    yields: bool = False


class Regions:
    """Reads bodies of branches and loops and reconciles names at their ends."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.builder: Builder = reader.builder
        self.loops: list[LoopState] = []
        self.carriers: list[LoopState | None] = []

    @contextmanager
    def _homes(self, homes: dict[str, Var | ScalarVar]) -> Iterator[None]:
        outer, self.builder.homes = self.builder.homes, homes
        try:
            yield
        finally:
            self.builder.homes = outer

    # Branches.

    def branch(self, node: ast.If, read: Callable[[list[ast.stmt]], None]) -> tuple[list[Stmt], list[Stmt]]:
        """Reads both arms and merges the names that they assign."""
        builder = self.builder
        names = assigned_names([*node.body, *node.orelse])
        before = dict(builder.frame.names)
        in_place: dict[str, Var | ScalarVar] = {}
        for name in names:
            held = before.get(name)
            if isinstance(held, Var) and isinstance(held.type, TileType) and builder.users.get(held) == 1:
                in_place[name] = held
        then: list[Stmt] = []
        orelse: list[Stmt] = []
        self.carriers.append(None)
        try:
            with self._homes(in_place), builder.into(then):
                read(node.body)
            after_then = {name: builder.frame.names.get(name) for name in names}
            shared = dict(in_place)
            for name, value in after_then.items():
                if (
                    name not in before
                    and isinstance(value, Var)
                    and isinstance(value.type, TileType)
                    and builder.users.get(value) == 1
                ):
                    shared[name] = value
            builder.restore(before)
            with self._homes(shared), builder.into(orelse):
                read(node.orelse)
            after_else = {name: builder.frame.names.get(name) for name in names}
            builder.restore(before)
        finally:
            self.carriers.pop()
        for var in in_place.values():
            var.mutable = True
        self._merge(node, names, (then, after_then), (orelse, after_else), shared)
        return then, orelse

    def _merge(
        self,
        node: ast.If,
        names: list[str],
        then: tuple[list[Stmt], dict[str, Value | None]],
        orelse: tuple[list[Stmt], dict[str, Value | None]],
        shared: dict[str, Var | ScalarVar],
    ) -> None:
        builder = self.builder
        if _leaves(then[0]) or _leaves(orelse[0]):
            staying = orelse[1] if _leaves(then[0]) else then[1]
            for name, value in staying.items():
                if value is not None:
                    builder.bind(name, value)
            return
        moves: tuple[list[_Move], list[_Move]] = ([], [])
        keep: tuple[list[tuple[str, Value]], list[tuple[str, Value]]] = ([], [])
        for name in names:
            left, right = then[1][name], orelse[1][name]
            if left is None or right is None:  # only one arm gives it a value: visible afterwards, as in Python
                for side, value in enumerate((left, right)):
                    if value is not None:
                        keep[side].append((name, value))
                        builder.bind(name, value)
                continue
            try:
                home = self._meet(node, name, left, right, shared.get(name))
            except Refused:
                home = POISON
            builder.bind(name, home)
            if isinstance(home, (Var, ScalarVar)):
                for side, value in enumerate((left, right)):
                    if value is not home:
                        moves[side].append(_Move(name, home, value))
        for side, block in enumerate((then[0], orelse[0])):
            with builder.into(block):
                for name, saved in self._move_all(moves[side], node, keep[side]).items():
                    builder.bind(name, saved)

    def _meet(self, node: ast.If, name: str, left: Value, right: Value, shared: Var | ScalarVar | None) -> Value:
        """The home of a name after a branch; `left` itself where both arms agree."""
        if left is right or (isinstance(left, (Const, PyValue)) and left == right):
            return left
        if left is POISON or right is POISON:
            return POISON
        if is_scalar(left) and is_scalar(right):
            a, b = left.dtype, right.dtype
            if (a.is_float, a.is_bool) != (b.is_float, b.is_bool):
                self._differ(node, name, left, right)
            return ScalarVar(name, a if a.bits >= b.bits else b, mutable=True)
        if isinstance(left, Var) and isinstance(right, Var):
            if isinstance(left.type, TileType) and isinstance(right.type, TileType) and same_box(left.type, right.type):
                if not same_valid(left.type, right.type):
                    return self._wide(name, left.type, node)
                if isinstance(shared, Var) and same_box(shared.tile, left.type) and same_valid(shared.tile, left.type):
                    shared.mutable = True
                    return shared
                return Var(name, left.type, self.builder.loc(node), mutable=True)
            if isinstance(left.type, TensorType) and same_type(left, right):
                return Var(name, left.type, self.builder.loc(node), mutable=True)
        if isinstance(left, Var) or isinstance(right, Var) or is_scalar(left) or is_scalar(right):
            self._differ(node, name, left, right)
        return POISON

    def _differ(self, node: ast.AST, name: str, left: Value, right: Value) -> None:
        self.builder.fail(
            "type",
            f"{name!r} is {describe(left)} on one path and {describe(right)} on the other",
            node,
            "a name keeps its type; use two names",
        )

    # Loops.

    def loop(self, node: ast.For | ast.While, body: Callable[[LoopState], None]) -> tuple[LoopState, list[Stmt]]:
        """Reads a loop. `body` reads what repeats; copies into homes go to the current block, before the loop."""
        builder = self.builder
        names = assigned_names(node.body)
        before = dict(builder.frame.names)
        mark, diagnostics, wide = len(builder.block), len(builder.diagnostics), set[str]()
        while True:
            state = LoopState(node)
            self._enter(state, [name for name in names if name in before], wide)
            block: list[Stmt] = []
            self.loops.append(state)
            self.carriers.append(state)
            try:
                with self._homes(dict(state.homes)), builder.into(block):
                    body(state)
                    if not _leaves(block):
                        self.sync(state, node, rebind=True)
                break
            except _Widen as widen:
                if widen.loop is not state or widen.names <= wide:
                    raise
                wide |= widen.names
                del builder.block[mark:]
                del builder.diagnostics[diagnostics:]
                builder.restore(before)
            finally:
                self.loops.pop()
                self.carriers.pop()
        self._leave(state)
        return state, block

    def _enter(self, state: LoopState, names: list[str], wide: set[str]) -> None:
        builder = self.builder
        for name in names:
            held = builder.frame.names[name]
            if is_scalar(held):
                home: Var | ScalarVar = ScalarVar(name, held.dtype, mutable=True)
                builder.emit(Let(home, held, builder.loc(state.node)))  # type: ignore[arg-type]
            elif isinstance(held, Var) and isinstance(held.type, TileType):
                home = self._tile_home(name, held, state.node, name in wide)
            elif isinstance(held, Var):
                home = Var(name, held.type, held.loc, mutable=True)
                state.entries[name] = held
            else:
                continue
            state.homes[name] = home
            builder.bind(name, home)

    def _tile_home(self, name: str, held: Var, node: ast.AST, wide: bool) -> Var:
        if wide:
            home = self._wide(name, held.tile, node)
        elif self.builder.users.get(held) == 1:
            held.mutable = True
            return held
        else:
            home = Var(name, held.type, self.builder.loc(node), mutable=True)
        self._move_all([_Move(name, home, held)], node)
        return home

    def _wide(self, name: str, type: TileType, node: ast.AST) -> Var:
        """A tile variable whose validity is held by variables too."""
        valid = tuple(ScalarVar(f"{name}_valid{axis}", INDEX, mutable=True) for axis in range(len(type.shape)))
        wide = TileType(type.shape, type.dtype, valid, type.space, type.tensor_level)
        return Var(name, wide, self.builder.loc(node), mutable=True)

    def sync(self, state: LoopState, node: ast.AST, rebind: bool) -> None:
        """At the end of a round, or before `break`/`continue`: what names hold goes to their homes."""
        builder = self.builder
        moves: list[_Move] = []
        widen: set[str] = set()
        for name, home in state.homes.items():
            value = builder.frame.names.get(name, POISON)
            if value is home or value is POISON or (name in state.entries and value is state.entries[name]):
                continue
            if not same_type(home, value):
                builder.report(
                    "type",
                    f"{name!r} is {describe(home)} before the loop and {describe(value)} at its end",
                    node,
                    "a name keeps its type; use two names",
                )
            elif (
                isinstance(home, Var) and isinstance(value, Var) and home.type != value.type and not _holds(home, value)
            ):
                widen.add(name)
            else:
                if name in state.entries:
                    state.moved.add(name)
                moves.append(_Move(name, home, value))
        if widen:
            raise _Widen(state, widen)
        aliases = [
            (name, value)
            for name, value in builder.frame.names.items()
            if isinstance(value, Var) and any(move.home is value and move.name != name for move in moves)
        ]
        for name, saved in self._move_all(moves, node, aliases).items():
            builder.bind(name, saved)
        if rebind:
            for move in moves:
                builder.bind(move.name, move.home)

    def _leave(self, state: LoopState) -> None:
        builder = self.builder
        for name, home in state.homes.items():
            entry = state.entries.get(name)
            if entry is not None and isinstance(home, Var):
                if name in state.moved:
                    builder.emit(_alias(home, entry, builder.loc(state.node)))
                else:
                    home.forward = entry  # no round changed it
                    builder.bind(name, entry)
                    continue
            builder.bind(name, home)

    def carry(self, state: LoopState, names: list[str], values: list[Value], node: ast.AST) -> list[Var | ScalarVar]:
        """Homes for `init_values`: fresh, because the initial names keep their values."""
        homes: list[Var | ScalarVar] = []
        moves: list[_Move] = []
        for name, value in zip(names, values, strict=True):
            if is_scalar(value):
                home: Var | ScalarVar = ScalarVar(name, value.dtype, mutable=True)
            elif isinstance(value, Var):
                home = Var(name, value.type, self.builder.loc(node), mutable=True)
            else:
                self.builder.fail("type", f"a loop carries scalars, tiles and tensors, got {describe(value)}", node)
            homes.append(home)
            moves.append(_Move(name, home, value))
        self._move_all(moves, node)
        return homes

    def yield_into(self, homes: list[Var | ScalarVar], values: tuple[Value, ...], node: ast.AST) -> None:
        """The end of a round of a loop with `init_values`."""
        self._move_all(
            [_Move(home.name, home, value) for home, value in zip(homes, values, strict=True) if value is not home],
            node,
        )

    # Copies.

    def _move_all(self, moves: list[_Move], node: ast.AST, keep: Iterable[tuple[str, Value]] = ()) -> dict[str, Value]:
        """Copies that happen at once; the result says what names of `keep` mean now.

        A home that is also a source, or that a name in `keep` still means, is saved first.
        """
        if not moves:
            return {}
        builder = self.builder
        loc = builder.loc(node)
        targets = {id(move.home) for move in moves}
        saved: dict[int, Value] = {}
        for value in (*(move.value for move in moves), *(value for _, value in keep)):
            if id(value) in targets and id(value) not in saved:
                saved[id(value)] = self._save(value, node)
        for move in moves:
            value, home = saved.get(id(move.value), move.value), move.home
            if isinstance(home, ScalarVar):
                builder.emit(Let(home, _same_class(value, home), loc))  # type: ignore[arg-type]  # a scalar
            elif isinstance(home.type, TileType):
                assert isinstance(value, Var)
                for variable, extent in zip(home.tile.valid, value.tile.valid, strict=True):
                    if isinstance(variable, ScalarVar) and variable.mutable and variable is not extent:
                        builder.emit(Let(variable, of_dim(extent), loc))
                builder.emit(OpStmt("move", home, (value,), loc, {"target_memory": home.tile.space}))
            else:
                builder.emit(_alias(home, value, loc))  # type: ignore[arg-type]  # a tensor variable
        return {name: saved[id(value)] for name, value in keep if id(value) in saved}

    def _save(self, value: Value, node: ast.AST) -> Value:
        builder = self.builder
        if isinstance(value, ScalarVar):
            kept = ScalarVar(builder.unique(value.name), value.dtype)
            builder.emit(Let(kept, value, builder.loc(node)))
            return kept
        assert isinstance(value, Var)
        if isinstance(value.type, TileType):
            return builder.op("move", value.type, (value,), node, {"target_memory": value.type.space}, value.name)
        kept_view = Var(builder.unique(value.name), value.type, builder.loc(node))
        builder.emit(_alias(kept_view, value, builder.loc(node)))
        return kept_view


@dataclass(frozen=True, slots=True)
class _Move:
    name: str
    home: Var | ScalarVar
    value: Value


def _same_class(value: Expr, home: ScalarVar) -> Expr:
    if value.dtype.is_integer and home.dtype.is_integer:
        return value
    return cast(value, home.dtype)


def _holds(home: Var, value: Var) -> bool:
    """Whether the validity of a value is that of its home, or the home carries one."""
    if not isinstance(home.type, TileType) or not isinstance(value.type, TileType):
        return True
    return all(isinstance(part, ScalarVar) and part.mutable for part in home.type.valid) or same_valid(
        home.type, value.type
    )


def _alias(home: Var, value: Var, loc: object) -> OpStmt:
    """`home` becomes another name for the same device memory."""
    shape = value.tensor.shape
    offsets = tuple(index(0) for _ in shape)
    return OpStmt("slice", home, (value, offsets, shape), loc, {"keep": tuple(range(len(shape)))})  # type: ignore[arg-type]


def _leaves(block: list[Stmt]) -> bool:
    from pypto.ir.nodes import BreakStmt, ContinueStmt

    return bool(block) and isinstance(block[-1], (BreakStmt, ContinueStmt))
