"""`for lane in pl.split_aiv(2, mode=...)`: code that both vector lanes of a core run.

The body is read for both lanes, statement by statement: first for lane 0, then for lane 1. What it assigns is a value
of its own in each lane, under a name of its own, and stays one across regions and loops. `pl.aiv_shard` gives a lane
its half, `pl.aic_gather` joins both halves. A loop or branch that gathers, or has a barrier, is entered by both lanes
together; all others are run by one lane after the other.
"""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pypto.frontend import validity
from pypto.frontend.assigned import LANES, assigned_names, lane_name
from pypto.frontend.builder import Builder, usable
from pypto.frontend.rules import pieces
from pypto.frontend.rules.base import tile_value
from pypto.frontend.values import PyValue, Value, describe
from pypto.ir.exprs import Const, index
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.enums import SplitMode

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

_SHARD: Final = "shard of lane {}"
_JOIN: Final = "join of lanes"
_LOCKSTEP: Final = frozenset({"aic_gather", "syncall"})


@dataclass(frozen=True, slots=True)
class LaneCall:
    """What `aiv_shard` and `aic_gather` mean in a region: calls of these take values of both lanes."""

    mode: SplitMode
    lane: int | None


def read_region(reader: Reader, node: ast.For, call: ast.Call) -> None:
    """Reads a region for both lanes."""
    builder, usage = reader.builder, "write for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):"
    if builder.level != "kernel":
        builder.fail("syntax", "pl.split_aiv outside a kernel", call, "open a pl.at or pl.spmd scope around it")
    if not isinstance(node.target, ast.Name):
        builder.fail("syntax", "this is no loop target", node.target, usage)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(call.args) == 1:
        given["n"] = call.args[0]
    if set(given) != {"n", "mode"} or len(call.args) > 1:
        builder.fail("type", "pl.split_aiv takes the number of lanes and mode=", call, usage)
    count, mode = (usable(builder, reader.expressions.value(given[name])) for name in ("n", "mode"))
    if not isinstance(count, Const) or count.value != len(LANES):
        builder.fail("value", f"a core has {len(LANES)} vector lanes", given["n"], usage)
    if not isinstance(mode, PyValue) or not isinstance(mode.obj, SplitMode):
        builder.fail("type", f"the mode must be a pl.SplitMode, got {describe(mode)}", given["mode"], usage)
    names = assigned_names(node.body)
    if _has_region(node.body):
        builder.fail(
            "syntax", "pl.split_aiv inside pl.split_aiv", node, "a lane has no lanes: close the outer region first"
        )
    frame = builder.frame
    for name in names:
        for lane in LANES:
            if name in frame.names and (name not in frame.lanes or lane_name(name, lane) not in frame.names):
                builder.bind(lane_name(name, lane), frame.names[name])
    for lane in LANES:
        builder.bind(_SHARD.format(lane), PyValue(LaneCall(mode.obj, lane)))
    builder.bind(_JOIN, PyValue(LaneCall(mode.obj, None)))
    mistakes = len(builder.diagnostics)
    apart = frozenset(names) | {name for name in frame.lanes if lane_name(name, 0) in frame.names}
    reader.statements.read(_Expander(apart, node.target.id).block(node.body))
    for position in range(mistakes, len(builder.diagnostics)):  # the author knows nothing of our names
        plain = re.sub(r" lane [01]\b", "", builder.diagnostics[position].message)
        builder.diagnostics[position] = replace(builder.diagnostics[position], message=plain)
    for name in names:
        last = frame.names.get(lane_name(name, LANES[-1]))
        if last is not None:
            builder.bind(name, last)
            frame.lanes.add(name)


def _has_region(body: list[ast.stmt]) -> bool:
    return any(_calls(stmt, frozenset({"split_aiv"})) for stmt in body)


def _calls(node: ast.AST, wanted: frozenset[str]) -> bool:
    return any(_called(inner) in wanted for inner in ast.walk(node) if isinstance(inner, ast.Call))


def _called(node: ast.Call) -> str:
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


class _Expander:
    """Rewrites the body of a region as statements for both lanes."""

    def __init__(self, names: frozenset[str], index: str) -> None:
        self.names = names
        self.index = index

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements for both lanes."""
        return [copied for stmt in body for copied in self._statement(stmt)]

    def _statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call) and _called(stmt.value) == "syncall":
            return [stmt]
        if isinstance(stmt, (ast.For, ast.While, ast.If)) and _calls(stmt, _LOCKSTEP):
            together: Any = copy.copy(stmt)
            together.body, together.orelse = self.block(stmt.body), self.block(stmt.orelse)
            for field in ("iter", "test"):
                if hasattr(stmt, field):
                    setattr(together, field, self._for_lane(getattr(stmt, field), 0))
            return [together]
        return [self._for_lane(stmt, lane) for lane in LANES]

    def _for_lane(self, node: Any, lane: int) -> Any:
        return _Lane(self.names, self.index, lane).visit(copy.deepcopy(node))


class _Lane(ast.NodeTransformer):
    """The same code as one lane sees it."""

    def __init__(self, names: frozenset[str], index: str, lane: int) -> None:
        self.names = names
        self.index = index
        self.lane = lane

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name that the region assigns is the lane's own; the index is a constant."""
        if node.id == self.index and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(self.lane), node)
        if node.id in self.names:
            return ast.copy_location(ast.Name(lane_name(node.id, self.lane), node.ctx), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Calls that know lanes."""
        name = _called(node)
        if name == "get_subblock_idx":
            return ast.copy_location(ast.Constant(self.lane), node)
        if name == "aiv_shard":
            func = ast.copy_location(ast.Name(_SHARD.format(self.lane), ast.Load()), node.func)
            return ast.copy_location(ast.Call(func, [self.visit(item) for item in node.args], []), node)
        if name == "aic_gather":
            func = ast.copy_location(ast.Name(_JOIN, ast.Load()), node.func)
            both = [_Lane(self.names, self.index, lane).visit(copy.deepcopy(node.args[0])) for lane in LANES]
            return ast.copy_location(ast.Call(func, both, []), node)
        self.generic_visit(node)
        return node


def call_lane(reader: Reader, function: LaneCall, node: ast.Call) -> Value:
    """A call of `aiv_shard` or `aic_gather` in a region."""
    builder = reader.builder
    values = [usable(builder, reader.expressions.value(argument)) for argument in node.args]
    what = "pl.aic_gather" if function.lane is None else "pl.aiv_shard"
    tiles = [tile_value(builder, value, node, f"the operand of {what}") for value in values]
    if function.mode is SplitMode.NONE:
        return tiles[0]
    axis = 0 if function.mode is SplitMode.UP_DOWN else 1
    if function.lane is None:
        return _join(builder, tiles[0], tiles[1], axis, node)
    return _half(builder, tiles[0], axis, function.lane, node)


def _half(builder: Builder, tile: Var, axis: int, lane: int, node: ast.Call) -> Var:
    shape = tile.tile.shape
    if len(shape) != 2 or shape[axis] % 2:
        hint = "pad it, or use pl.SplitMode.NONE"
        builder.fail("value", f"pl.aiv_shard: {list(shape)} has no halves along axis {axis}", node, hint)
    box = tuple(extent // 2 if position == axis else extent for position, extent in enumerate(shape))
    offsets = tuple(index(lane * box[axis] if position == axis else 0) for position in range(2))
    return pieces.part_of(builder, tile, offsets, box, box, (0, 1), node)


def _join(builder: Builder, a: Var, b: Var, axis: int, node: ast.Call) -> Var:
    left, right = a.tile, b.tile
    if left.shape != right.shape or len(left.shape) != 2 or left.dtype is not right.dtype:
        hint = "gather what both lanes computed in the same way"
        builder.fail("type", f"pl.aic_gather: {describe(a)} in one lane, {describe(b)} in the other", node, hint)
    shape = tuple(2 * extent if position == axis else extent for position, extent in enumerate(left.shape))
    whole = TileType(shape, left.dtype, shape, left.space, left.tensor_level)
    joined = builder.op("create_tile", whole, (), node)
    for lane, half in enumerate((a, b)):
        at = tuple(index(lane * left.shape[axis] if position == axis else 0) for position in range(2))
        joined = pieces.put(builder, joined, half, at, node)
    parts = tuple(
        validity.total(builder, (left.valid[axis], right.valid[axis]), node)
        if position == axis
        else left.valid[position]
        for position in range(2)
    )
    return pieces.retyped(builder, joined, replace(whole, valid=parts), node)
