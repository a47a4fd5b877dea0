"""Branches and loops: where the values of a name meet.

A name that a branch or a loop assigns needs one place that holds its value wherever paths meet: its *home*. Tiles are
costly to copy, so a tile that only this name holds becomes its own home and operations assign it in place. Everything
else gets a fresh home and is copied into it where the path ends. A scalar that several paths assign is never shared by
two names: giving it a second one copies it (`Builder.detach`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.frontend import views
from pypto.frontend.assigned import assigned_names, called, is_result
from pypto.frontend.builder import Builder, Refused
from pypto.frontend.moves import Move, alias, move_all
from pypto.frontend.region import Arm, Carried, LoopState, Needs, ReadAgain, Region, Start
from pypto.frontend.rounds import Rounds
from pypto.frontend.values import (
    NONE,
    POISON,
    TASK_ID,
    Ambiguous,
    Poison,
    PyValue,
    Value,
    describe,
    is_scalar,
    same_type,
)
from pypto.ir.exprs import Const, Dim, ScalarVar, cast, index, spelt_out
from pypto.ir.nodes import BreakStmt, ContinueStmt, ForStmt, Let, OpStmt, Stmt, Var, WhileStmt, children
from pypto.ir.types import TensorType, TileType, same_box, same_extents, same_valid
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader


class Regions:
    """Reads bodies of branches and loops and reconciles names at their ends."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.builder: Builder = reader.builder
        self.loops: list[LoopState] = []
        self.carried: list[Carried] = []
        self.carriers: list[Region] = []

    @contextmanager
    def _inside(self, homes: dict[str, Var | ScalarVar], carrier: Region) -> Iterator[None]:
        outer, self.builder.homes = self.builder.homes, homes
        self.carriers.append(carrier)
        self.builder.frame.conditional += 1
        frame = self.builder.frame
        try:
            yield
        finally:
            frame.conditional -= 1
            self.carriers.pop()
            self.builder.homes = outer

    def _sole_tile(self, value: Value | None) -> Var | None:
        """The tile that only one name holds: it may be assigned in place."""
        if isinstance(value, Var) and isinstance(value.type, TileType) and self.builder.users.get(value) == 1:
            return value
        return None

    # Branches.

    def start_anew(self, name: str) -> bool:
        """Whether a name that gets a value of another type than its home has none: only the other arm assigned it.

        Where a finished block left the value before, the region is read again without it.
        """
        region = next((region for region in reversed(self.carriers) if not region.decided), None)
        if region is not None and name in region.left:
            raise ReadAgain(region, Needs(anew={name}))
        return region is not None and name in region.introduced

    def decided(self, arm: list[ast.stmt]) -> None:
        """Reads the arm that a known condition leaves of a branch."""
        self.carriers.append(Region(left=frozenset(), decided=True))
        try:
            self.reader.statements.read(arm)
        finally:
            self.carriers.pop()

    def branch(self, node: ast.If) -> tuple[list[Stmt], list[Stmt]]:
        """Reads both arms and merges the names that they assign."""
        start = Start(self.reader)
        while True:
            region = Region(left=start.left())
            try:
                return self._branch(node, region)
            except ReadAgain as again:
                if again.region is not region:
                    raise
                start.again(again.needs)

    def _branch(self, node: ast.If, region: Region) -> tuple[list[Stmt], list[Stmt]]:
        builder = self.builder
        names = assigned_names([*node.body, *node.orelse])
        before = dict(builder.frame.names)
        homes: dict[str, Var | ScalarVar] = {}
        for name in names:
            held = self._sure(name, before.get(name))
            tile = self._sole_tile(held)
            if tile is not None:
                homes[name] = tile
                tile.mutable = True
            elif isinstance(held, ScalarVar) and held.mutable:
                homes[name] = held
        then = self._arm(node.body, names, homes, region)
        for name, value in then.values.items():  # the other arm assigns what this one introduced
            tile = self._sole_tile(value)
            if name not in before and tile is not None and not then.names(tile.tile.valid):
                homes[name] = tile
                region.introduced.add(name)
        builder.restore(before)
        first, region.yielded = region.yielded, None
        orelse = self._arm(node.orelse, names, homes, region)
        builder.restore(before)
        self._check_yields(node, first, region, then.leaves or orelse.leaves)
        self._merge(node, names, then, orelse, homes, region)
        if region.yielded is not None:
            kept = {*before, *_yield_targets(node.body), *_yield_targets(node.orelse)}
            builder.hide(name for name in names if name not in kept)
        return then.block, orelse.block

    def _check_yields(self, node: ast.If, first: tuple[Value, ...] | None, region: Region, leaves: bool) -> None:
        """Both arms of a branch yield to the same names, or none does; an arm that leaves a loop need not."""
        second, region.yielded = region.yielded, first if region.yielded is None else region.yielded
        if leaves or (first is None and second is None):
            return
        names = [_yield_targets(arm) for arm in (node.body, node.orelse)]
        if first is None or second is None:
            given = ", ".join(names[0] or names[1])
            hint = f"end the other with {given} = pl.yield_(...), write an else for it, or assign without pl.yield_"
            self.builder.fail("syntax", "only one arm of this branch yields", node, hint)
        if names[0] != names[1]:
            message = f"one arm of this branch yields {', '.join(names[0])}, the other {', '.join(names[1])}"
            self.builder.fail("syntax", message, node, "yield to the same names in both arms")

    def _arm(self, body: list[ast.stmt], names: list[str], homes: dict[str, Var | ScalarVar], region: Region) -> Arm:
        builder = self.builder
        with self._inside(dict(homes), region), builder.into([]) as block:
            self.reader.statements.read(body)
        return Arm(block, {name: builder.frame.names.get(name) for name in names})

    def _merge(
        self,
        node: ast.If,
        names: list[str],
        then: Arm,
        orelse: Arm,
        homes: dict[str, Var | ScalarVar],
        region: Region,
    ) -> None:
        builder = self.builder
        if then.leaves or orelse.leaves:
            for name, value in (orelse if then.leaves else then).values.items():
                if value is not None:
                    builder.bind(name, value)
            return
        for name in names:
            left, right = self._sure(name, then.values[name]), self._sure(name, orelse.values[name])
            if is_result(name):
                left, right = self._filled(node, then, left, right), self._filled(node, orelse, right, left)
            left, right = (side.resolve() if isinstance(side, Var) else side for side in (left, right))
            if left is None or right is None:  # only one arm gives it a value: visible afterwards, as in Python
                for arm, value in ((then, left), (orelse, right)):
                    if value is not None:
                        arm.keep.append((name, value))
                        builder.bind(name, value)
                        self._may_be_skipped(name, node)
                continue
            left, right = self._on_chip(node, then, left, right), self._on_chip(node, orelse, right, left)
            if name in region.left and not same_type(left, right):
                raise ReadAgain(region, Needs(anew={name}))
            try:
                home = self._meet(node, name, left, right, homes.get(name), then)
            except Refused:
                home = POISON
            builder.bind(name, home)
            if isinstance(home, (Var, ScalarVar)):
                then.moves += [] if left is home else [Move(name, home, left)]
                orelse.moves += [] if right is home else [Move(name, home, right)]
        for arm in (then, orelse):
            with builder.into(arm.block):
                for name, saved in move_all(builder, arm.moves, node, arm.keep).items():
                    builder.bind(name, saved)

    def _filled(self, node: ast.If, arm: Arm, value: Value | None, other: Value | None) -> Value | None:
        """Something of the type of `other` where an arm returns nothing: it is never looked at, and must exist."""
        if value is not None or other is None or isinstance(other, (Const, PyValue, Poison)):
            return other if value is None else value
        if isinstance(other, Var) and (not other.is_tensor or other in self.builder.frame.names.values()):
            return value if not other.is_tensor else other
        if not is_scalar(other) and not isinstance(other, Var):
            return other
        with self.builder.into(arm.block):
            return self._declare("r", other, node)

    def _sure(self, name: str, value: Value | None) -> Value | None:
        unsure, _ = self.builder.frame.unsure.get(name, (None, None))
        return None if value is not None and value is unsure else value

    def _may_be_skipped(self, name: str, node: ast.stmt) -> None:
        """Device memory and scalars must be known wherever they are used; a tile that nothing wrote is undefined."""
        value = None if is_result(name) else self.builder.frame.names.get(name)
        if is_scalar(value) or (isinstance(value, Var) and value.is_tensor):
            self.builder.frame.unsure[name] = value, self.builder.loc(node)

    def _on_chip(self, node: ast.If, arm: Arm, value: Value, other: Value) -> Value:
        """Device memory that meets an on-chip value is loaded at the end of its arm."""
        if isinstance(value, Var) and isinstance(other, Var) and value.is_tensor and not other.is_tensor:
            with self.builder.into(arm.block):
                return views.load_whole(self.builder, value, node)
        return value

    def _meet(
        self, node: ast.If, name: str, left: Value, right: Value, home: Var | ScalarVar | None, then: Arm
    ) -> Value:
        """The home of a name after a branch; `left` itself where both arms agree."""
        if left is right or (isinstance(left, (Const, PyValue)) and left == right):
            return left
        for side in (left, right):
            if isinstance(side, Poison):
                return side
        if not same_type(left, right):
            return _two_meanings(name, left, right)
        if is_scalar(left) and is_scalar(right):
            return ScalarVar(name, left.dtype if left.dtype.bits >= right.dtype.bits else right.dtype, mutable=True)
        if not isinstance(left, Var) or not isinstance(right, Var):
            if left in (NONE, TASK_ID) and right in (NONE, TASK_ID):
                kept = left if isinstance(left, PyValue) and left.ids is not None else right
                return PyValue(TASK_ID.obj, kept.ids if isinstance(kept, PyValue) else None)
            return _two_meanings(name, left, right)
        if isinstance(left.type, TensorType):
            if not same_extents(left.type.valid, right.type.valid):
                text = f"of the view {called(name)}, other extents are valid on each path"
                return Ambiguous(text, "slice it after the branch, with a number of each path: valid_shape=[n, ...]")
            return Var(name, self._outside(left.type, node), self.builder.loc(node), mutable=True)
        if not same_valid(left.tile, right.tile) or then.names(left.tile.valid):
            return self._wide(name, left.tile, node)
        if isinstance(home, Var) and same_box(home.tile, left.tile) and same_valid(home.tile, left.tile):
            home.mutable = True
            return home
        return Var(name, left.type, self.builder.loc(node), mutable=True)

    def _outside(self, type: TensorType, node: ast.If) -> TensorType:
        """The type of a view that both arms give, of numbers from before the branch: an arm has names of its own."""

        def outside(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
            return tuple(
                self.builder.dim(spelt_out(dim), node) if isinstance(dim, ScalarVar) and dim.form is not None else dim
                for dim in dims
            )

        if self.builder.explicit:
            return type
        partial = None if type.partial is None else outside(type.partial)
        return replace(type, shape=outside(type.shape), partial=partial)

    # Loops.

    def loop(
        self,
        node: ast.For | ast.While,
        body: Callable[[LoopState], None],
        carried: list[str] | None = None,
        runs: bool = False,
    ) -> tuple[LoopState, list[Stmt]]:
        """Reads a loop. `body` reads what repeats; copies into homes go to the current block, before the loop.

        `carried` names (of `init_values`) are homes too, whether the body assigns them or not. `runs` says that there
        is at least one round.
        """
        builder = self.builder
        assigned = assigned_names(node.body)
        self._share_with_lanes(assigned)
        start, needs = Start(self.reader), Needs()
        before = start.names
        while True:
            names = [
                name
                for name in dict.fromkeys([*assigned, *(carried or ())])
                if self._sure(name, before.get(name)) is not None
            ]
            left = start.left().difference(carried or ())
            state = LoopState(
                node, builder.level, left=left, yields=bool(carried), assigned=frozenset(assigned), before=before
            )
            self._enter(state, [*names, *needs.late], needs)
            state.depth = builder.frame.conditional + 1
            block: list[Stmt] = []
            self.loops.append(state)
            try:
                with self._inside(dict(state.homes), state), builder.into(block):
                    body(state)
                    self._find_late(state, needs)
                    if not Arm(block, {}).leaves:
                        self.sync(state, node, rebind=True)
                break
            except ReadAgain as again:
                if again.region is not state:
                    raise
                needs = needs | again.needs
                start.again(needs)
            finally:
                self.loops.pop()
        self._leave(state)
        for name in assigned:
            if self._sure(name, before.get(name)) is not None:
                continue
            late = name in needs.late and is_scalar(needs.late[name])
            if self._rounds_of(node, name).after is not True if late else not runs or _leaves_early(block):
                self._may_be_skipped(name, node)
        return state, block

    def _share_with_lanes(self, assigned: list[str]) -> None:
        """Names that vector lanes assign in a loop have a value in each lane from the start."""
        frame = self.builder.frame
        for name in assigned:
            base, _, lane = name.rpartition(" lane ")
            if lane and base in frame.names and (base not in frame.lanes or name not in frame.names):
                self.builder.bind(name, frame.names[base])
        frame.lanes.update(base for name in assigned if (base := name.rpartition(" lane ")[0]) in frame.names)

    def look_back(self, node: ast.Name) -> None:
        """A name without a value: an earlier round of a loop around may have assigned it. Returns if none can have."""
        found = [loop for loop in self.loops if node.id in loop.assigned]
        # The outermost loop is right for every program; in a kernel, of the loops inside it, so that tasks of different
        # rounds stay independent.
        found = [loop for loop in found if loop.level == self.builder.level] or found
        if found and self.builder.frame.conditional > found[0].depth:
            found[0].wanted.setdefault(node.id, node)
            raise Refused

    def _find_late(self, state: LoopState, needs: Needs) -> None:
        builder, found = self.builder, Needs()
        for name, node in state.wanted.items():
            sample = builder.frame.seen.get(name)
            # A tile that nothing wrote is undefined; a scalar would be a number that nobody gave it.
            missed = self._rounds_of(state.node, name).missed if is_scalar(sample) else []
            tile = isinstance(sample, Var) and not sample.is_tensor
            if sample is not None and name not in needs.late and not missed and (is_scalar(sample) or tile):
                found.late[name] = sample
            else:
                hint = "give it a value before the loop"
                place = missed[0] if missed else node
                builder.report("value", f"{name!r} has no value here in the first round of the loop", place, hint)
        if found:
            raise ReadAgain(state, found)

    def _rounds_of(self, node: ast.stmt, name: str) -> Rounds:
        rounds = Rounds(name, self._number)
        assert isinstance(node, (ast.For, ast.While)), "a loop"
        rounds.after = rounds.loop(node, False)
        return rounds

    def _number(self, node: ast.expr) -> int | None:
        """An integer that is known while the kernel is read."""
        value: object = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Name):
            held = self.builder.frame.names.get(node.id)
            value = held.value if isinstance(held, Const) else self.builder.frame.namespace.peek(node.id)
        return value if isinstance(value, int) else None

    def _declare(self, name: str, sample: Value, node: ast.AST) -> Var | ScalarVar:
        """A home without a value yet."""
        builder, loc = self.builder, self.builder.loc(node)
        if is_scalar(sample):
            variable = ScalarVar(name, sample.dtype, mutable=True)
            builder.emit(Let(variable, cast(index(0), sample.dtype), loc))
            return variable
        assert isinstance(sample, Var), "only scalars, tiles and views are declared"
        if isinstance(sample.type, TensorType):
            return views.placeholder(builder, name, sample.type, node)
        type = sample.type
        home = Var(name, type, loc, mutable=True) if type.is_full else self._wide(name, type, node)
        for part, extent in zip(home.tile.valid, type.shape, strict=True):
            if isinstance(part, ScalarVar):
                builder.emit(Let(part, index(extent), loc))
        builder.emit(OpStmt("create_tile", home, (), loc))
        return home

    def _enter(self, state: LoopState, names: list[str], needs: Needs) -> None:
        builder = self.builder
        for name in names:
            if name in needs.late:
                state.homes[name] = declared = self._declare(name, needs.late[name], state.node)
                builder.bind(name, declared)
                continue
            held = builder.frame.names[name]
            if name in needs.loaded and isinstance(held, Var):
                held = views.load_whole(builder, held, state.node)
                builder.bind(name, held)
            home: Var | ScalarVar
            if isinstance(held, ScalarVar) and held.mutable:
                home = held  # a variable of its own already: no other name ever means it
            elif is_scalar(held):
                home = variable = ScalarVar(name, held.dtype, mutable=True)
                builder.emit(Let(variable, held, builder.loc(state.node)))
            elif isinstance(held, Var) and held.is_tensor:
                home = Var(name, held.type, held.loc, mutable=True)
                state.entries[name] = held
            elif isinstance(held, Var):
                home = self._tile_home(name, held, state.node, name in needs.wide)
            else:
                continue
            state.homes[name] = home
            builder.bind(name, home)

    def _tile_home(self, name: str, held: Var, node: ast.AST, wide: bool) -> Var:
        if not wide and self._sole_tile(held) is held:
            held.mutable = True
            return held
        home = self._wide(name, held.tile, node) if wide else Var(name, held.type, self.builder.loc(node), mutable=True)
        move_all(self.builder, [Move(name, home, held)], node)
        return home

    def _wide(self, name: str, type: TileType, node: ast.AST) -> Var:
        """A tile variable whose validity is held by variables too."""
        valid = tuple(ScalarVar(f"{name}_valid{axis}", INDEX, mutable=True) for axis in range(len(type.shape)))
        wide = TileType(type.shape, type.dtype, valid, type.space, type.tensor_level)
        return Var(name, wide, self.builder.loc(node), mutable=True)

    def keep_results(self, state: LoopState, node: ast.stmt) -> None:
        """Before a `return` leaves a loop: what it returns is known after the loop."""
        builder, needs = self.builder, Needs()
        for name in filter(is_result, state.assigned):
            value = builder.frame.names.get(name)
            if value is None or isinstance(value, Poison) or name in state.homes:
                continue
            if isinstance(value, Var) and value.is_tensor:
                inside = value not in state.homes.values() and value not in state.before.values()
                if inside or state.results.setdefault(name, value) is not value:
                    needs.late[name] = value
            elif is_scalar(value) or isinstance(value, Var):
                needs.late[name] = value
            elif state.results.setdefault(name, value) != value:
                state.results[name] = Ambiguous(f"{called(name)} is not the same on each path out of a loop")
        if needs:
            raise ReadAgain(state, needs)

    def sync(self, state: LoopState, node: ast.AST, rebind: bool) -> None:
        """At the end of a round, or before `break`/`continue`: what names hold goes to their homes."""
        builder = self.builder
        moves: list[Move] = []
        needs = Needs()
        for name, home in state.homes.items():
            value = builder.frame.names.get(name, POISON)
            if value is home or isinstance(value, Poison) or value is state.entries.get(name):
                continue
            if not same_type(home, value):
                if name in state.left:
                    needs.anew.add(name)
                    continue
                builder.report(
                    "type",
                    f"{called(name)} is {describe(home)} before the loop and {describe(value)} at its end",
                    node,
                    "a name keeps its type; use two names",
                )
                continue
            if isinstance(home, Var) and isinstance(value, Var):
                if home.is_tensor and not value.is_tensor:
                    needs.loaded.add(name)
                    continue
                if value.is_tensor and not home.is_tensor:
                    value = views.load_whole(builder, value, node)
                if home.is_tensor and not same_extents(home.type.valid, value.type.valid):
                    builder.report(
                        "value",
                        f"of the view {called(name)}, other extents are valid before the loop than at its end",
                        node,
                        "slice it in the loop where it is used, and carry the number alone: valid_shape=[n, ...]",
                    )
                    continue
                if not home.is_tensor and not _holds(home.tile, value.tile):
                    needs.wide.add(name)
                    continue
            moves.append(Move(name, home, value))
        if needs:
            raise ReadAgain(state, needs)
        targets = {id(move.home): move.name for move in moves}
        aliases = [(name, value) for name, value in builder.frame.names.items() if targets.get(id(value), name) != name]
        mark = len(builder.block)
        for name, saved in move_all(builder, moves, node, aliases).items():
            builder.bind(name, saved)
        for stmt in builder.block[mark:]:
            if isinstance(stmt, OpStmt) and isinstance(stmt.out, Var) and stmt.out in state.homes.values():
                state.moved.setdefault(stmt.out, []).append((builder.block, stmt))
        if rebind:
            for move in moves:
                builder.bind(move.name, move.home)

    def _forward(self, carried: list[Carried]) -> None:
        """Tensors that loops do not change, because they only get what they are already, need no variable.

        All are taken for such ones first, as what one gets may be another of them: those that are none drop out.
        """
        for one in carried:
            one.home.forward = one.entry
        wrong = True
        while wrong:
            wrong = False
            for one in carried:
                if one.home.forward is not None and not one.stays():
                    one.home.forward, wrong = None, True
        for one in carried:
            if one.home.forward is not None:
                for block, stmt in one.moves:
                    block[:] = [other for other in block if other is not stmt]

    def _leave(self, state: LoopState) -> None:
        builder = self.builder
        for name, home in state.homes.items():
            entry = state.entries.get(name)
            if entry is not None and isinstance(home, Var):
                moves = state.moved.get(home, [])
                if not moves:
                    home.forward = entry
                    builder.bind(name, entry)
                    continue
                start = alias(home, entry, builder.loc(state.node))
                builder.emit(start)
                self.carried.append(Carried(home, entry, [*moves, (builder.block, start)]))
            builder.bind(name, home)
        if not self.loops:  # what inner loops carry depends on what those around them do
            self._forward(self.carried)
            self.carried = []
        for name, value in state.results.items():
            builder.bind(name, value.resolve() if isinstance(value, Var) else value)


def _two_meanings(name: str, left: Value, right: Value) -> Ambiguous:
    return Ambiguous(f"{called(name)} is {describe(left)} on one path and {describe(right)} on the other")


def _yield_targets(body: list[ast.stmt]) -> list[str]:
    """The names that the last statement of an arm gives what it yields."""
    return assigned_names(body[-1:], boxes=False)


def _leaves_early(block: list[Stmt]) -> bool:
    """Whether a `break` or `continue` of this loop stands in its body."""
    stack = list(block)
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, (BreakStmt, ContinueStmt)):
            return True
        if not isinstance(stmt, (ForStmt, WhileStmt)):
            stack.extend(inner for part in children(stmt) for inner in part)
    return False


def _holds(home: TileType, value: TileType) -> bool:
    """Whether a home can take a value: equal validity, or a validity that is carried."""
    return all(isinstance(part, ScalarVar) and part.mutable for part in home.valid) or same_valid(home, value)
