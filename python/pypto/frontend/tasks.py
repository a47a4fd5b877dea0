"""Tasks: submitting kernels, task ids, arrays of them, and the dependencies that they state.

Tasks run with the effect of program order, so a task id orders nothing by itself, and as values all are equal. What
`deps=` and manual scopes declare goes beside the launches into the program, for the sanitizers: each name and each
element of an array has a place for an id, and assigning one is a statement.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from pypto.frontend import invoke, scalars, views
from pypto.frontend.builder import Builder, usable
from pypto.frontend.values import NONE, TASK_ID, ArrayValue, PyValue, Value, describe, is_task_id, task_id
from pypto.ir.diagnostics import Loc
from pypto.ir.exprs import Const, Expr, binary, cast, index
from pypto.ir.nodes import CallStmt, OpStmt, Order, Stmt, TaskRef, TaskStmt, TaskVar, Var
from pypto.ir.types import TensorType, TileType
from pypto.language import dtypes
from pypto.language.dtypes import FP32, INDEX, DataType
from pypto.language.stubs import MARK

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

MAX_DEPS: Final = 4096
"""Items of one list of dependencies."""

_HINTS: Final = ("optimizations", "allow_early_resolve", "name_hint", "sync_start")


def submit(reader: Reader, node: ast.Call, name: str) -> Value:
    """`pl.submit(kernel, ...)` and `pl.spmd_submit(kernel, ..., core_num=n)`: the results, then the task id."""
    builder = reader.builder
    spelled = f"pl.{name}"
    usage = f"write out, tid = {spelled}(kernel, x, out{', core_num=n' if name == 'spmd_submit' else ''})"
    if builder.level == "kernel":
        builder.fail(
            "syntax", f"{spelled} inside a kernel: this code already runs as a task", node, "call the function"
        )
    callee = reader.expressions.value(node.args[0]) if node.args else NONE
    if not isinstance(callee, PyValue) or not invoke.is_launchable(callee.obj):
        place = node.args[0] if node.args else node
        builder.fail("type", f"{spelled} takes a kernel first (@pl.jit.incore), got {describe(callee)}", place, usage)
    own = {"deps", "predicate", *_HINTS, *(("core_num",) if name == "spmd_submit" else ())}
    passed = [keyword for keyword in node.keywords if keyword.arg not in own]
    out = TaskRef(TaskVar(builder.unique("task")))
    order = Order(out, read_deps(reader, node), builder.manual)
    condition = read_predicate(reader, node)
    blocks: Expr | None = None
    if name == "spmd_submit":
        blocks = read_blocks(reader, node, [], spelled)
    call = ast.copy_location(ast.Call(node.args[0], node.args[1:], passed), node)
    with builder.into([]) as block:
        result = invoke.call_function(reader, callee.obj, call)
    for stmt in block:
        if isinstance(stmt, CallStmt):
            stmt.blocks = blocks if blocks is not None else stmt.blocks
            stmt.order = order
    builder.block.extend(predicated(builder, block, condition))
    if result == NONE:
        return task_id(out)
    return (*result, task_id(out)) if isinstance(result, tuple) else (result, task_id(out))


def predicated(builder: Builder, block: list[Stmt], condition: Expr | None) -> list[Stmt]:
    """`block` with its launches under a condition; memory and views that it makes exist in any case."""
    for stmt in block:
        if isinstance(stmt, CallStmt) and condition is not None:
            stmt.blocks = blocks_if(condition, stmt.blocks)
    return block


def blocks_if(condition: Expr, blocks: Expr) -> Expr:
    """The blocks of a task that a predicate may prevent.

    It is a task of no blocks then, which waits for what it would wait for, as do those that wait for it.
    """
    return binary("mul", cast(condition, INDEX), blocks, INDEX)


def read_predicate(reader: Reader, call: ast.Call) -> Expr | None:
    """`predicate=x[i] > 0`: whether the task runs at all, decided when its turn comes."""
    for keyword in call.keywords:
        if keyword.arg == "predicate":
            value = usable(reader.builder, reader.expressions.value(keyword.value))
            if value == NONE:
                return None
            return reader.builder.let(
                scalars.truth(reader.builder, value, keyword.value, "the predicate"), keyword.value, "predicate"
            )
    return None


def read_blocks(reader: Reader, call: ast.Call, positional: list[ast.expr], spelled: str) -> Expr:
    """The number of blocks of a task: the first positional argument, or `core_num=`."""
    named = (keyword.value for keyword in call.keywords if keyword.arg == "core_num")
    argument = positional[0] if positional else next(named, None)
    if argument is None:
        reader.builder.fail("type", f"{spelled} takes the number of blocks", call, f"write {spelled}(.., core_num=n)")
    value = usable(reader.builder, reader.expressions.value(argument))
    blocks = scalars.integer(reader.builder, value, argument, "the number of blocks")
    if isinstance(blocks, Const) and blocks.value < 0:
        reader.builder.fail("value", f"{blocks.value} blocks", argument, "0 blocks are no work, 1 or more run")
    return blocks


def read_deps(reader: Reader, call: ast.Call) -> tuple[TaskRef, ...]:
    """`deps=[...]` of a scope or a submission."""
    found = (deps(reader, keyword.value) for keyword in call.keywords if keyword.arg == "deps")
    return tuple(ids for value in found for ids in named(value))


def read_tensors(reader: Reader, call: ast.Call, name: str) -> tuple[Var, ...]:
    """`no_dep_args=[...]` or `dumps=[...]` of a scope: tensors that it uses."""
    found = (_listed(reader, keyword.value) for keyword in call.keywords if keyword.arg == name)
    return tuple(item for value in found for item in _flat(value) if isinstance(item, Var))


def named(value: Value) -> tuple[TaskRef, ...]:
    """Where the ids of a list of dependencies are kept."""
    if isinstance(value, tuple):
        return tuple(ids for item in value for ids in named(item))
    if isinstance(value, ArrayValue):
        return () if value.ids is None else (TaskRef(value.ids),)
    return (value.ids,) if isinstance(value, PyValue) and value.ids is not None else ()


def deps(reader: Reader, node: ast.expr) -> Value:
    """A list of task ids; comprehensions over constant ranges and lists are written out."""
    items = _listed(reader, node)
    for item in _flat(items):
        if item not in (TASK_ID, NONE):
            reader.builder.fail(
                "type",
                f"a dependency must be a task id, got {describe(item)}",
                node,
                "a task id comes from `with pl.at(...) as tid:`, pl.submit(...) or pl.system.task_dummy(deps=[...])",
            )
    return items


def _listed(reader: Reader, node: ast.expr) -> Value:
    if isinstance(node, ast.ListComp):
        return _comprehension(reader, node, 0)
    if isinstance(node, (ast.List, ast.Tuple)):
        return tuple(_listed(reader, item.value if isinstance(item, ast.Starred) else item) for item in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _listed(reader, node.left), _listed(reader, node.right)
    return usable(reader.builder, reader.expressions.value(node))


def _flat(value: Value) -> list[Value]:
    if isinstance(value, tuple):
        return [inner for item in value for inner in _flat(item)]
    if isinstance(value, ArrayValue) and value.dtype is dtypes.TASK_ID:
        return []
    return [value]


def _comprehension(reader: Reader, node: ast.ListComp, depth: int) -> tuple[Value, ...]:
    builder = reader.builder
    if depth == len(node.generators):
        return (usable(builder, reader.expressions.value(node.elt)),)
    part = node.generators[depth]
    names = [inner.id for inner in ast.walk(part.target) if isinstance(inner, ast.Name)]
    outside = {name: builder.frame.names[name] for name in names if name in builder.frame.names}
    result: list[Value] = []
    for value in _items(reader, part.iter):
        if isinstance(part.target, ast.Name) and is_task_id(value):
            builder.frame.names[part.target.id] = value  # the list keeps each id: the name has no place of its own
        else:
            reader.statements.assign(part.target, value, ast.copy_location(ast.Pass(), node))
        for name in names:  # a variable of the comprehension is new in each round
            builder.frame.where.pop(name, None)
        if all(_holds(reader, condition) for condition in part.ifs):
            result += _comprehension(reader, node, depth + 1)
        if len(result) > MAX_DEPS:
            builder.fail(
                "value", f"more than {MAX_DEPS} dependencies", node, "depend on a pl.system.task_dummy of them"
            )
    for name in names:
        builder.unbind(name)
        if name in outside:
            builder.bind(name, outside[name])
    return tuple(result)


def _holds(reader: Reader, node: ast.expr) -> bool:
    condition = scalars.truth(
        reader.builder, usable(reader.builder, reader.expressions.value(node)), node, "the filter"
    )
    if not isinstance(condition, Const):
        reader.builder.fail("value", "a filter of dependencies must be known at compile time", node, "leave it out")
    return bool(condition.value)


def _items(reader: Reader, node: ast.expr) -> list[Value]:
    """What a comprehension runs over: `range(n)`, `pl.range(n)`, a list, or an array of task ids."""
    builder = reader.builder
    if isinstance(node, ast.Call):
        callee = reader.expressions.value(node.func)
        obj = callee.obj if isinstance(callee, PyValue) else None
        if obj is range or getattr(obj, MARK, None) in ("range", "unroll"):
            values = [reader.expressions.value(argument) for argument in node.args]
            bounds = [int(value.value) for value in values if isinstance(value, Const)]
            if 1 <= len(values) == len(bounds) <= 3 and (len(bounds) < 3 or bounds[2]):
                numbers = range(*bounds)
                if len(numbers) <= MAX_DEPS:
                    return [index(number) for number in numbers]
    else:
        value = usable(builder, reader.expressions.value(node))
        if isinstance(value, tuple):
            return list(value)
        if isinstance(value, ArrayValue):
            return [element(builder, value, index(position), node) for position in range(value.extent)]
    builder.fail(
        "syntax",
        f"dependencies cannot run over `{ast.unparse(node)}`",
        node,
        f"use a list, an array, or range with constant bounds (at most {MAX_DEPS} items)",
    )


# Arrays.


def make_array(builder: Builder, extent: int, dtype: DataType, node: ast.AST) -> ArrayValue:
    """A small array. Numbers live in device memory (in a kernel: in a tile), 0 until they are assigned."""
    if dtype is dtypes.TASK_ID:
        ids = TaskVar(builder.unique("tasks"), extent)
        builder.emit(TaskStmt("assign", TaskRef(ids), (), builder.loc(node)))
        return ArrayValue(extent, dtype, None, ids)
    elements = dtype.of_elements
    if builder.level == "kernel":
        type = TileType((1, extent), elements, (1, extent))
        var = builder.op("full", type, (cast(index(0), FP32 if elements.is_float else elements),), node, hint="array")
    else:
        shape = TensorType((extent,), elements)
        var = builder.op("create_tensor", shape, ((index(extent),),), node, {"init_value": 0}, "array")
    return ArrayValue(extent, dtype, var)


def array_parameter(name: str, extent: int, dtype: DataType, loc: Loc) -> Var | None:
    """The memory of an array that a function gets: that of its caller, as for tensors."""
    return None if dtype is dtypes.TASK_ID else Var(name, TensorType((extent,), dtype.of_elements), loc)


def _place(builder: Builder, array: ArrayValue, position: Expr, node: ast.AST) -> tuple[Expr, ...]:
    if isinstance(position, Const) and not 0 <= position.value < array.extent:
        hint = f"its elements are 0 to {array.extent - 1}"
        builder.fail("value", f"element {position.value} of an array of {array.extent}", node, hint)
    return (position,) if array.var is None or array.var.is_tensor else (index(0), position)


def element(builder: Builder, array: ArrayValue, position: Expr, node: ast.AST) -> Value:
    """`array[position]`."""
    at = _place(builder, array, position, node)
    if array.var is None:
        assert array.ids is not None
        return task_id(TaskRef(array.ids, builder.let(position, node)))
    return views.read_element(builder, array.var, at, node)


def set_element(builder: Builder, array: ArrayValue, position: Expr, value: Value, node: ast.AST) -> None:
    """`array[position] = value`."""
    at = _place(builder, array, position, node)
    if array.var is None:
        if value not in (TASK_ID, NONE):
            hint = "a task id comes from `with pl.at(...) as tid:` or pl.submit(...)"
            builder.fail("type", f"an element of this array is a task id, got {describe(value)}", node, hint)
        assert array.ids is not None
        place = TaskRef(array.ids, position)
        builder.emit(TaskStmt("assign", place, named(value), builder.loc(node)))
        return
    number = scalars.scalar(builder, value, node, "an element of an array")
    dtype = array.var.type.dtype
    if number.dtype.is_float != dtype.is_float or number.dtype.is_bool != dtype.is_bool:
        hint = f"convert it: pl.cast(x, pl.{array.dtype})"
        builder.fail(
            "type", f"an element of this array is {array.dtype}, got {number.dtype.with_article} scalar", node, hint
        )
    builder.emit(OpStmt("write", None, (array.var, at, cast(number, dtype)), builder.loc(node)))
