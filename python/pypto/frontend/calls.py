"""Calls: of operations, of constructs, of other kernel functions, of methods."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pypto.frontend import invoke, lanes, scalars, tasks, views
from pypto.frontend.arithmetic import called, is_pure
from pypto.frontend.builder import Builder, usable
from pypto.frontend.elsewhere import WRITTEN
from pypto.frontend.rules import RULES
from pypto.frontend.values import BoundMethod, PyValue, Value, Window, describe, is_scalar, plain_numbers
from pypto.ir.exprs import Const, cast, literal
from pypto.language.dtypes import DataType
from pypto.language.jit import JITFunction
from pypto.language.ops import REQUIRED, Form, find
from pypto.language.program import FunctionDecl, InlineFunction
from pypto.language.stubs import MARK

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

_STATEMENT_ONLY: Final = {
    "range": "for i in pl.range(...):",
    "parallel": "for i in pl.parallel(...):",
    "unroll": "for i in pl.unroll(...):",
    "pipeline": "for i in pl.pipeline(..., stage=2):",
    "while_": "for (x,) in pl.while_(init_values=(x0,)):",
    "at": "with pl.at(...):",
    "spmd": "for i in pl.spmd(n): or with pl.spmd(n):",
    "split_aiv": "for lane in pl.split_aiv(2, mode=...):",
    "cluster": "with pl.cluster():",
    "scope": "with pl.scope():",
    "manual_scope": "with pl.manual_scope():",
    "cond": "it as the first statement of a pl.while_ loop",
}


@dataclass(slots=True)
class BoundCall:
    """A call of an operation with its arguments matched to parameters. Missing ones hold their Python default."""

    builder: Builder
    form: Form
    node: ast.Call
    values: list[Any]
    nodes: list[ast.expr | None]

    def given(self, name: str) -> Any:
        """The value of a parameter by name; `None` where the form has no such parameter."""
        for param, value in zip(self.form.accepted, self.values, strict=True):
            if param.name == name:
                return value
        return None

    def node_of(self, position: int) -> ast.AST:
        """Where the argument stands (the call itself where it is a default)."""
        return self.nodes[position] or self.node

    def node_named(self, name: str) -> ast.AST:
        """Where a parameter by name stands."""
        for position, param in enumerate(self.form.accepted):
            if param.name == name:
                return self.node_of(position)
        return self.node


class Calls:
    """Evaluates call expressions."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.builder = reader.builder

    def call(self, node: ast.Call) -> Value:
        """The value of a call; `None`-like for calls that have no result."""
        callee = usable(self.builder, self.reader.expressions.value(node.func))
        if isinstance(callee, BoundMethod):
            return self._method(callee, node)
        if isinstance(callee, PyValue):
            if isinstance(callee.obj, lanes.LaneCall):
                return lanes.call_lane(self.reader, callee.obj, node)
            mark = getattr(callee.obj, MARK, None)
            if isinstance(mark, Form):
                return self.operation(mark, node)
            if isinstance(mark, str):
                return self._construct(mark, node)
            if isinstance(callee.obj, (JITFunction, FunctionDecl, InlineFunction)) or invoke.is_ir_function(callee.obj):
                return invoke.call_function(self.reader, callee.obj, node)
            if callee.obj is float and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
                text = str(node.args[0].value).strip("+").lower()
                if text in ("inf", "-inf", "infinity", "-infinity", "nan"):  # what no literal can say
                    return literal(float(text))
            if is_pure(callee.obj) and not node.keywords:
                return self._calculate(callee, node)
        return self._reject(callee, node)

    def _calculate(self, callee: PyValue, node: ast.Call) -> Value:
        """Python's own arithmetic on constants: `math.sqrt(HEAD_DIM)`, `len(SIZES)`."""
        given = [plain_numbers(usable(self.builder, self.reader.expressions.value(item))) for item in node.args]
        if None in given:
            return self._reject(callee, node)
        try:
            result = called(callee.obj, given)
        except (TypeError, ValueError, ArithmeticError) as error:
            self.builder.fail("value", f"`{ast.unparse(node)}`: {error}", node, "write the number")
        return self.reader.expressions.of_python(result, node)

    def operation(self, form: Form, node: ast.Call) -> Value:
        """A call of an operation of the table."""
        builder = self.builder
        if not form.op.supported:
            builder.fail(
                "unsupported",
                f"{form.spelling} {form.op.refusal}",
                node.func,
                "compose it from operations that are: each has a rule in the table of pypto.language.ops",
            )
        bound = self.match(form, node)
        return RULES[form.op.rule](bound)

    def match(self, form: Form, node: ast.Call) -> BoundCall:
        """Evaluates the arguments of a call and matches them to the parameters of the form."""
        builder, params = self.builder, form.accepted
        values: list[Any] = [REQUIRED] * len(params)
        nodes: list[ast.expr | None] = [None] * len(params)
        # Where the public signature is `*args`, positional arguments are those that no keyword gives.
        named = {keyword.arg for keyword in node.keywords} if form.op.accepts else set()
        places = [at for at, param in enumerate(params) if not param.keyword_only and param.name not in named]
        if len(node.args) > len(places):
            builder.fail(
                "type",
                f"{form.spelling}({form.text}) takes {len(places)} positional arguments, {len(node.args)} were given",
                node,
                f"give the parameters in this order: {form.text}",
            )
        for place, argument in zip(places, node.args, strict=False):
            values[place], nodes[place] = usable(builder, self.reader.expressions.value(argument)), argument
        for keyword in node.keywords:
            at = next((i for i, param in enumerate(params) if param.name == keyword.arg), None)
            if at is None:
                builder.fail(
                    "type",
                    f"{form.spelling}({form.text}) has no parameter {keyword.arg!r}",
                    keyword.value,
                    f"its parameters are {form.text}",
                )
            if nodes[at] is not None:
                builder.fail(
                    "type",
                    f"{form.spelling} got {keyword.arg!r} twice",
                    keyword.value,
                    "give it once, by position or by name",
                )
            read = partial(tasks.deps, self.reader) if keyword.arg == "deps" else self.reader.expressions.value
            values[at], nodes[at] = usable(builder, read(keyword.value)), keyword.value
        for at, param in enumerate(params):
            if values[at] is REQUIRED:
                if param.default is REQUIRED:
                    builder.fail(
                        "type", f"{form.spelling}({form.text}) needs {param.name!r}", node, f"give {param.name}=..."
                    )
                values[at] = param.default
        return BoundCall(builder, form, node, values, nodes)

    def _method(self, method: BoundMethod, node: ast.Call) -> Value:
        if isinstance(method.owner, DataType):
            return literal(method.owner.get_byte() if method.name == "get_byte" else method.owner.get_bit())
        # bind_dynamic was read before the body: it decides the types of parameters.
        return PyValue(None)

    def _construct(self, name: str, node: ast.Call) -> Value:
        builder, expressions = self.builder, self.reader.expressions
        if name in ("min", "max"):
            lhs, rhs = self._two(f"pl.{name}", node)
            return scalars.extremum(builder, name, lhs, rhs, node)
        if name == "const":
            value, dtype = self._two("pl.const", node)
            if not isinstance(value, Const) or not isinstance(dtype, PyValue) or not isinstance(dtype.obj, DataType):
                builder.fail(
                    "type",
                    "pl.const takes a constant and a dtype: pl.const(1, pl.INT32)",
                    node,
                    "the value is a literal or an outside number: pl.const(1, pl.INT32)",
                )
            return cast(value, dtype.obj)
        if name == "static_assert":
            self._static_assert(node)
            return PyValue(None)
        if name == "static_print":
            print(*(_constant_text(expressions.value(argument)) for argument in node.args))
            return PyValue(None)
        if name == "yield_":
            return self._yield(node)
        if name in ("submit", "spmd_submit"):
            return tasks.submit(self.reader, node, name)
        if name == "func_attr":
            self._func_attr(node)
            return PyValue(None)
        if name in _STATEMENT_ONLY:
            builder.fail("syntax", f"pl.{name} is not a value", node, f"write {_STATEMENT_ONLY[name]}")
        builder.fail(
            "unsupported",
            f"pl.{name} is not supported yet",
            node.func,
            "leave it out, or express it with the constructs that are",
        )

    def _func_attr(self, node: ast.Call) -> None:
        """Attributes of a function steer the compiler of the real chip: read for mistakes only."""
        body = self.builder.frame.source.node.body
        documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        first = body[1 if documented and len(body) > 1 else 0]
        if not isinstance(first, ast.Expr) or first.value is not node:
            self.builder.fail(
                "syntax", "pl.func_attr stands after other statements", node, "make it the first statement"
            )
        if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Dict):
            self.builder.fail("type", "pl.func_attr takes a dict", node, 'write pl.func_attr({"name": value})')

    def _yield(self, node: ast.Call) -> Value:
        """In an arm of a branch: what the assigned names get. In a loop also: what the next round starts with."""
        builder, carriers = self.builder, self.reader.regions.carriers
        if not carriers or not carriers[-1].yields:
            builder.fail(
                "syntax",
                "pl.yield_ outside a branch and outside a loop with init_values",
                node,
                "carry values with for i, (a,) in pl.range(n, init_values=(a0,)):, or just assign the names",
            )
        given = (usable(builder, self.reader.expressions.value(argument)) for argument in node.args)
        values = tuple(self._settled(value, node) for value in given)
        carriers[-1].yielded = values
        return values[0] if len(values) == 1 else values

    def _settled(self, value: Value, node: ast.Call) -> Value:
        if isinstance(value, Window):
            return views.load_window(self.builder, value, node)
        return self.builder.let(value, node) if is_scalar(value) else value

    def _two(self, what: str, node: ast.Call) -> tuple[Any, Any]:
        arguments = list(node.args) + [keyword.value for keyword in node.keywords]
        if len(arguments) != 2:
            self.builder.fail(
                "type", f"{what} takes two arguments, {len(arguments)} were given", node, f"write {what}(a, b)"
            )
        first, second = (usable(self.builder, self.reader.expressions.value(argument)) for argument in arguments)
        return first, second

    def _static_assert(self, node: ast.Call) -> None:
        arguments = list(node.args) + [keyword.value for keyword in node.keywords]
        if not arguments:
            self.builder.fail(
                "type", "pl.static_assert takes a condition", node, "write pl.static_assert(condition, 'what is wrong')"
            )
        condition = self.reader.expressions.value(arguments[0])
        if not isinstance(condition, Const):
            self.builder.fail(
                "value",
                "pl.static_assert needs a condition that is known at compile time",
                arguments[0],
                "use constants, shapes and outside names; decide on runtime values with `if`",
            )
        if not condition.value:
            message = self.reader.expressions.value(arguments[1]) if len(arguments) > 1 else PyValue("")
            text = message.obj if isinstance(message, PyValue) and message.obj else ast.unparse(arguments[0])
            self.builder.fail(
                "value",
                f"static assertion failed: {text}",
                node,
                "the condition is false for these arguments: change what it is computed from",
            )

    def _reject(self, callee: Value, node: ast.Call) -> Value:
        spelled = ast.unparse(node.func)
        hints = {
            "range": "write pl.range(...)",
            "min": "write pl.min(a, b)",
            "max": "write pl.max(a, b)",
            "print": "pl.static_print prints while the kernel is compiled",
            "int": "write pl.cast(x, pl.INT32)",
            "float": "write pl.cast(x, pl.FP32)",
            "abs": "write pl.abs(x)",
            "len": "write x.shape[0]",
        }
        if is_scalar(callee):
            self.builder.fail(
                "type",
                f"{describe(callee)} cannot be called",
                node.func,
                "only operations (pl.*) and decorated functions are called",
            )
        self.builder.fail(
            "syntax",
            f"{spelled}(...) is ordinary Python, and kernels are never executed by Python",
            node.func,
            hints.get(spelled) or _instead(spelled),
        )


def _instead(spelled: str) -> str:
    """What to write for a call of ordinary Python, as `torch.exp`."""
    name = spelled.rpartition(".")[2]
    if find("pl", name) is not None:
        return f"write pl.{name}(...)"
    if name in WRITTEN:
        return f"write it with operations, of a value x: {WRITTEN[name]}"
    return "call operations (pl.*), or functions decorated with @pl.jit.incore or @pl.jit.inline"


def _constant_text(value: Value) -> str:
    if isinstance(value, Const):
        return str(value.value)
    if isinstance(value, PyValue):
        return str(value.obj)
    if isinstance(value, tuple):
        return "[" + ", ".join(_constant_text(item) for item in value) + "]"
    return describe(value)
