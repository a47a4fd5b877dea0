"""Statements: assignments, branches, loops, scopes, returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from pypto.frontend import boxes, left_out, loops, returns, scalars, scopes, views
from pypto.frontend.annotations import check_local
from pypto.frontend.assigned import RETURNED, assigned_names, called
from pypto.frontend.builder import Builder, Refused, usable
from pypto.frontend.region import leaves
from pypto.frontend.values import NONE, POISON, PyValue, Value, Window, describe, is_scalar, is_task_id, same_type
from pypto.ir.exprs import TRUE, Const, Expr, ScalarVar, Symbol
from pypto.ir.nodes import BreakStmt, ContinueStmt, IfStmt, Let, OpStmt, Var
from pypto.ir.types import TileType, same_box, same_valid

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

_REJECTED: Final[dict[type[ast.stmt], tuple[str, str]]] = {
    ast.FunctionDef: ("a nested function", "define it outside and decorate it with @pl.jit.inline"),
    ast.AsyncFunctionDef: ("a nested function", "define it outside and decorate it with @pl.jit.inline"),
    ast.ClassDef: ("a class", "kernels have scalars, tensors and tiles"),
    ast.Try: ("try", "kernels raise no exceptions"),
    ast.Raise: ("raise", "kernels raise no exceptions; pl.static_assert checks constants"),
    ast.Assert: ("assert", "pl.static_assert checks constants"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.Delete: ("del", "names need no deletion"),
    ast.Global: ("global", "kernels do not assign outside names"),
    ast.Nonlocal: ("nonlocal", "kernels do not assign outside names"),
}


MAX_BLOCKS: Final = 100
"""Blocks inside each other, those around calls of spliced functions included: as many as Python's text has levels of
indentation. The core takes 128, some of which passes add."""


class Statements:
    """Reads statements of the current frame into the current block of the builder."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.builder: Builder = reader.builder
        self.called: ast.expr | None = None  # what stands as a statement: nobody uses its value

    def read_function(self, body: list[ast.stmt]) -> None:
        """Reads a whole function; its frame has the result."""
        once = body if self.builder.explicit else returns.single_exit(self.builder, body, MAX_BLOCKS)
        self.read(once)
        if once is not body:
            self.builder.frame.result = returns.joined(self.builder)

    def read(self, body: list[ast.stmt]) -> None:
        """Reads statements in order. A refused one is reported, what it assigns becomes unknown, the rest is read."""
        builder = self.builder
        if len(builder.around) > MAX_BLOCKS and body:
            message = f"blocks nest more than {MAX_BLOCKS} levels deep, and each `elif` is one"
            builder.fail("syntax", message, body[0], "look values up in a tensor, or leave the block early")
        for position, node in enumerate(body):
            if builder.frame.result is not None:  # nothing after `return` runs
                builder.frame.left_out.append(left_out.LeftOut(body[position:], None, True, builder.frame.returned))
                return
            if leaves(builder.block) and not self.reader.regions.loops[-1].yields:
                return  # nor after `break` or `continue`, which a known condition may have decided on
            self.reader.library.count(builder, node)
            try:
                visit = _VISITORS.get(type(node))
                if visit is None:
                    what, hint = _REJECTED.get(
                        type(node), (f"`{type(node).__name__}`", "write assignments, branches, loops and scopes")
                    )
                    builder.fail("syntax", f"{what} is not part of the kernel language", node, hint)
                getattr(self, visit)(node)
            except Refused:
                self.reader.library.refused = True
                for name in assigned_names([node], boxes=False):
                    if name != RETURNED:  # what follows is read, for mistakes of its own
                        builder.bind(name, POISON)
                if isinstance(node, ast.Return):
                    builder.frame.result = POISON

    # Assignments.

    def _assign(self, node: ast.Assign) -> None:
        value = self.reader.expressions.value(node.value)
        for target in node.targets:
            self.assign(target, value, node)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.builder.fail(
                "syntax", "a declaration without a value is not part of the kernel language", node, "assign a value"
            )
        value = self.reader.expressions.value(node.value)
        self.assign(node.target, value, node)
        if isinstance(node.target, ast.Name):
            check_local(self.reader, node.annotation, self.builder.frame.names[node.target.id], node)

    def _augmented(self, node: ast.AugAssign) -> None:
        target = ast.unparse(node.target)
        symbol = next((symbol for kind, (_, symbol) in scalars.BINARY.items() if isinstance(node.op, kind)), "?")
        self.builder.fail(
            "syntax",
            f"`{symbol}=` is not part of the kernel language",
            node,
            f"write {target} = {target} {symbol} {ast.unparse(node.value)}",
        )

    def assign(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        """Gives `value` to a name, to several, or to a box of a tensor."""
        builder = self.builder
        usable(builder, value)
        if isinstance(target, ast.Name):
            self.assign_name(target.id, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, tuple):
                builder.fail("type", f"cannot unpack {describe(value)}", node, "give it one name")
            if len(value) != len(target.elts):
                builder.fail(
                    "value", f"{len(target.elts)} names for {len(value)} values", target, "give one name to each value"
                )
            # The right side is complete before any name changes: `a, b = b, a` swaps.
            kept = [builder.detach(item, node) for item in value]
            for item, part in zip(target.elts, kept, strict=True):
                self.assign(item, part, node)
        elif isinstance(target, ast.Subscript):
            boxes.write(self.reader, target, value, node)
        else:
            builder.fail(
                "syntax",
                f"cannot assign to `{ast.unparse(target)}`",
                target,
                "assign to a name, or to a box: out[0:16, :] = x",
            )

    def assign_name(self, name: str, value: Value, node: ast.stmt) -> None:
        """`name = value`."""
        builder = self.builder
        if isinstance(value, Window):
            value = views.load_window(builder, value, node)
        self._keep_type(name, value, node)
        if is_scalar(value):
            self._assign_scalar(name, value, node)
            return
        if not is_task_id(value):  # binding one copies it
            value = builder.detach(value, node)
        if isinstance(value, Var):
            value = self._settle(name, value)
        elif value == NONE and isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            builder.fail(
                "type",
                f"{ast.unparse(node.value.func)}(...) has no result",
                node.value,
                "call it as a statement; what it writes has a name already",
            )
        builder.bind(name, value)

    def _keep_type(self, name: str, value: Value, node: ast.stmt) -> None:
        """Refuses another type for a name that was assigned in this block, or whose value is carried out of it.

        Blocks side by side may use one name for different things: that is common, and never ambiguous. Where the
        second block is inside a branch or a loop, that is read again without the value that the first one left.
        """
        builder = self.builder
        builder.frame.seen[name] = value
        builder.frame.lanes.discard(name)
        where, builder.frame.where[name] = builder.frame.where.get(name), builder.block
        old = builder.frame.names.get(name)
        if old is None or same_type(old, value):
            return
        if where is not builder.block:
            home = builder.homes.get(name)
            if home is None or same_type(home, value) or self.reader.regions.start_anew(name):
                return
        builder.fail(
            "type",
            f"{called(name)} is {describe(old)} and cannot become {describe(value)}",
            node,
            "a name keeps its type; use another name",
        )

    def _settle(self, name: str, value: Var) -> Var:
        """The variable that `name` now means: its home, where the statement just read can assign that directly."""
        builder = self.builder
        last = builder.block[-1] if builder.block else None
        fresh = (
            isinstance(last, OpStmt) and last.out is value and builder.users.get(value, 0) == 0 and not value.mutable
        )
        if not fresh:
            return value
        home = builder.homes.get(name)
        if isinstance(home, Var) and isinstance(home.type, TileType) and isinstance(value.type, TileType):
            own = builder.users.get(home, 0) == (1 if builder.frame.names.get(name) is home else 0)
            if own and same_box(home.type, value.type) and same_valid(home.type, value.type):
                last.out = home  # type: ignore[union-attr]  # an OpStmt, see `fresh`
                return home
        value.name = name
        return value

    def _assign_scalar(self, name: str, value: Expr, node: ast.stmt) -> None:
        builder = self.builder
        home = builder.homes.get(name)
        if isinstance(home, ScalarVar):
            builder.emit(Let(home, value, builder.loc(node)))
            builder.bind(name, home)
            return
        if isinstance(value, (Const, Symbol)) or (isinstance(value, ScalarVar) and not value.mutable):
            last = builder.block[-1] if builder.block else None
            if isinstance(last, OpStmt) and last.out is value:
                value.name = name  # an element that was just read: it has no name yet
            builder.bind(name, value)
            return
        variable = builder.let(value, node, name)
        assert isinstance(variable, ScalarVar)
        variable.name = name
        builder.bind(name, variable)

    # Control flow.

    def _if(self, node: ast.If) -> None:
        builder = self.builder
        condition = scalars.truth(
            builder, usable(builder, self.reader.expressions.value(node.test)), node.test, "the condition"
        )
        if isinstance(condition, Const):
            holds = bool(condition.value)
            builder.frame.left_out.append(left_out.arm_of(node, holds))
            self.reader.regions.decided(node.body if holds else node.orelse)
            return
        condition = builder.let(condition, node, "cond")
        then, orelse = self.reader.regions.branch(node)
        builder.emit(IfStmt(condition, then, orelse, builder.loc(node)))

    def _for(self, node: ast.For) -> None:
        loops.read_for(self.reader, node)

    def _while(self, node: ast.While) -> None:
        loops.read_while(self.reader, node)

    def _with(self, node: ast.With) -> None:
        scopes.read_with(self.reader, node)

    def _break(self, node: ast.Break | ast.Continue) -> None:
        builder, regions = self.builder, self.reader.regions
        word = "return" if isinstance(node, returns.Leave) else "break" if isinstance(node, ast.Break) else "continue"
        if builder.frame.unrolled[-1:] == [len(regions.loops)] and not isinstance(node, returns.Leave):
            message = f"`{word}` in a pl.unroll loop, whose rounds are written out one after the other"
            builder.fail("syntax", message, node, "loop with pl.range, or let constants decide what a round does")
        if not regions.loops:
            builder.fail(
                "syntax", f"`{word}` outside a loop", node, "leave it out, or put it into a pl.range or while loop"
            )
        if regions.loops[-1].level != builder.level:
            builder.fail(
                "syntax", f"`{word}` out of a scope", node, "decide outside the scope, on a value that it computed"
            )
        if regions.loops[-1].kind != "range":
            builder.fail(
                "syntax",
                f"`{word}` in a pl.{regions.loops[-1].kind} loop, whose rounds may run at once",
                node,
                "loop with pl.range",
            )
        if isinstance(node, returns.Leave):
            regions.keep_results(regions.loops[-1], node)
        regions.sync(regions.loops[-1], node, rebind=False)
        loc = builder.loc(node)
        builder.emit(BreakStmt(loc) if isinstance(node, ast.Break) else ContinueStmt(loc))

    def _return(self, node: ast.Return) -> None:
        builder = self.builder
        value: Value = PyValue(None) if node.value is None else self.reader.expressions.value(node.value)
        builder.frame.returned = node
        builder.frame.result = usable(builder, value)

    def _give(self, node: returns.Give) -> None:
        """`return` on some paths."""
        builder, frame = self.builder, self.builder.frame
        *targets, flag = [target.id for target in node.targets] or [""]
        if flag == RETURNED:
            self.assign_name(RETURNED, TRUE, node)
        else:
            targets.append(flag)
        source = node.value or ast.Constant(None)
        value = usable(builder, self.reader.expressions.value(source))
        count = 0 if value == NONE else len(value) if isinstance(value, tuple) else None
        if count is not None and count > len(targets):
            names = ", ".join(f"a{i}" for i in range(count))
            hint = f"give the values names: {names} = {ast.unparse(source)}, and return {names}"
            builder.fail("syntax", f"`return` on some paths writes its {count} values out", node, hint)
        frame.given[node.origin] = count
        if isinstance(node.origin, ast.Return):
            frame.returned = node.origin
        items = () if count == 0 else value if isinstance(value, tuple) else (value,)
        kept = [builder.detach(item, node) for item in items]
        for name, item in zip(targets, kept, strict=False):  # other paths of other constants return more
            self.assign_name(name, item, node)

    def _misplaced(self, node: returns.Misplaced) -> None:
        message, hint = node.texts()
        self.builder.fail("syntax", message, node, hint)

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring, or `...`
        outer, self.called = self.called, node.value
        self.reader.expressions.value(node.value)
        self.called = outer

    def _pass(self, node: ast.Pass) -> None:
        """Nothing."""


_VISITORS: Final[dict[type[ast.stmt], str]] = {
    ast.Assign: "_assign",
    ast.AnnAssign: "_annotated",
    ast.AugAssign: "_augmented",
    ast.If: "_if",
    ast.For: "_for",
    ast.While: "_while",
    ast.With: "_with",
    ast.Break: "_break",
    ast.Continue: "_break",
    ast.Return: "_return",
    returns.Give: "_give",
    returns.Misplaced: "_misplaced",
    returns.Leave: "_break",
    ast.Expr: "_expression",
    ast.Pass: "_pass",
}
