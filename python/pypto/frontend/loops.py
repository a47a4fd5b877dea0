"""Loops: `for` over the iterators of the language, `while`, and carried values."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pypto.frontend import lanes, scalars, scopes, views
from pypto.frontend.assigned import assigned_names
from pypto.frontend.builder import usable
from pypto.frontend.region import LoopState
from pypto.frontend.values import PyValue, Value, Window, describe, is_scalar, is_task_id
from pypto.ir.exprs import Const, Expr, ScalarVar, index
from pypto.ir.nodes import ForStmt, Stmt, Var, WhileStmt
from pypto.language.dtypes import INDEX
from pypto.language.stubs import MARK

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

COUNTED: Final = ("range", "parallel", "pipeline")
MAX_UNROLL: Final = 4096
"""Rounds of one `pl.unroll`: each repeats the body in the program."""


def read_for(reader: Reader, node: ast.For) -> None:
    """`for target in iterator(...)`."""
    builder = reader.builder
    if node.orelse:
        builder.fail(
            "syntax",
            "`else` on a loop is not part of the kernel language",
            node.orelse[0],
            "write what follows the loop after it",
        )
    call = node.iter
    kind = kind_of(reader, call)
    if kind is None or not isinstance(call, ast.Call):
        spelled = ast.unparse(call.func if isinstance(call, ast.Call) else call)
        hint = (
            "write for i in pl.range(...)"
            if spelled in ("range", "enumerate", "zip")
            else "loop over pl.range, pl.parallel, pl.unroll, pl.pipeline or pl.spmd"
        )
        builder.fail(
            "syntax", f"a loop over {spelled} is ordinary Python, and kernels are never executed by Python", call, hint
        )
    if kind in COUNTED:
        _counted(reader, node, call, kind)
    elif kind == "unroll":
        _unrolled(reader, node, call)
    elif kind == "spmd":
        scopes.read_spmd_loop(reader, node, call)
    elif kind == "split_aiv":
        lanes.read_region(reader, node, call)
    elif kind == "while_":
        _while_carried(reader, node, call)
    else:
        builder.fail(
            "unsupported",
            f"a loop over pl.{kind} is not supported yet",
            call,
            "loop over pl.range, pl.parallel, pl.unroll, pl.pipeline or pl.spmd",
        )


def kind_of(reader: Reader, call: ast.expr) -> str | None:
    """Which iterator of the language a loop runs over; `None` for anything else."""
    if not isinstance(call, ast.Call):
        return None
    callee = reader.expressions.value(call.func)
    mark = getattr(callee.obj, MARK, None) if isinstance(callee, PyValue) else None
    return mark if isinstance(mark, str) else None


def bounds(reader: Reader, call: ast.Call, kind: str) -> tuple[Expr, Expr, Expr]:
    """Start, stop and step of a counted loop."""
    builder = reader.builder
    if not 1 <= len(call.args) <= 3:
        builder.fail(
            "type",
            f"pl.{kind} takes (stop), (start, stop) or (start, stop, step), got {len(call.args)} arguments",
            call,
            f"write pl.{kind}(stop) or pl.{kind}(start, stop, step)",
        )
    given = [
        scalars.integer(builder, usable(builder, reader.expressions.value(argument)), argument, f"a bound of pl.{kind}")
        for argument in call.args
    ]
    start, stop, step = (index(0), given[0], index(1)) if len(given) == 1 else (*given, index(1))[:3]
    if isinstance(step, Const) and step.value == 0:
        builder.fail(
            "value",
            f"the step of pl.{kind} is 0",
            call.args[2],
            "leave the step out, or give the distance between two values",
        )
    return start, stop, step


def _counted(reader: Reader, node: ast.For, call: ast.Call, kind: str) -> None:
    builder, regions = reader.builder, reader.regions
    start, stop, step = bounds(reader, call, kind)
    initial = next((keyword.value for keyword in call.keywords if keyword.arg == "init_values"), None)
    known = ("init_values", "stage") if kind == "pipeline" else ("init_values", "attrs")
    if kind == "pipeline":
        _check_stage(reader, call)
    for keyword in call.keywords:
        if keyword.arg not in known:
            builder.fail(
                "type",
                f"pl.{kind} has no parameter {keyword.arg!r}",
                keyword.value,
                f"write pl.{kind}(start, stop, step), with init_values=(..) to carry values",
            )
    target, carried = _targets(reader, node, initial is not None)
    variable = ScalarVar(target.id, INDEX)
    inside = (target.id, *carried)
    _shadow(reader, inside)
    if initial is not None:
        _begin(reader, initial, carried)

    before = set(builder.frame.names)

    def body(state: LoopState) -> None:
        state.kind = kind
        builder.bind(target.id, variable)
        reader.statements.read(node.body)
        if carried:
            _end_of_round(reader, state, node, carried)

    _, block = regions.loop(node, body, carried, _runs(start, stop, step))
    builder.emit(ForStmt(variable, start, stop, step, kind, block, builder.loc(node)))
    finals = _finals(reader, node, carried)
    _unshadow(reader, inside)
    if carried:
        _hide(reader, node, before)
        _name_finals(reader, node, finals)


def _hide(reader: Reader, node: ast.For, known: set[str]) -> None:
    """Of a loop that yields only what it yields is visible afterwards."""
    reader.builder.hide(name for name in assigned_names(node.body, boxes=False) if name not in known)


def _check_stage(reader: Reader, call: ast.Call) -> None:
    """How many rounds of a pipeline are under way at once on the real chip: part of the text, and no more here."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "stage"), None)
    value = None if given is None else reader.expressions.value(given)
    if not isinstance(value, Const) or not value.dtype.is_integer or value.value < 1:
        reader.builder.fail(
            "type" if given is None else "value",
            "pl.pipeline takes a stage" if given is None else "the stage of pl.pipeline must be a constant from 1",
            call if given is None else given,
            "write pl.pipeline(start, stop, step, stage=2)",
        )


def _runs(start: Expr, stop: Expr, step: Expr) -> bool:
    """Whether a loop certainly has a round."""
    if not isinstance(start, Const) or not isinstance(stop, Const) or not isinstance(step, Const):
        return False
    return start.value < stop.value if step.value > 0 else start.value > stop.value


def _shadow(reader: Reader, inside: Iterable[str]) -> None:
    """What these names mean outside the loop is kept, and comes back after it."""
    for name in inside:
        if name in reader.builder.frame.names:
            reader.builder.bind(_outside(name), reader.builder.frame.names[name])


def _unshadow(reader: Reader, inside: Iterable[str]) -> None:
    builder = reader.builder
    for name in inside:
        before = builder.frame.names.get(_outside(name))
        builder.unbind(name)
        if before is not None:
            builder.bind(name, before)
            builder.unbind(_outside(name))


def _outside(name: str) -> str:
    return f"{name} outside"  # no name of the source has a space


def _begin(reader: Reader, initial: ast.expr, carried: list[str]) -> None:
    builder = reader.builder
    values = usable(builder, reader.expressions.value(initial))
    if not isinstance(values, tuple) or len(values) != len(carried):
        count = len(values) if isinstance(values, tuple) else 1
        builder.fail(
            "value",
            f"init_values has {count} values for {len(carried)} names",
            initial,
            "name one value for each: for i, (a, b) in pl.range(n, init_values=(a0, b0)):",
        )
    begun: list[Value] = []
    for value in values:
        if isinstance(value, Window):
            value = views.load_window(builder, value, initial)
        if not is_scalar(value) and not isinstance(value, Var) and not is_task_id(value):
            builder.fail(
                "type",
                f"a loop carries scalars, tiles, tensors and task ids, got {describe(value)}",
                initial,
                "carry scalars, tiles, tensors and task ids; other things keep their meaning by their name",
            )
        begun.append(builder.detach(value, initial))
    for name, value in zip(carried, begun, strict=True):
        builder.bind(name, value)


def _end_of_round(reader: Reader, state: LoopState, node: ast.For, carried: list[str]) -> None:
    builder = reader.builder
    if state.yielded is None or not isinstance(node.body[-1], ast.Assign):
        hint = f"end it with {', '.join(f'{name}_next' for name in carried)} = pl.yield_(...)"
        builder.fail("syntax", "a loop with init_values yields new values at its end", node, hint)
    if len(state.yielded) != len(carried):
        builder.fail(
            "value",
            f"{len(state.yielded)} values are yielded for {len(carried)} names",
            node.body[-1],
            f"yield one value for each of {', '.join(carried)}",
        )
    values = state.yielded
    if len(values) > 1:  # names may swap their task ids
        values = tuple(builder.detach(value, node) if is_task_id(value) else value for value in values)
    for name, value in zip(carried, values, strict=True):
        builder.bind(name, value)


def _finals(reader: Reader, node: ast.For, carried: list[str]) -> list[Value]:
    """The final values, before the names that were carried mean again what they meant outside."""
    builder = reader.builder
    values = [builder.frame.names[name] for name in carried]
    return [builder.detach(value, node) if is_task_id(value) else value for value in values]


def _name_finals(reader: Reader, node: ast.For, finals: list[Value]) -> None:
    """The final values stand under the names left of the yield."""
    last = node.body[-1]
    assert isinstance(last, ast.Assign), "checked at the end of the round"
    target = last.targets[0]
    names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    for item, value in zip(names, finals, strict=True):
        if isinstance(item, ast.Name):
            reader.builder.bind(item.id, value)


def _targets(reader: Reader, node: ast.For, carries: bool) -> tuple[ast.Name, list[str]]:
    builder, target = reader.builder, node.target
    if isinstance(target, ast.Name) and not carries:
        return target, []
    if carries and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        first, second = target.elts
        names = second.elts if isinstance(second, (ast.Tuple, ast.List)) else [second]
        if isinstance(first, ast.Name) and all(isinstance(name, ast.Name) for name in names):
            return first, [name.id for name in names if isinstance(name, ast.Name)]
    builder.fail(
        "syntax",
        "this is no loop target",
        target,
        "write for i, (a, b) in pl.range(n, init_values=(a0, b0)):" if carries else "write for i in pl.range(n):",
    )


def _unrolled(reader: Reader, node: ast.For, call: ast.Call) -> None:
    builder = reader.builder
    limits = bounds(reader, call, "unroll")
    if not isinstance(node.target, ast.Name):
        builder.fail("syntax", "this is no loop target", node.target, "write for i in pl.unroll(n):")
    if not all(isinstance(bound, Const) for bound in limits):
        builder.fail("value", "the bounds of pl.unroll must be constants", call, "loop with pl.range")
    start, stop, step = (int(bound.value) for bound in limits if isinstance(bound, Const))
    rounds = range(start, stop, step)
    if len(rounds) > MAX_UNROLL:
        builder.fail(
            "value",
            f"pl.unroll would repeat this body {len(rounds)} times; at most {MAX_UNROLL} are allowed",
            call,
            "loop with pl.range",
        )
    names = assigned_names(node.body)
    for value in rounds:
        for name in names:  # each round is a block of its own: shapes may depend on the index
            builder.frame.where.pop(name, None)
        builder.bind(node.target.id, index(value))
        builder.frame.unrolled.append(len(reader.regions.loops))
        try:
            reader.statements.read(node.body)
        finally:  # a loop around may be read again
            builder.frame.unrolled.pop()


def _condition(reader: Reader, test: ast.expr) -> Expr:
    builder = reader.builder
    return scalars.truth(builder, usable(builder, reader.expressions.value(test)), test, "the condition")


def read_while(reader: Reader, node: ast.While) -> None:
    """`while cond:`."""
    builder = reader.builder
    if node.orelse:
        builder.fail(
            "syntax",
            "`else` on a loop is not part of the kernel language",
            node.orelse[0],
            "write what follows the loop after it",
        )
    head: list[Stmt] = []
    condition: list[Expr] = []

    def body(state: LoopState) -> None:
        head.clear()  # a loop may be read again
        condition.clear()
        with builder.into(head):
            condition.append(_condition(reader, node.test))
        reader.statements.read(node.body)

    _, block = reader.regions.loop(node, body)
    builder.emit(WhileStmt(head, condition[0], block, builder.loc(node)))


def _while_carried(reader: Reader, node: ast.For, call: ast.Call) -> None:
    """`for (a, b) in pl.while_(init_values=(a0, b0)):`, which starts with `pl.cond(...)`."""
    builder = reader.builder
    usage = "write for (a,) in pl.while_(init_values=(a0,)):, then pl.cond(a < n)"
    initial = next((keyword.value for keyword in call.keywords if keyword.arg == "init_values"), None)
    if call.args or initial is None or len(call.keywords) != 1:
        builder.fail("type", "pl.while_ takes init_values= and nothing else", call, usage)
    targets = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
    carried = [target.id for target in targets if isinstance(target, ast.Name)]
    if len(carried) != len(targets):
        builder.fail("syntax", "this is no loop target", node.target, usage)
    test = _stated_condition(reader, node.body[0])
    if test is None:
        builder.fail("syntax", "a pl.while_ loop starts with its condition", node.body[0], usage)
    head: list[Stmt] = []
    condition: list[Expr] = []
    known = set(builder.frame.names)
    _shadow(reader, carried)
    _begin(reader, initial, carried)

    def body(state: LoopState) -> None:
        head.clear()
        condition.clear()
        with builder.into(head):
            condition.append(_condition(reader, test))
        reader.statements.read(node.body[1:])
        _end_of_round(reader, state, node, carried)

    _, block = reader.regions.loop(node, body, carried)
    builder.emit(WhileStmt(head, condition[0], block, builder.loc(node)))
    finals = _finals(reader, node, carried)
    _unshadow(reader, carried)
    _hide(reader, node, known)
    _name_finals(reader, node, finals)


def _stated_condition(reader: Reader, stmt: ast.stmt) -> ast.expr | None:
    call = stmt.value if isinstance(stmt, ast.Expr) else None
    if isinstance(call, ast.Call) and kind_of(reader, call) == "cond" and len(call.args) == 1 and not call.keywords:
        return call.args[0]
    return None
