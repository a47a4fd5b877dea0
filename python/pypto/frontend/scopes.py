"""Scopes: `with pl.at(...)`, `pl.spmd(...)`, and the ones that are only hints."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pypto.frontend import tasks
from pypto.frontend.builder import Refused, usable
from pypto.frontend.values import PyValue, describe, task_id
from pypto.ir.exprs import Const, Expr, ScalarOp, ScalarVar
from pypto.ir.nodes import CallStmt, Let, Order, ScopeStmt, TaskRef, TaskVar
from pypto.language.dtypes import INDEX
from pypto.language.enums import Level, ScopeMode
from pypto.language.scopes import spmd as pl_spmd
from pypto.language.stubs import MARK

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

_HINTS: Final = ("cluster", "scope", "manual_scope")


def read_with(reader: Reader, node: ast.With) -> None:
    """`with scope(...) [as tid]:`."""
    builder = reader.builder
    item = node.items[0]
    if len(node.items) > 1:  # `with a, b:` is `with a: with b:`
        inner: list[ast.stmt] = [ast.copy_location(ast.With(node.items[1:], node.body), node)]
        node = ast.copy_location(ast.With([item], inner), node)
    call = item.context_expr
    callee = reader.expressions.value(call.func) if isinstance(call, ast.Call) else PyValue(None)
    kind = getattr(callee.obj, MARK, None) if isinstance(callee, PyValue) else None
    if not isinstance(call, ast.Call) or not isinstance(callee, PyValue) or not isinstance(kind, str):
        builder.fail(
            "syntax",
            f"`with {ast.unparse(call)}` is not a scope of the language",
            call,
            "write with pl.at(level=pl.Level.CORE_GROUP):",
        )
    _check_keywords(reader, call, callee.obj, kind)
    out = None if item.optional_vars is None else TaskRef(TaskVar(builder.unique("task")))
    deps = tasks.read_deps(reader, call)
    order = Order(out, deps, builder.manual, tasks.read_tensors(reader, call, "no_dep_args"))
    builder.dump_tags += tasks.read_tensors(reader, call, "dumps")
    if kind in _HINTS:
        outer, builder.manual = builder.manual, _is_manual(reader, call, kind, builder.manual)
        try:
            reader.statements.read(node.body)
        finally:
            builder.manual = outer
    elif kind == "at":
        _check_level(reader, call)
        _kernel_scope(reader, node, call, None, lambda: reader.statements.read(node.body), order)
    elif kind == "spmd":
        unnamed = item.optional_vars is None and any(keyword.arg == "deps" for keyword in call.keywords)
        if unnamed and not builder.explicit:
            hint = "write with pl.spmd(n, deps=[...]) as tid:"
            builder.fail("syntax", "pl.spmd with deps= names its task", call, hint)
        _spmd(reader, node, call, order)
    else:
        hint = "write with pl.at(level=pl.Level.CORE_GROUP):"
        builder.fail("syntax", f"pl.{kind} opens no scope", call, hint)
    if item.optional_vars is not None and out is not None:
        reader.statements.assign(item.optional_vars, task_id(out), node)


def _is_manual(reader: Reader, call: ast.Call, kind: str, outer: bool) -> bool:
    """Whether tasks in a scope wait only for what they declare."""
    if kind != "scope":
        return outer or kind == "manual_scope"
    named = (keyword.value for keyword in call.keywords if keyword.arg == "mode")
    argument = call.args[0] if call.args else next(named, None)
    mode = None if argument is None else reader.expressions.value(argument)
    return isinstance(mode, PyValue) and mode.obj is ScopeMode.MANUAL


def _check_keywords(reader: Reader, call: ast.Call, construct: Callable[..., object], kind: str) -> None:
    known = inspect.signature(construct).parameters
    for keyword in call.keywords:
        if keyword.arg not in known:
            hint = f"it has {', '.join(known)}"
            reader.builder.fail("type", f"pl.{kind} has no parameter {keyword.arg!r}", keyword.value, hint)


def _check_level(reader: Reader, call: ast.Call) -> None:
    builder, usage = reader.builder, "write with pl.at(level=pl.Level.CORE_GROUP):"
    named = (keyword.value for keyword in call.keywords if keyword.arg == "level")
    argument = call.args[0] if call.args else next(named, None)
    if argument is None:
        builder.fail("type", "pl.at takes a level", call, usage)
    value = usable(builder, reader.expressions.value(argument))
    if not isinstance(value, PyValue) or not isinstance(value.obj, Level):
        builder.fail("type", f"the level of pl.at must be a pl.Level, got {describe(value)}", argument, usage)
    if value.obj >= Level.HOST:
        builder.fail(
            "unsupported",
            f"pl.at at level {value.obj.name}: programs over several ranks are not supported",
            call,
            usage,
        )


def _name(reader: Reader, call: ast.Call, node: ast.stmt) -> str:
    for keyword in call.keywords:
        if keyword.arg == "name_hint":
            name = re.sub(r"\W", "_", _text(reader, keyword.value))
            if name.isidentifier():
                return name
    return f"{reader.builder.name}_{reader.builder.loc(node).line}"


def _text(reader: Reader, node: ast.expr) -> str:
    """A name hint: a string, also one with constants in it (`f"{layer}_proj"`)."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(reader, part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(reader, node.value)
    value = reader.expressions.value(node)
    if isinstance(value, Const):
        return str(value.value)
    return value.obj if isinstance(value, PyValue) and isinstance(value.obj, str) else ""


def _kernel_scope(
    reader: Reader, node: ast.stmt, call: ast.Call, blocks: Expr | None, read: Callable[[], None], order: Order
) -> None:
    builder = reader.builder
    if builder.level == "kernel":
        builder.fail(
            "syntax",
            f"{ast.unparse(call.func)} inside a kernel: this code already runs as one",
            call,
            "remove the scope",
        )
    condition = tasks.read_predicate(reader, call)
    builder.level = "kernel"
    try:
        with builder.into([]) as body:
            read()
    finally:
        builder.level = "orchestration"
    if condition is not None and blocks is not None:
        blocks = tasks.blocks_if(condition, blocks)
    builder.emit(ScopeStmt(_name(reader, call, node), blocks, body, builder.loc(node), order))


def read_spmd_loop(reader: Reader, node: ast.For, call: ast.Call) -> None:
    """`for i in pl.spmd(n):`: one task of n blocks."""
    builder = reader.builder
    _check_keywords(reader, call, pl_spmd, "spmd")
    for keyword in call.keywords:
        if keyword.arg == "deps":
            builder.fail("syntax", "a loop over pl.spmd takes no deps=", keyword.value, "write with pl.spmd(n) as tid:")
    if not isinstance(node.target, ast.Name):
        builder.fail("syntax", "this is no loop target", node.target, "write for i in pl.spmd(n):")
    name = node.target.id

    def read() -> None:
        variable = ScalarVar(name, INDEX)
        builder.emit(Let(variable, ScalarOp("block_idx", (), INDEX), builder.loc(node)))
        builder.bind(name, variable)
        reader.statements.read(node.body)

    _kernel_scope(
        reader, node, call, tasks.read_blocks(reader, call, call.args, "pl.spmd"), read, Order(manual=builder.manual)
    )


def _spmd(reader: Reader, node: ast.With, call: ast.Call, order: Order) -> None:
    """`with pl.spmd(n):` dispatches the one kernel called in its body, or is a kernel itself."""
    builder = reader.builder
    blocks = tasks.read_blocks(reader, call, call.args, "pl.spmd")
    calls, asks = reader.survey(node.body)
    if builder.level == "orchestration" and calls and not asks:
        condition = tasks.read_predicate(reader, call)
        mistakes = len(builder.diagnostics)
        with builder.into([]) as body:
            reader.statements.read(node.body)
        launches = [stmt for stmt in body if isinstance(stmt, CallStmt)]
        if not launches and len(builder.diagnostics) > mistakes:
            raise Refused
        if len(launches) != 1:
            builder.fail(
                "value",
                f"this pl.spmd dispatches {len(launches)} kernels; it dispatches exactly one",
                call,
                "open one pl.spmd per kernel",
            )
        launches[0].blocks, launches[0].order = blocks, order
        builder.block.extend(tasks.predicated(builder, body, condition))
        return
    if not asks:
        builder.fail(
            "value",
            "this pl.spmd does the same in every block: it reads no block index and dispatches no kernel",
            call,
            "write for i in pl.spmd(n):, or read pl.get_block_idx(); one block is pl.at(level=pl.Level.CORE_GROUP)",
        )
    _kernel_scope(reader, node, call, blocks, lambda: reader.statements.read(node.body), order)
