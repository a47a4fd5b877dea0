"""Copies between variables that happen at once, where paths meet."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from pypto.frontend.builder import Builder
from pypto.frontend.values import Value
from pypto.ir.diagnostics import Loc
from pypto.ir.exprs import Expr, ScalarVar, cast, index, of_dim
from pypto.ir.nodes import Let, OpStmt, Var
from pypto.ir.types import TileType


@dataclass(frozen=True, slots=True)
class Move:
    """`home` gets `value`; `name` is what the author calls it."""

    name: str
    home: Var | ScalarVar
    value: Value


def move_all(
    builder: Builder, moves: list[Move], node: ast.AST, keep: Iterable[tuple[str, Value]] = ()
) -> dict[str, Value]:
    """Emits copies that happen at once; the result says what names of `keep` mean now.

    A home that a name in `keep` still means is saved first, and so is one of each cycle (`a, b = b, a`).
    """
    loc = builder.loc(node)
    saved: dict[int, Value] = {}
    targets = {id(move.home) for move in moves}
    for _, value in keep:
        if id(value) in targets and id(value) not in saved:
            saved[id(value)] = _save(builder, value, loc)
    kept = {name: saved[id(value)] for name, value in keep if id(value) in saved}
    pending = moves
    while pending:
        # A home that no other pending copy reads can be overwritten; where there is none, the copies form a cycle.
        sources = {id(move.value) for move in pending if id(move.value) not in saved}
        ready = [move for move in pending if id(move.home) not in sources]
        if not ready:
            saved[id(pending[0].home)] = _save(builder, pending[0].home, loc)
            continue
        for move in ready:
            _move(builder, move.home, saved.get(id(move.value), move.value), loc)
        pending = [move for move in pending if id(move.home) in sources]
    return kept


def _move(builder: Builder, home: Var | ScalarVar, value: Value, loc: Loc) -> None:
    if isinstance(home, ScalarVar):
        builder.emit(Let(home, _same_class(value, home), loc))
    elif isinstance(home.type, TileType):
        assert isinstance(value, Var), "a tile is copied from a tile"
        for variable, extent in zip(home.type.valid, value.tile.valid, strict=True):
            if isinstance(variable, ScalarVar) and variable.mutable and variable is not extent:
                builder.emit(Let(variable, of_dim(extent), loc))
        builder.emit(OpStmt("move", home, (value,), loc, {"target_memory": home.type.space}))
    else:
        assert isinstance(value, Var), "a tensor is an alias of a tensor"
        builder.emit(alias(home, value, loc))


def alias(home: Var, value: Var, loc: Loc) -> OpStmt:
    """`home` becomes another name for the same device memory."""
    shape = value.tensor.shape
    offsets = tuple(index(0) for _ in shape)
    return OpStmt("slice", home, (value, offsets, shape), loc, {"keep": tuple(range(len(shape)))})


def _save(builder: Builder, value: Value, loc: Loc) -> Value:
    if isinstance(value, ScalarVar):
        kept = ScalarVar(builder.unique(value.name), value.dtype)
        builder.emit(Let(kept, value, loc))
        return kept
    assert isinstance(value, Var), "only variables are homes"
    if isinstance(value.type, TileType):
        return builder.op("move", value.type, (value,), loc, {"target_memory": value.type.space}, value.name)
    view = Var(builder.unique(value.name), value.type, loc)
    builder.emit(alias(view, value, loc))
    return view


def _same_class(value: Value, home: ScalarVar) -> Expr:
    expr: Expr = value  # type: ignore[assignment]  # homes of scalars get scalars
    return expr if expr.dtype.is_integer and home.dtype.is_integer else cast(expr, home.dtype)
