"""Which device memory a variable of views names, where every path gives it the same."""

from __future__ import annotations

from pypto.frontend.builder import Builder
from pypto.ir.effects import defined
from pypto.ir.nodes import OpStmt, Var, walk


def root(builder: Builder, var: Var) -> Var:
    """The one variable whose value `var` has, whatever path led here; `var` itself where there are several.

    Loops that a `return` leaves give what it returns to variables of their own. That these are forwarded to what they
    stand for is known when the outermost loop is finished (`Regions._forward`), too late for who asks here.
    Placeholders are never looked at, so they do not count.
    """
    assigned: dict[Var, list[Var]] = {}
    inside: set[Var] = set()
    around = set(map(id, builder.block))
    for stmt in walk(builder.block):
        made = defined(stmt)
        if not isinstance(made, Var) or not made.is_tensor:
            continue
        if not made.mutable:
            inside.update({made.resolve()} if id(stmt) not in around else ())
        elif isinstance(stmt, OpStmt) and builder.placeholders.get(made) is not stmt:
            assert isinstance(stmt.args[0], Var), "an alias of a variable"
            assigned.setdefault(made.resolve(), []).append(stmt.args[0].resolve())
    seen, roots = {var.resolve()}, set()
    stack = list(seen)
    while stack:
        one = stack.pop()
        values = assigned.get(one, [])
        if not values and one not in builder.placeholders:
            roots.add(one)
        stack += [value for value in values if value not in seen]
        seen.update(values)
    return var if len(roots) != 1 or roots & inside else roots.pop()
