"""Element by element, where more than the arguments has to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.ir.lower.ops.base import Lowering, emit, tile, valid
from pypto.ir.nodes import OpStmt
from pypto.language.ops import BY_NAME

if TYPE_CHECKING:
    from pypto.ir.lower.function import FunctionLowering


def _cast(to: FunctionLowering, stmt: OpStmt) -> None:
    emit(to, stmt, "cast", [to.arg(stmt.args[0], stmt.loc)], stmt.attrs["mode"])


def _compare(to: FunctionLowering, stmt: OpStmt) -> None:
    core = BY_NAME[stmt.op].core[stmt.attrs["cmp_type"]]
    emit(to, stmt, core, [to.arg(value, stmt.loc) for value in stmt.args])


def _partial(to: FunctionLowering, stmt: OpStmt) -> None:
    a, b = tile(stmt, 0), tile(stmt, 1)
    args = [to.arg(a, stmt.loc), to.arg(b, stmt.loc), *valid(to, a, stmt), *valid(to, b, stmt)]
    emit(to, stmt, stmt.op, args)


LOWERINGS: dict[str, Lowering] = {
    "cast": _cast,
    "cmp": _compare,
    "cmps": _compare,
    "part_add": _partial,
    "part_mul": _partial,
    "part_max": _partial,
    "part_min": _partial,
}
