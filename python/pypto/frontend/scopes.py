"""Scopes: `with pl.at(...)`, `pl.spmd(...)`, and the ones that are only hints."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pypto.frontend import scalars
from pypto.frontend.builder import usable
from pypto.frontend.values import TASK_ID, PyValue
from pypto.ir.exprs import Expr, ScalarOp, ScalarVar
from pypto.ir.nodes import CallStmt, Let, ScopeStmt
from pypto.language.dtypes import INDEX
from pypto.language.stubs import MARK

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

_HINTS: Final = ("cluster", "scope", "manual_scope")


def read_with(reader: Reader, node: ast.With) -> None:
    """`with scope(...) [as tid]:`."""
    builder = reader.builder
    if len(node.items) != 1:
        builder.fail("syntax", "a `with` opens one scope", node, "nest them")
    item = node.items[0]
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
    known = inspect.signature(callee.obj).parameters
    for keyword in call.keywords:
        if keyword.arg not in known:
            hint = f"it has {', '.join(known)}"
            builder.fail("type", f"pl.{kind} has no parameter {keyword.arg!r}", keyword.value, hint)
    if item.optional_vars is not None:
        # Tasks run in an order that has the effect of program order, so that a task id orders nothing by itself.
        reader.statements.assign(item.optional_vars, TASK_ID, node)
    if kind in _HINTS:
        reader.statements.read(node.body)
    elif kind == "at":
        _kernel_scope(reader, node, call, None, lambda: reader.statements.read(node.body))
    elif kind == "spmd":
        _spmd(reader, node, call)
    else:
        builder.fail(
            "unsupported", f"pl.{kind} is not supported yet", call, "write with pl.at(level=pl.Level.CORE_GROUP):"
        )


def _name(reader: Reader, call: ast.Call, node: ast.stmt) -> str:
    for keyword in call.keywords:
        if keyword.arg == "name_hint":
            value = reader.expressions.value(keyword.value)
            if isinstance(value, PyValue) and isinstance(value.obj, str) and value.obj.isidentifier():
                return value.obj
    return f"{reader.builder.name}_{reader.builder.loc(node).line}"


def _kernel_scope(
    reader: Reader, node: ast.stmt, call: ast.Call, blocks: Expr | None, read: Callable[[], None]
) -> None:
    builder = reader.builder
    if builder.level == "kernel":
        builder.fail(
            "syntax",
            f"{ast.unparse(call.func)} inside a kernel: this code already runs as one",
            call,
            "remove the scope",
        )
    builder.level = "kernel"
    try:
        with builder.into([]) as body:
            read()
    finally:
        builder.level = "orchestration"
    builder.emit(ScopeStmt(_name(reader, call, node), blocks, body, builder.loc(node)))


def _blocks(reader: Reader, call: ast.Call) -> Expr:
    builder = reader.builder
    argument = (
        call.args[0]
        if call.args
        else next((keyword.value for keyword in call.keywords if keyword.arg == "core_num"), None)
    )
    if argument is None:
        builder.fail("type", "pl.spmd takes the number of blocks", call, "write pl.spmd(n)")
    return scalars.integer(
        builder, usable(builder, reader.expressions.value(argument)), argument, "the number of blocks"
    )


def read_spmd_loop(reader: Reader, node: ast.For, call: ast.Call) -> None:
    """`for i in pl.spmd(n):`: one task of n blocks."""
    builder = reader.builder
    if not isinstance(node.target, ast.Name):
        builder.fail("syntax", "this is no loop target", node.target, "write for i in pl.spmd(n):")
    name = node.target.id

    def read() -> None:
        variable = ScalarVar(name, INDEX)
        builder.emit(Let(variable, ScalarOp("block_idx", (), INDEX), builder.loc(node)))
        builder.bind(name, variable)
        reader.statements.read(node.body)

    _kernel_scope(reader, node, call, _blocks(reader, call), read)


def _asks_for_its_block(node: ast.With) -> bool:
    """Whether a body differs from block to block, so that it cannot be run once to launch a kernel."""
    names = ("get_block_idx", "get_subblock_idx")
    return any(
        isinstance(inner, (ast.Attribute, ast.Name)) and getattr(inner, "attr", getattr(inner, "id", "")) in names
        for stmt in node.body
        for inner in ast.walk(stmt)
    )


def _spmd(reader: Reader, node: ast.With, call: ast.Call) -> None:
    """`with pl.spmd(n):` dispatches the one kernel called in its body, or is a kernel itself."""
    builder = reader.builder
    blocks = _blocks(reader, call)
    if builder.level == "orchestration" and reader.calls_kernels(node.body) and not _asks_for_its_block(node):
        with builder.into([]) as body:
            reader.statements.read(node.body)
        launches = [stmt for stmt in body if isinstance(stmt, CallStmt)]
        if len(launches) != 1:
            builder.fail(
                "value",
                f"this pl.spmd dispatches {len(launches)} kernels; it dispatches exactly one",
                call,
                "open one pl.spmd per kernel",
            )
        launches[0].blocks = blocks
        builder.block.extend(body)
        return
    _kernel_scope(reader, node, call, blocks, lambda: reader.statements.read(node.body))
