"""Source that a known condition leaves out, for the message about an output that is written there and nowhere else.

A scalar that is given to a kernel is a constant of its program. `if n == 0: return out` then returns always or never,
and what follows is not in the program, or is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.frontend.assigned import RETURNED
from pypto.frontend.returns import Give

if TYPE_CHECKING:
    from pypto.frontend.builder import Frame


@dataclass(frozen=True)
class LeftOut:
    """Statements that never run: an arm of a branch with a known condition, or what stands behind a `return`.

    `test` is the condition, and `holds` whether it does; `ends` is the `return`, or that with which the other arm ends.
    """

    statements: list[ast.stmt]
    test: ast.expr | None
    holds: bool
    ends: ast.stmt | None


def arm_of(node: ast.If, holds: bool) -> LeftOut:
    """What is left out of a branch whose condition is known."""
    taken, arm = (node.body, node.orelse) if holds else (node.orelse, node.body)
    last = taken[-1] if taken else None
    return LeftOut(arm, node.test, holds, last if isinstance(last, Give) else None)


def why_unwritten(frame: Frame, name: str) -> tuple[str, str] | None:
    """Why what is done with a parameter is not in the program, and what to write; `None` where nothing was left out.

    `name` is the parameter's.
    """
    found = ((use, one) for one in frame.left_out for stmt in one.statements for use in _uses(stmt) if use.id == name)
    use, one = min(found, key=lambda pair: pair[0].lineno, default=(None, None))
    if use is None or one is None:
        return None
    line = _line(frame, use)
    names = set() if one.test is None else {part.id for part in ast.walk(one.test) if isinstance(part, ast.Name)}
    where = "is left out" if one.ends is None else _behind(_line(frame, one.ends))
    if RETURNED in names:
        where = _behind(max((at for at in (_line(frame, origin) for origin in frame.given) if at < line), default=0))
    text = f"what line {line} does with it {where}"
    if one.test is None or RETURNED in names:
        return text, f"write {name} before that `return`"
    condition = f"`{ast.unparse(one.test)}` in line {_line(frame, one.test)} is always {str(one.holds).lower()}"
    keep = ", ".join(f"{constant}=pl.RUNTIME" for constant in sorted(names & frame.baked))
    kept = f", or compile with {keep}: a scalar that is given is a constant of the program" if keep else ""
    return f"{text}: {condition}", f"write {name} on the path that is left too{kept}"


def _behind(line: int) -> str:
    return f"stands after the `return` in line {line}, which always happens"


def _uses(stmt: ast.AST) -> Iterator[ast.Name]:
    """The names in a statement, but for what it returns: that writes nothing."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            yield node
        elif not isinstance(node, (ast.Return, Give)):
            stack += ast.iter_child_nodes(node)


def _line(frame: Frame, node: ast.AST) -> int:
    return frame.source.loc(node).line
