"""Annotations: from what stands after the colon to a type."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pypto.frontend.arithmetic import OPERATORS, called, is_pure
from pypto.frontend.namespace import MISSING, Namespace
from pypto.frontend.source import Source
from pypto.frontend.values import NONE, TASK_ID, ArrayValue, Value, describe, is_scalar
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.exprs import Const
from pypto.ir.nodes import Var
from pypto.language.annotations import (
    ArrayAnnotation,
    Directed,
    DynVar,
    Scalar,
    ScalarAnnotation,
    Tensor,
    TensorAnnotation,
    TensorView,
    TileAnnotation,
)
from pypto.language.distributed import DistributedTensor
from pypto.language.dtypes import TASK_ID as TASK_ID_TYPE
from pypto.language.dtypes import DataType
from pypto.language.enums import TensorLayout

if TYPE_CHECKING:
    from pypto.frontend.builder import Frame
    from pypto.frontend.reader import Reader


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A parameter as its annotation says. `shape` and `dtype` are `None` where the call decides.

    `view` is what the third slot of a tensor says; `valid` are the valid extents in it.
    """

    name: str
    kind: str  # "tensor", "scalar", "array", or "any" where the argument decides
    direction: str
    declared: bool
    shape: tuple[Any, ...] | None
    dtype: DataType | None
    node: ast.arg
    view: TensorView | None = None

    @property
    def valid(self) -> tuple[Any, ...] | None:
        """The valid extents that the annotation names; `None` where it names none."""
        return None if self.view is None or self.view.valid_shape is None else tuple(self.view.valid_shape)


class Unreadable(Exception):
    """An annotation is none of the language's."""


def evaluate(node: ast.expr, namespace: Namespace | _Inside) -> Any:
    """The Python value of an annotation: names, attributes, subscripts, lists, numbers and arithmetic.

    Of functions it calls those of the language, pure ones of Python, and by their names those of the author: of an
    annotation that is no string, Python has called them already. Text that stands in no module has none.
    """
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return evaluate(ast.parse(node.value, mode="eval").body, namespace)
        return node.value
    if isinstance(node, ast.Name):
        value = namespace.find(node.id)
        if value is MISSING:
            raise Unreadable(f"{node.id!r} is not defined")
        return value
    if isinstance(node, ast.Attribute):
        owner = evaluate(node.value, namespace)
        value = getattr(owner, node.attr)
        namespace.captures.note_attribute(owner, node.attr, value)
        return value
    if isinstance(node, ast.Subscript):
        owner = evaluate(node.value, namespace)
        namespace.captures.note_container(owner)
        return owner[plain(node.slice, namespace) if isinstance(owner, dict) else evaluate(node.slice, namespace)]
    if isinstance(node, ast.Tuple):
        return tuple(evaluate(item, namespace) for item in node.elts)
    if isinstance(node, ast.Dict) and all(node.keys):
        return {
            plain(key, namespace): plain(value, namespace)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, ast.List):
        return [evaluate(item, namespace) for item in node.elts]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        operands = evaluate(node.left, namespace), evaluate(node.right, namespace)
        if not all(isinstance(operand, (int, float, DynVar)) for operand in operands):
            raise Unreadable(f"`{ast.unparse(node)}` calculates with something that is no number")
        return OPERATORS[type(node.op)](*operands)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -evaluate(node.operand, namespace)
    if isinstance(node, ast.Call):
        function = evaluate(node.func, namespace)
        if is_pure(function) and not node.keywords:
            return called(function, [evaluate(item, namespace) for item in node.args])
        authors = isinstance(node.func, ast.Name) and isinstance(function, FunctionType)
        if not authors and not (getattr(function, "__module__", None) or "").startswith("pypto.language"):
            raise Unreadable(f"`{ast.unparse(node)}` calls something that is not of the language")
        return function(
            *(plain(item, namespace) for item in node.args),
            **{keyword.arg: plain(keyword.value, namespace) for keyword in node.keywords if keyword.arg},
        )
    raise Unreadable(f"`{ast.unparse(node)}` cannot stand in an annotation")


def plain(node: ast.expr, namespace: Namespace | _Inside) -> Any:
    """As `evaluate`, where a string is a string and no annotation in quotes."""
    return node.value if isinstance(node, ast.Constant) else evaluate(node, namespace)


def read_params(source: Source, namespace: Namespace, skip_self: bool, jit: bool) -> list[ParamSpec]:
    """The parameters of a function. Raises one error that names every bad annotation."""
    arguments = source.node.args
    problems: list[Diagnostic] = []
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        odd = arguments.vararg or arguments.kwarg or arguments.kwonlyargs[0]
        problems.append(
            Diagnostic(
                "syntax",
                "a kernel has plain parameters only, no *args, **kwargs or keyword-only ones",
                source.loc(odd),
                "list every parameter by name; constants come from outside names",
            )
        )
    known: dict[str, Any] = getattr(namespace.fn, "__annotations__", {})
    specs: list[ParamSpec] = []
    for position, argument in enumerate((*arguments.posonlyargs, *arguments.args)):
        if skip_self and position == 0 and argument.arg == "self":
            continue
        try:
            annotation = known.get(argument.arg)
            if isinstance(annotation, str):
                annotation = evaluate(ast.parse(annotation, mode="eval").body, namespace)
            elif annotation is None and argument.annotation is not None:
                annotation = evaluate(argument.annotation, namespace)
            specs.append(_spec(argument, annotation))
            if jit and specs[-1].view is not None:
                raise Unreadable(
                    "a pl.TensorView stands in @pl.function only; in @pl.jit the third item is a layout such as pl.NZ, "
                    "and a slice says what is valid: pl.slice(x, shape, offset, valid_shape=[...])"
                )
        except (
            Unreadable,
            TypeError,
            ValueError,
            AttributeError,
            LookupError,
            ArithmeticError,
            SyntaxError,
            RecursionError,
        ) as error:
            place = argument.annotation or argument
            problems.append(
                Diagnostic(
                    "type",
                    f"parameter {argument.arg!r}: {error}",
                    source.loc(place),
                    "write pl.Tensor, pl.Tensor[[..], dtype], pl.Out[..] or pl.Scalar[dtype]",
                )
            )
    if problems:
        raise error_for(problems)
    return specs


def _spec(argument: ast.arg, annotation: Any) -> ParamSpec:
    name, direction, declared = argument.arg, "In", False
    if isinstance(annotation, Directed):
        direction, declared, annotation = annotation.direction, True, annotation.inner
    if annotation is Tensor:
        return ParamSpec(name, "tensor", direction, declared, None, None, argument)
    if isinstance(annotation, TensorAnnotation):
        view = annotation.view if isinstance(annotation.view, TensorView) else None
        return ParamSpec(name, "tensor", direction, declared, annotation.shape, _elements(annotation), argument, view)
    if isinstance(annotation, TileAnnotation):  # only in kernels that are spliced, where the argument decides
        return ParamSpec(name, "any", direction, declared, None, None, argument)
    if annotation is DistributedTensor:
        raise Unreadable("pld.DistributedTensor: programs over several ranks are not supported")
    if isinstance(annotation, ScalarAnnotation):
        return ParamSpec(name, "scalar", direction, declared, None, annotation.dtype, argument)
    if isinstance(annotation, DataType):
        return ParamSpec(name, "scalar", direction, declared, None, annotation, argument)
    if annotation is Scalar or annotation in (int, float, bool):
        return ParamSpec(name, "scalar", direction, declared, None, None, argument)
    if annotation is None:
        return ParamSpec(name, "any", direction, declared, None, None, argument)
    if isinstance(annotation, ArrayAnnotation):
        return ParamSpec(name, "array", direction, declared, (annotation.extent,), annotation.dtype, argument)
    raise Unreadable(f"{annotation!r} is not a type of the language")


def _elements(annotation: TensorAnnotation) -> DataType:
    """The dtype of a declared tensor. Layouts and strides are labels: a view brings its own strides."""
    view, dtype = annotation.view, annotation.dtype
    if isinstance(view, TensorView):
        _check_view(view, annotation.shape or ())
    elif view is not None and not isinstance(view, TensorLayout):
        raise Unreadable(
            f"the third item of pl.Tensor[...] is a layout such as pl.NZ, or a pl.TensorView, got {view!r}"
        )
    assert dtype is not None, "pl.Tensor[...] always has a dtype"
    if not dtype.supported:
        raise Unreadable(f"tensors of dtype {dtype!r} are not supported{dtype.why_not}")
    return dtype.of_elements


def _check_view(view: TensorView, shape: tuple[Any, ...]) -> None:
    for name, items in (("valid_shape", view.valid_shape), ("stride", view.stride)):
        if items is None:
            continue
        if not isinstance(items, (list, tuple)) or len(items) != len(shape):
            raise Unreadable(f"{name} of pl.TensorView has one item for each of the {len(shape)} axes, got {items!r}")
        for item in items:
            if isinstance(item, bool) or not isinstance(item, (int, DynVar)):
                raise Unreadable(f"an item of {name} is an int or a pl.dynamic object, got {item!r}")
    for part, extent in zip(view.valid_shape or (), shape, strict=False):
        if isinstance(part, int) and (part < 0 or (isinstance(extent, int) and part > extent)):
            raise Unreadable(f"valid_shape {part} is not within the extent {extent}")


class _Inside:
    """What names in an annotation inside a kernel mean: numbers that the kernel knows, too.

    An extent that only the run time knows is a dynamic one, which is not compared.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.captures = frame.namespace.captures

    def find(self, name: str) -> Any:
        """As `Namespace.find`."""
        held = self.frame.names.get(name)
        if held is None:
            return self.frame.namespace.find(name)
        return held.value if isinstance(held, Const) else DynVar(name)


def check_local(reader: Reader, annotation: ast.expr, value: Value, node: ast.stmt) -> None:
    """Compares an annotated assignment with what the value really is."""
    builder = reader.builder
    try:
        wanted = evaluate(annotation, _Inside(builder.frame))
    except (Unreadable, TypeError, ValueError, AttributeError, KeyError) as error:
        builder.fail(
            "type",
            f"annotation: {error}",
            annotation,
            "write pl.Tensor[[..], dtype], pl.Tile[[..], dtype] or pl.Scalar[dtype]",
        )
    if isinstance(wanted, (ScalarAnnotation, DataType)):
        dtype = wanted if isinstance(wanted, DataType) else wanted.dtype
        fits = value in (NONE, TASK_ID) if dtype is TASK_ID_TYPE else is_scalar(value)
    elif isinstance(wanted, ArrayAnnotation):
        fits = isinstance(value, ArrayValue) and (value.extent, value.dtype) == (wanted.extent, wanted.dtype)
    elif isinstance(wanted, (TensorAnnotation, TileAnnotation)):
        fits = isinstance(value, Var) and value.type.dtype is wanted.dtype and _fits(wanted.shape, value.type.shape)
    else:
        return
    if not fits:
        builder.fail(
            "type",
            f"the value is {describe(value)}, the annotation says {ast.unparse(annotation)}",
            node,
            "change the annotation to what the value is, or convert the value: pl.cast(x, dtype)",
        )


def _fits(wanted: tuple[Any, ...] | None, have: tuple[Any, ...]) -> bool:
    if wanted is None:
        return True
    if len(wanted) != len(have):
        return False
    return all(a == b for a, b in zip(wanted, have, strict=True) if isinstance(a, int) and isinstance(b, int))
