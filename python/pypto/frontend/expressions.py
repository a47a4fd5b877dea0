"""Expressions: from syntax to values."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pypto import language
from pypto.frontend import boxes, scalars, tasks, views
from pypto.frontend.builder import Builder, usable
from pypto.frontend.elsewhere import WRITTEN
from pypto.frontend.namespace import MISSING
from pypto.frontend.values import (
    Ambiguous,
    ArrayValue,
    BoundMethod,
    PyValue,
    Value,
    Window,
    describe,
    is_scalar,
    python_number,
)
from pypto.ir.exprs import Const, Expr, literal, of_dim
from pypto.ir.nodes import Var
from pypto.language import ops
from pypto.language.annotations import DynVar
from pypto.language.dtypes import DataType

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

MAX_DEPTH: Final = 200
"""Nesting of one expression. Beyond this no person wrote it, and recursion would end the process instead."""

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**64 - 1
MAX_ITEMS: Final = 4096
"""Values of one tuple, those of tuples in it included."""

_REJECTED: Final[dict[type[ast.expr], tuple[str, str]]] = {
    ast.IfExp: ("a conditional expression", "write an if statement; for numbers pl.min/pl.max may do"),
    ast.Lambda: ("lambda", "define a function and decorate it with @pl.jit.inline"),
    ast.ListComp: ("a comprehension", "write the elements out, or a loop over pl.range"),
    ast.SetComp: ("a comprehension", "write a loop over pl.range"),
    ast.DictComp: ("a comprehension", "write a loop over pl.range"),
    ast.GeneratorExp: ("a generator", "write a loop over pl.range"),
    ast.NamedExpr: ("`:=`", "write an assignment on its own line"),
    ast.JoinedStr: ("an f-string", "strings are not values of the language"),
    ast.Await: ("await", "kernels run in program order"),
    ast.Yield: ("yield", "carry values with pl.yield_(...)"),
    ast.YieldFrom: ("yield", "carry values with pl.yield_(...)"),
    ast.Dict: ("a dict", "kernels have scalars, tensors and tiles"),
    ast.Set: ("a set", "kernels have scalars, tensors and tiles"),
    ast.Starred: ("`*`", "write the arguments out"),
}
_ELSEWISE: Final = {
    ast.BitAnd: ("&", "pl.and_"),
    ast.BitOr: ("|", "pl.or_"),
    ast.BitXor: ("^", "pl.xor"),
    ast.Pow: ("**", "a multiplication"),
    ast.MatMult: ("@", "pl.matmul(a, b)"),
}


def _is_small(items: tuple[Any, ...] | list[Any]) -> bool:
    """Whether containers in containers hold `MAX_ITEMS` values at most. (`x = (x, x)` doubles them each time.)"""
    waiting: list[Any] = [items]
    count = 0
    while waiting and count <= MAX_ITEMS:
        inner = waiting.pop()
        count += len(inner)
        waiting += [item for item in inner[:MAX_ITEMS] if isinstance(item, (tuple, list))]
    return count <= MAX_ITEMS


class Expressions:
    """Evaluates expressions in the current frame of the builder."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.builder: Builder = reader.builder
        self._depth = 0

    def value(self, node: ast.expr) -> Value:
        """The value of an expression. Mistakes are recorded, then `Refused` is raised."""
        if self._depth >= MAX_DEPTH:
            self._refuse_depth(node)
        self._depth += 1
        try:
            return _VISITORS.get(type(node), Expressions._reject)(self, node)
        finally:
            self._depth -= 1

    def _refuse_depth(self, node: ast.expr) -> NoReturn:
        self.builder.fail(
            "syntax", f"this expression nests more than {MAX_DEPTH} levels deep", node, "name parts of it"
        )

    def scalar(self, node: ast.expr, what: str) -> Expr:
        """The value of an expression that must be a scalar."""
        return scalars.scalar(self.builder, self.value(node), node, what)

    def _reject(self, node: ast.expr) -> Value:
        what, hint = _REJECTED.get(type(node), (f"`{type(node).__name__}`", "write operations, scalars and subscripts"))
        self.builder.fail("syntax", f"{what} is not part of the kernel language", node, hint)

    def _constant(self, node: ast.Constant) -> Value:
        value = node.value
        if isinstance(value, (bool, float)):
            return literal(value)
        if isinstance(value, int):
            if not MIN_INT <= value <= MAX_INT:
                self.builder.fail(
                    "value", "this integer does not fit into 64 bits", node, "use a value between -2**63 and 2**64 - 1"
                )
            return literal(value)
        return PyValue(value)

    def _name(self, node: ast.Name) -> Value:
        builder = self.builder
        frame = builder.frame
        found = frame.names.get(node.id)
        if found is not None:
            if frame.unsure:
                self._refuse_unsure(node, found)
            if isinstance(found, Ambiguous):
                builder.fail("type", found.text, node, found.hint)
            return usable(builder, found)
        self.reader.regions.look_back(node)
        outside = frame.namespace.find(node.id)
        if outside is MISSING:
            hint = "assign it first, or define it outside the kernel; operations stand in pl"
            if frame.methods and node.id in frame.methods:
                hint = f"a function of the same program is self.{node.id}"
            if node.id in self.reader.assigned_somewhere:
                hint = "give it a value before this line, on every path that leads here"
            if node.id in frame.hidden:
                hint = "of a loop or a branch with pl.yield_ only what is yielded is visible afterwards: yield it"
            builder.fail("value", f"{node.id!r} has no value here", node, hint)
        return self.of_python(outside, node)

    def _refuse_unsure(self, node: ast.Name, found: Value) -> None:
        value, place = self.builder.frame.unsure.get(node.id, (None, None))
        if value is found and place is not None:
            self.builder.fail(
                "value",
                f"{node.id!r} has no value here when the block at line {place.line} is skipped",
                node,
                f"give {node.id!r} a value before line {place.line}, or use it inside that block",
            )

    def of_python(self, obj: Any, node: ast.AST) -> Value:
        """An outside Python object as a value: numbers become constants, dynamic extents what they are here."""
        obj = python_number(obj)
        if isinstance(obj, Enum) and isinstance(obj, (int, float)) and not type(obj).__module__.startswith("pypto."):
            obj = obj.value  # an author's own enumeration of numbers
        if isinstance(obj, (bool, int, float)) and not isinstance(obj, Enum):
            if isinstance(obj, int) and not MIN_INT <= obj <= MAX_INT:
                self.builder.fail(
                    "value", "this integer does not fit into 64 bits", node, "use a value between -2**63 and 2**64 - 1"
                )
            return literal(obj)
        if isinstance(obj, DynVar):
            return of_dim(self.builder.symbol_of(obj, node))
        if isinstance(obj, (tuple, list)) and _is_small(obj):
            self.builder.frame.namespace.captures.note_container(obj)
            return tuple(self.of_python(item, node) for item in obj)
        return PyValue(obj)

    def _attribute(self, node: ast.Attribute) -> Value:
        builder = self.builder
        if isinstance(node.value, ast.Name) and node.value.id == "self" and builder.frame.methods is not None:
            method = builder.frame.methods.get(node.attr)
            if method is None:
                known = ", ".join(builder.frame.methods)
                builder.fail("value", f"this program has no function {node.attr!r}", node, f"it has {known}")
            return PyValue(method)
        owner = usable(builder, self.value(node.value))
        if isinstance(owner, (Var, Window)):
            return self._member(owner, node)
        if isinstance(owner, PyValue):
            if isinstance(owner.obj, DataType) and node.attr in ("get_byte", "get_bit"):
                return BoundMethod(owner.obj, node.attr)
            try:
                found = getattr(owner.obj, node.attr)
            except AttributeError:
                builder.fail(
                    "value",
                    f"{describe(owner)} has no attribute {node.attr!r}",
                    node,
                    _instead(owner.obj, node.attr),
                )
            builder.frame.namespace.captures.note_attribute(owner.obj, node.attr, found)
            return self.of_python(found, node)
        builder.fail(
            "type",
            f"{describe(owner)} has no attribute {node.attr!r}",
            node,
            "tensors and tiles have .shape and .dtype; scalars have no attributes",
        )

    def _member(self, owner: Var | Window, node: ast.Attribute) -> Value:
        if node.attr == "shape":
            shape = owner.type.shape if isinstance(owner, Var) else owner.shape
            return tuple(of_dim(dim) for dim in shape)
        if node.attr == "dtype":
            return PyValue(owner.type.dtype if isinstance(owner, Var) else owner.base.type.dtype)
        if node.attr == "bind_dynamic":
            return BoundMethod(owner, node.attr)
        known = ops.find("pl", node.attr) is not None
        self.builder.fail(
            "type",
            f"{describe(owner)} has no attribute {node.attr!r}",
            node,
            f"operations are functions: pl.{node.attr if known else 'add'}({ast.unparse(node.value)}, ...)"
            + ("" if known else "; tensors and tiles have .shape and .dtype"),
        )

    def _subscript(self, node: ast.Subscript) -> Value:
        owner = usable(self.builder, self.value(node.value))
        if isinstance(owner, tuple):
            return self._item(owner, node)
        if isinstance(owner, ArrayValue):
            at = scalars.integer(self.builder, usable(self.builder, self.value(node.slice)), node.slice, "an index")
            return tasks.element(self.builder, owner, at, node)
        if isinstance(owner, Window):
            owner = views.view_of(self.builder, owner, node)
        if isinstance(owner, Var):
            return views.subscript(self, owner, node) if owner.is_tensor else boxes.subscript_tile(self, owner, node)
        if isinstance(owner, PyValue):
            return self._annotation_like(owner, node)
        self.builder.fail(
            "type", f"{describe(owner)} cannot be indexed", node, "tensors, tiles, tuples and arrays are indexed"
        )

    def _item(self, owner: tuple[Any, ...], node: ast.Subscript) -> Value:
        position = self.value(node.slice)
        if not isinstance(position, Const) or isinstance(position.value, float):
            self.builder.fail(
                "type",
                "a tuple is indexed by a constant integer",
                node.slice,
                "index it with a literal, or unpack it: a, b = x",
            )
        at = int(position.value)
        if not -len(owner) <= at < len(owner):
            self.builder.fail(
                "value",
                f"index {at} is outside a tuple of {len(owner)}",
                node.slice,
                f"its items are 0 to {len(owner) - 1}",
            )
        return usable(self.builder, owner[at])

    def _annotation_like(self, owner: PyValue, node: ast.Subscript) -> Value:
        key = self.value(node.slice)
        if isinstance(owner.obj, dict):
            self.builder.frame.namespace.captures.note_container(owner.obj)
            plain = key.obj if isinstance(key, PyValue) else getattr(key, "value", None)
            if plain in owner.obj:
                return self.of_python(owner.obj[plain], node)
        self.builder.fail(
            "type",
            f"{describe(owner)} cannot be indexed in a kernel",
            node,
            "bind the item to a module-level name and use that",
        )

    def _call(self, node: ast.Call) -> Value:
        return self.reader.calls.call(node)

    def _tuple(self, node: ast.Tuple | ast.List) -> Value:
        items = tuple(usable(self.builder, self.value(item)) for item in node.elts)
        if not _is_small(items):
            self.builder.fail(
                "value", f"this tuple holds more than {MAX_ITEMS} values", node, "keep many values in a tensor"
            )
        return items

    def _binary(self, node: ast.BinOp) -> Value:
        kind = scalars.BINARY.get(type(node.op))
        if kind is None:
            symbol, other = _ELSEWISE[type(node.op)]
            self.builder.fail("syntax", f"{symbol!r} is not part of the kernel language", node, f"write {other}")
        lhs = usable(self.builder, self.value(node.left))
        rhs = usable(self.builder, self.value(node.right))
        return scalars.arithmetic(self.builder, kind[0], kind[1], lhs, rhs, node)

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = usable(self.builder, self.value(node.operand))
        if isinstance(node.op, ast.UAdd):
            return scalars.scalar(self.builder, value, node, "the operand of '+'")
        op = "neg" if isinstance(node.op, ast.USub) else "bitnot" if isinstance(node.op, ast.Invert) else "not"
        return scalars.negate(self.builder, op, value, node)

    def _boolean(self, node: ast.BoolOp) -> Value:
        if len(node.values) > MAX_DEPTH:  # `a and b and c` is `(a and b) and c`
            self._refuse_depth(node)
        values = [usable(self.builder, self.value(item)) for item in node.values]
        return scalars.logical(self.builder, "and" if isinstance(node.op, ast.And) else "or", values, node.values)

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) > 1:
            self.builder.fail(
                "syntax", "a chain of comparisons is not part of the kernel language", node, "write a < b and b < c"
            )
        op = scalars.COMPARE.get(type(node.ops[0]))
        if op is None:
            self.builder.fail(
                "syntax",
                f"`{_OPERATOR.get(type(node.ops[0]), '?')}` is not part of the kernel language",
                node,
                "compare scalars with ==, !=, <, <=, > or >=",
            )
        lhs = usable(self.builder, self.value(node.left))
        rhs = usable(self.builder, self.value(node.comparators[0]))
        if (
            isinstance(lhs, PyValue)
            and isinstance(rhs, PyValue)
            and isinstance(lhs.obj, (DataType, Enum))
            and op in ("eq", "ne")
        ):
            return literal((lhs.obj == rhs.obj) == (op == "eq"))
        if not is_scalar(lhs) and isinstance(lhs, (Var, Window)):
            self.builder.fail(
                "type", f"comparisons work on scalars, got {describe(lhs)}", node, "element by element: pl.cmp(a, b)"
            )
        return scalars.compare(self.builder, op, lhs, rhs, node)


def _instead(obj: object, wanted: str) -> str:
    """What to write for an attribute that is not there: the names that come closest, or the first few."""
    if obj is language and wanted in WRITTEN:
        return f"write it with operations, of a value x: {WRITTEN[wanted]}"
    public = [name for name in dir(obj) if not name.startswith("_")]
    return f"it has {', '.join(difflib.get_close_matches(wanted, public, 3, 0.5) or public[:8]) or 'none'}"


_OPERATOR: Final = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}

_VISITORS: Final[dict[type[ast.expr], Callable[[Expressions, Any], Value]]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Call: Expressions._call,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._tuple,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._boolean,
    ast.Compare: Expressions._compare,
}
