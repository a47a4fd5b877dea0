"""What a piece of a function mentions, assigns, and needs from before."""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.ir.effects import Name, defined, used
from pypto.ir.nodes import BreakStmt, ContinueStmt, ForStmt, IfStmt, Stmt, WhileStmt


@dataclass(slots=True)
class Unit:
    """What statements mention. `exposed` may be read before they assign it (or is only assigned on some paths)."""

    used: dict[Name, None] = field(default_factory=dict)
    assigned: dict[Name, None] = field(default_factory=dict)
    exposed: dict[Name, None] = field(default_factory=dict)


def survey(body: list[Stmt]) -> Unit:
    """Looks at every statement of a block."""
    unit = Unit()
    assigned = _block(body, unit, set())
    for name in unit.assigned:
        if name not in assigned:
            unit.exposed[name] = None
    return unit


def _block(body: list[Stmt], unit: Unit, assigned: set[Name]) -> set[Name]:
    """Fills `unit` from one block and returns what is certainly assigned after it."""
    for stmt in body:
        for name in used(stmt):
            unit.used[name] = None
            if name not in assigned:
                unit.exposed[name] = None
        if isinstance(stmt, IfStmt):
            then = _block(stmt.then, unit, set(assigned))
            orelse = _block(stmt.orelse, unit, set(assigned))
            assigned = then & orelse
        elif isinstance(stmt, ForStmt):
            unit.assigned[stmt.var] = None
            _block(stmt.body, unit, {*assigned, stmt.var})
        elif isinstance(stmt, WhileStmt):
            head = _block(stmt.head, unit, set(assigned))
            _block(stmt.body, unit, set(head))
        elif isinstance(stmt, (BreakStmt, ContinueStmt)):
            break
        target = defined(stmt)
        if target is not None and not isinstance(stmt, ForStmt):
            unit.assigned[target] = None
            assigned.add(target)
    return assigned
