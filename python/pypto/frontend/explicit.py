"""Reads what the printer writes of functions in which paths meet: every name is one variable, and nothing is added.

An author's `t = f(t)` in a loop needs a place that both rounds know, and copies into it; the frontend makes them. Text
that was printed has those places and copies already. Read as an author's it would get them a second time, and the
program would grow each time it is printed and read. `pl.func_attr({"explicit": True})` at the start of a function says
that a name is a variable of the program, and an assignment one statement.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.frontend import loops, scalars, views
from pypto.frontend.builder import usable
from pypto.frontend.moves import alias
from pypto.frontend.region import LoopState
from pypto.frontend.statements import Statements
from pypto.frontend.values import ArrayValue, PyValue, Value, Window, is_scalar, is_task_id
from pypto.ir.exprs import Const, Dim, Expr, ScalarVar, depends_on_mutable, to_dim
from pypto.ir.nodes import (
    CallStmt,
    ForStmt,
    IfStmt,
    Let,
    OpStmt,
    ScopeStmt,
    Stmt,
    TaskRef,
    TaskStmt,
    TaskVar,
    Var,
    WhileStmt,
)
from pypto.ir.types import TensorType, ValueType
from pypto.language.dtypes import INDEX, DataType
from pypto.language.enums import MemorySpace

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

_VARIABLES: Final = (Var, ScalarVar)


def is_explicit(node: ast.FunctionDef) -> bool:
    """Whether a function says that its names are variables."""
    first = node.body[0]
    call = first.value if isinstance(first, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "func_attr":
        return False
    named = call.args[0] if call.args else None
    return isinstance(named, ast.Dict) and any(
        isinstance(key, ast.Constant) and key.value == "explicit" for key in named.keys
    )


class Explicit(Statements):
    """Statements of one function in explicit form."""

    def __init__(self, reader: Reader, function: ast.FunctionDef) -> None:
        super().__init__(reader)
        self.builder.explicit = True
        stored = (node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self.times = Counter(node.id for node in stored)
        self.variables: dict[str, Var | ScalarVar] = {}
        self.tasks: dict[str, TaskVar] = {}

    def _assign(self, node: ast.Assign) -> None:
        self.assign(node.targets[0], self._result(node.value), node)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None or not isinstance(node.target, ast.Name):
            super()._annotated(node)
            return
        self.assign(node.target, self._result(node.value), node)

    def _result(self, node: ast.expr) -> Value:
        """The value of an expression. `f(x)[0]` is one of several results, and only what gives this one is meant."""
        block = self.builder.block
        mark = len(block)
        value = self.reader.expressions.value(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            block[mark:] = [stmt for stmt in block[mark:] if isinstance(stmt, OpStmt) and stmt.out is value]
        return value

    def assign_name(self, name: str, value: Value, node: ast.stmt) -> None:
        """`name = value`: one statement, whose result is the variable of that name."""
        builder = self.builder
        if isinstance(value, Window):
            value = views.load_window(builder, value, node)
        if is_task_id(value):
            self._keep_task(name, value, node)
            return
        if isinstance(value, ArrayValue) and value.ids is not None:
            self._keep_tasks(name, value)
            return
        if not is_scalar(value) and not isinstance(value, Var):
            super().assign_name(name, value, node)
            return
        source = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, Var) and isinstance(source, ast.Name) and not value.is_tensor:
            value = views.in_memory(builder, value, node)
        last = builder.block[-1] if builder.block else None
        known = self.variables.get(name)
        if known is value and isinstance(value, Var):  # an operation in place
            pass
        elif isinstance(last, OpStmt) and last.out is value and value not in self.variables.values():
            if known is None:
                assert isinstance(value, _VARIABLES), "what an operation gives is a variable"
                known = self._named(name, value, node)
            last.out = known
        elif isinstance(value, Var):
            known = known or Var(name, value.type, builder.loc(node), self.times[name] > 1)
            assert isinstance(known, Var), "a name keeps its kind"
            builder.emit(alias(known, value, builder.loc(node)))
        else:
            known = self._let(name, value, known, node)
        self.variables[name] = known
        builder.bind(name, known)

    def _keep_task(self, name: str, value: PyValue, node: ast.stmt) -> None:
        """A name keeps a task id: of the launch or statement that just made it, or of another name."""
        builder, known = self.builder, self.tasks.get(name)
        last = builder.block[-1] if builder.block else None
        made = value.ids is not None and value.ids.index is None and value.ids.var not in self.tasks.values()
        if made and isinstance(last, (CallStmt, ScopeStmt)) and last.order.out == value.ids:
            last.order = replace(last.order, out=self._task_of(name, value, known))
        elif made and isinstance(last, TaskStmt) and last.out == value.ids:
            last.out = self._task_of(name, value, known)
        else:
            ids = () if value.ids is None else (value.ids,)
            builder.emit(TaskStmt("assign", self._task_of(name, None, known), ids, builder.loc(node)))
        place = TaskRef(self.tasks[name])
        builder.frame.names[name] = PyValue(value.obj, place)

    def _task_of(self, name: str, value: PyValue | None, known: TaskVar | None) -> TaskRef:
        if known is None:
            known = TaskVar(name) if value is None or value.ids is None else value.ids.var
            known.name = name
        self.tasks[name] = known
        return TaskRef(known)

    def _keep_tasks(self, name: str, value: ArrayValue) -> None:
        """A name keeps an array of task ids, which is empty once more where the text makes it again."""
        builder, known = self.builder, self.tasks.get(name)
        assert value.ids is not None, "see `assign_name`"
        last = builder.block[-1] if builder.block else None
        if known is not None and isinstance(last, TaskStmt) and last.out.var is value.ids:
            last.out = TaskRef(known)
        elif known is None:
            known = self.tasks[name] = value.ids
            known.name = name
        builder.frame.names[name] = replace(value, ids=known)

    def _let(self, name: str, value: Expr, known: Var | ScalarVar | None, node: ast.stmt) -> ScalarVar:
        if known is None:
            dtype = self._scalar_type(node) or value.dtype
            mutable = self.times[name] > 1
            steady = not mutable and dtype is value.dtype and not depends_on_mutable(value)
            known = ScalarVar(name, dtype, value if steady else None, mutable)
        assert isinstance(known, ScalarVar), "a name keeps its kind"
        self.builder.emit(Let(known, value, self.builder.loc(node)))
        return known

    def _named(self, name: str, value: Var | ScalarVar, node: ast.stmt) -> Var | ScalarVar:
        value.name, value.mutable = name, self.times[name] > 1
        if isinstance(value, ScalarVar):
            value.dtype = self._scalar_type(node) or value.dtype
        elif isinstance(node, ast.AnnAssign):
            value.type = self._annotated_type(value.type, node.annotation)
        return value

    def _scalar_type(self, node: ast.stmt) -> DataType | None:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.annotation, ast.Subscript):
            return None
        value = self.reader.expressions.value(node.annotation.slice)
        return value.obj if isinstance(value, PyValue) and isinstance(value.obj, DataType) else None

    def _annotated_type(self, type: ValueType, annotation: ast.expr) -> ValueType:
        """`pl.Tile[[shape], dtype, pl.TileView(valid_shape=[..]), memory]`, or `pl.Tensor[..]` at tensor level."""
        if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
            return type
        valid: tuple[Dim, ...] | None = None
        space = MemorySpace.Vec
        for item in annotation.slice.elts[2:]:
            if isinstance(item, ast.Call):
                extents = self.reader.expressions.value(item.keywords[0].value)
                assert isinstance(extents, tuple), "a list of extents"
                valid = tuple(self._extent(extent) for extent in extents)
            else:
                memory = self.reader.expressions.value(item)
                if isinstance(memory, PyValue) and isinstance(memory.obj, MemorySpace):
                    space = memory.obj
        if isinstance(type, TensorType):
            return replace(type, partial=valid)
        level = isinstance(annotation.value, ast.Attribute) and annotation.value.attr == "Tensor"
        return replace(type, valid=valid or type.shape, space=space, tensor_level=level)

    @staticmethod
    def _extent(extent: Expr) -> Dim:
        return extent if isinstance(extent, ScalarVar) else to_dim(extent)

    def _block(self, body: list[ast.stmt]) -> list[Stmt]:
        frame = self.builder.frame
        frame.conditional += 1
        try:
            with self.builder.into([]) as block:
                self.read(body)
        finally:
            frame.conditional -= 1
        return block

    def _condition(self, test: ast.expr) -> Expr:
        value = usable(self.builder, self.reader.expressions.value(test))
        return scalars.truth(self.builder, value, test, "the condition")

    def _if(self, node: ast.If) -> None:
        condition = self._condition(node.test)
        then, orelse = self._block(node.body), self._block(node.orelse)
        self.builder.emit(IfStmt(condition, then, orelse, self.builder.loc(node)))

    def _loop(self, node: ast.For | ast.While, body: list[ast.stmt]) -> list[Stmt]:
        self.reader.regions.loops.append(LoopState(node, self.builder.level, left=frozenset()))
        try:
            return self._block(body)
        finally:
            self.reader.regions.loops.pop()

    def _for(self, node: ast.For) -> None:
        builder, kind = self.builder, loops.kind_of(self.reader, node.iter)
        if kind not in loops.COUNTED or not isinstance(node.iter, ast.Call) or not isinstance(node.target, ast.Name):
            super()._for(node)
            return
        start, stop, step = loops.bounds(self.reader, node.iter, kind)
        name = node.target.id
        variable = self.variables.get(name)
        if not isinstance(variable, ScalarVar):
            variable = ScalarVar(name, INDEX)
        self.variables[name] = variable
        builder.bind(name, variable)
        block = self._loop(node, node.body)
        builder.emit(ForStmt(variable, start, stop, step, kind, block, builder.loc(node)))

    def _while(self, node: ast.While) -> None:
        """`while True:` with `if not (cond): break` in it: what stands above is computed before each round."""
        condition, head, body = self._condition(node.test), [], node.body
        if isinstance(condition, Const):
            at = next((at for at, stmt in enumerate(body) if _stops(stmt)), None)
            if at is not None:
                stop = body[at]
                assert isinstance(stop, ast.If), "see `_stops`"
                assert isinstance(stop.test, ast.UnaryOp), "see `_stops`"
                head = self._block(body[:at])
                condition, body = self._condition(stop.test.operand), body[at + 1 :]
        block = self._loop(node, body)
        self.builder.emit(WhileStmt(head, condition, block, self.builder.loc(node)))

    def _with(self, node: ast.With) -> None:
        call = node.items[0].context_expr
        if self.builder.level == "orchestration" and isinstance(call, ast.Call) and _is_copy(call):
            self.builder.level = "kernel"
            try:
                self.read(node.body)
            finally:
                self.builder.level = "orchestration"
            return
        super()._with(node)


def _stops(stmt: ast.stmt) -> bool:
    return (
        isinstance(stmt, ast.If)
        and isinstance(stmt.test, ast.UnaryOp)
        and isinstance(stmt.test.op, ast.Not)
        and len(stmt.body) == 1
        and isinstance(stmt.body[0], ast.Break)
    )


def _is_copy(call: ast.Call) -> bool:
    """A scope with an empty name stands around a copy that orchestration code makes where paths meet."""
    return any(
        keyword.arg == "name_hint" and isinstance(keyword.value, ast.Constant) and keyword.value.value == ""
        for keyword in call.keywords
    )
