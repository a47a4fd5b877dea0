"""Calls of other kernel functions: spliced into the caller, or specialised and launched."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pypto.frontend import signature, validity, views
from pypto.frontend.annotations import ParamSpec
from pypto.frontend.builder import Builder, Frame, Refused, usable
from pypto.frontend.library import MAX_CALL_DEPTH
from pypto.frontend.namespace import Namespace
from pypto.frontend.opaque import computes
from pypto.frontend.source import Source, read
from pypto.frontend.values import NONE, TASK_ID, ArrayValue, PyValue, Value, Window, describe, is_scalar
from pypto.ir.diagnostics import KernelError, error_for
from pypto.ir.exprs import Const, cast, index, of_dim
from pypto.ir.nodes import CallStmt, Function, Order, Var
from pypto.ir.types import TensorType, TileType
from pypto.language.annotations import DynVar
from pypto.language.dtypes import TASK_ID as TASK_ID_TYPE
from pypto.language.enums import FunctionType
from pypto.language.jit import JITFunction
from pypto.language.program import FunctionDecl, InlineFunction

if TYPE_CHECKING:
    from pypto.frontend.reader import Reader

_REFUSED = {
    "entry": (
        "a @pl.jit entry cannot be called from another kernel",
        "decorate it with @pl.jit.inline, or with @pl.jit.incore if it computes on tiles",
    ),
    "host": ("host functions are not supported", "call the functions of one chip"),
    "extern": (
        "hand-written device code (@pl.jit.extern) is not supported",
        "write it with operations and decorate it with @pl.jit.incore",
    ),
}


@dataclass(frozen=True, slots=True)
class Callee:
    """A decorated function that is about to be called."""

    name: str
    source: Source
    namespace: Namespace
    methods: dict[str, Any] | None
    specs: list[ParamSpec]
    axes: dict[str, signature.Axes]


def is_ir_function(obj: object) -> bool:
    """Whether `obj` is what a bare `@pl.function` returns."""
    return isinstance(obj, Function)


def _kind(obj: Any) -> str:
    """`splice`, `launch`, or the kind of a function that cannot be called."""
    if isinstance(obj, Function):
        obj = obj.attrs["decl"]
    if isinstance(obj, InlineFunction):
        return "splice"
    if isinstance(obj, FunctionDecl):
        kernel = obj.type.is_kernel or (obj.type is FunctionType.Opaque and computes(obj.fn))
        return "launch" if kernel else "splice"
    if isinstance(obj, JITFunction):
        if obj.kind == "opaque":
            return "launch" if computes(obj.fn) else "splice"
        return {"incore": "launch", "inline": "splice"}.get(obj.kind, obj.kind)
    return ""


def is_launchable(obj: object) -> bool:
    """Whether orchestration code that calls `obj` launches a kernel."""
    return _kind(obj) == "launch"


def is_spliced(obj: object) -> bool:
    """Whether a call of `obj` reads its body in place. (A free `@pl.function` is IR, and hides its source.)"""
    return not isinstance(obj, Function) and _kind(obj) == "splice"


def call_function(reader: Reader, obj: Any, node: ast.Call) -> Value:
    """A call of a decorated function."""
    builder = reader.builder
    kind = _kind(obj)
    if kind in _REFUSED:
        message, hint = _REFUSED[kind]
        builder.fail(
            "unsupported" if kind != "entry" else "type", f"{ast.unparse(node.func)}: {message}", node.func, hint
        )
    decl = obj.attrs["decl"] if isinstance(obj, Function) else obj
    _check_name(reader, decl, node)
    if len(builder.chain) >= MAX_CALL_DEPTH:
        builder.report("value", f"{decl.__name__!r} calls itself, directly or through others", node, "write a loop")
        raise error_for(reader.library.diagnostics)  # going on would find it once more for each call on the way here
    fn = decl.fn
    try:
        source = read(fn)
        namespace = Namespace(fn, reader.library.captures)
        methods = builder.frame.methods if isinstance(decl, FunctionDecl) else None
        specs = signature.specs_of(source, namespace, skip_self=methods is not None, jit=isinstance(decl, JITFunction))
        axes = signature.dynamic_axes(source, namespace, specs)
    except KernelError as error:
        # Its own mistakes explain all: they are reported once, with the way to the first call.
        known = {(diagnostic.message, diagnostic.loc) for diagnostic in builder.diagnostics}
        chain = (*builder.chain, (decl.__name__, builder.loc(node)))
        builder.diagnostics += [
            replace(diagnostic, chain=chain)
            for diagnostic in error.diagnostics
            if (diagnostic.message, diagnostic.loc) not in known
        ]
        raise Refused from None
    callee = Callee(decl.__name__, source, namespace, methods, specs, axes)
    if isinstance(decl, JITFunction) and decl.kind == "inline":
        _warn_of_directions(decl, source, specs)
    values, nodes = _match(reader, decl.__name__, specs, fn.__defaults__ or (), node)
    if kind == "splice" or builder.level == "kernel":
        return _splice(reader, callee, values, nodes, node)
    return _launch(reader, callee, values, nodes, node)


def _warn_of_directions(decl: JITFunction, source: Source, specs: list[ParamSpec]) -> None:
    """An inline function is spliced: what it writes is written, whatever its parameters declare."""
    for spec in specs:
        if spec.declared:
            place = source.loc(spec.node)
            text = f"pl.{spec.direction} on {spec.name!r} of inline function {decl.__name__!r} means nothing: remove it"
            warnings.warn_explicit(text, DeprecationWarning, place.file, place.line, registry=_WARNED)


_WARNED: dict[Any, Any] = {}
"""Which warnings were given, as `warnings` keeps it for each module."""


def _check_name(reader: Reader, decl: Any, node: ast.Call) -> None:
    """A callee is found by its own name: `foo = bar; foo(x)` is a slip that would compile the wrong function."""
    if isinstance(decl, JITFunction) and isinstance(node.func, ast.Name) and node.func.id != decl.__name__:
        reader.builder.fail(
            "value",
            f"{node.func.id!r} is another name for {decl.__name__!r}; call a function by the name of its definition",
            node.func,
            f"write {decl.__name__}(...)",
        )


def _names(specs: list[ParamSpec]) -> str:
    return ", ".join(spec.name for spec in specs) or "none"


def _match(
    reader: Reader, name: str, specs: list[ParamSpec], defaults: tuple[Any, ...], node: ast.Call
) -> tuple[list[Value], list[ast.expr]]:
    """The arguments of a call by position of the parameter, and where each stands."""
    builder = reader.builder
    values: list[Value | None] = [None] * len(specs)
    nodes: list[ast.expr] = [node] * len(specs)
    if len(node.args) > len(specs):
        builder.fail(
            "type",
            f"{name}() takes {len(specs)} arguments, {len(node.args)} were given",
            node,
            f"its parameters are {_names(specs)}",
        )
    given = [(position, argument) for position, argument in enumerate(node.args)]
    for keyword in node.keywords:
        at = next((i for i, spec in enumerate(specs) if spec.name == keyword.arg), None)
        if at is None:
            builder.fail(
                "type",
                f"{name}() has no parameter {keyword.arg!r}",
                keyword.value,
                f"its parameters are {_names(specs)}",
            )
        given.append((at, keyword.value))
    for at, argument in given:
        if values[at] is not None:
            builder.fail(
                "type", f"{name}() got {specs[at].name!r} twice", argument, "give it once, by position or by name"
            )
        values[at], nodes[at] = usable(builder, reader.expressions.value(argument)), argument
    for at, default in enumerate(defaults, len(specs) - len(defaults)):
        if values[at] is None:
            values[at] = reader.expressions.of_python(default, node)
    missing = [spec.name for spec, value in zip(specs, values, strict=True) if value is None]
    if missing:
        builder.fail("type", f"{name}() needs {', '.join(missing)}", node, f"its parameters are {_names(specs)}")
    return values, nodes  # type: ignore[return-value]  # none is missing


def _splice(reader: Reader, callee: Callee, values: list[Value], nodes: list[ast.expr], node: ast.Call) -> Value:
    """Reads the callee's body in place, with its own names."""
    builder = reader.builder
    passed = zip(callee.specs, nodes, strict=True)
    baked = frozenset(spec.name for spec, argument in passed if _is_baked(builder.frame, argument))
    frame = Frame(callee.source, callee.namespace, methods=callee.methods, baked=baked)
    outer_frame, outer_chain, outer_homes = builder.frame, builder.chain, builder.homes
    here = builder.loc(node)
    builder.frame, builder.chain, builder.homes = frame, (*outer_chain, (callee.name, here)), {}
    regions = reader.regions
    outer_loops, outer_carried, regions.loops, regions.carried = regions.loops, regions.carried, [], []
    try:
        signature.bind_dynamic_extents(builder, callee.axes, callee.specs, values)
        for spec, value in zip(callee.specs, values, strict=True):
            builder.bind(spec.name, builder.detach(_narrowed(builder, spec, value, node), here))
        reader.statements.read_function(callee.source.node.body)
    finally:
        for bound in list(frame.names):
            builder.unbind(bound)
        builder.frame, builder.chain, builder.homes = outer_frame, outer_chain, outer_homes
        regions.loops, regions.carried = outer_loops, outer_carried
    if frame.result in (None, NONE) and node is not reader.statements.called and not builder.explicit:
        hint = "end it with `return value`, or call it as a statement of its own"
        builder.fail("type", f"{callee.name}(...) returns nothing, and here its value is used", node, hint)
    return NONE if frame.result is None else frame.result


def _narrowed(builder: Builder, spec: ParamSpec, value: Value, node: ast.Call) -> Value:
    """Device memory of which a spliced function says that less is valid."""
    if spec.valid is None or not isinstance(value, Var) or not isinstance(value.type, TensorType):
        return value
    declared = [builder.symbol_of(item, node) if isinstance(item, DynVar) else item for item in spec.valid]
    valid = tuple(
        validity.smaller(builder, part, item, node) for part, item in zip(value.type.valid, declared, strict=True)
    )
    return views.view_of(builder, replace(views.whole(value), valid=valid), node)


def _launch(reader: Reader, callee: Callee, values: list[Value], nodes: list[ast.expr], node: ast.Call) -> Value:
    """Specialises the callee for these arguments and launches it."""
    from pypto.frontend.functions import build

    builder = reader.builder
    arguments: list[signature.Argument] = []
    baked: dict[str, Const] = {}
    for spec, value, argument in zip(callee.specs, values, nodes, strict=True):
        arguments.append(_argument(reader, callee.name, spec, value, argument))
        if _is_baked(builder.frame, argument) and isinstance(value, Const):
            baked[spec.name] = value
    resolved = signature.resolve(callee.namespace, callee.specs, callee.axes, arguments, baked)
    known = reader.library.kernels
    if resolved.key not in known:
        chain = (*builder.chain, (callee.name, builder.loc(node)))
        mistakes = len(builder.diagnostics)
        kernel = build(
            reader.library,
            callee.name,
            FunctionType.InCore,
            callee.source,
            callee.namespace,
            callee.specs,
            resolved,
            baked,
            callee.methods,
            chain,
        )
        known[resolved.key] = kernel if len(builder.diagnostics) == mistakes else None
    found = known[resolved.key]
    if found is None:
        raise Refused  # its own mistakes are reported; what this call would give is unknown
    kernel = found
    # Task ids order tasks and are no parameters: neither is an array of them.
    given: list[Value] = [argument for argument in arguments if not _orders(argument)]
    given += [of_dim(dim) for _, dim in resolved.valid]
    passed = [argument.var if isinstance(argument, ArrayValue) else argument for argument in given]
    results: list[Value] = []
    for returned in kernel.returns:
        position = next((i for i, param in enumerate(kernel.params) if param.var is returned.resolve()), None)
        assert position is not None, "every result of a kernel is one of its parameters"
        if position >= len(passed):
            shape = returned.tensor.shape
            made = builder.op(
                "create_tensor",
                returned.type,
                (tuple(of_dim(dim) for dim in shape),),
                node,
                {"init_value": None},
                returned.name,
            )
            passed.append(made)
            given.append(made)
        result = given[position]
        results.append(result.resolve() if isinstance(result, Var) and result.untracked else result)
    order = Order(manual=builder.manual)
    builder.emit(CallStmt(kernel, tuple(passed), index(1), builder.loc(node), order))  # type: ignore[arg-type]  # see `given`
    if not results:
        return PyValue(None)
    return results[0] if len(results) == 1 else tuple(results)


def _is_baked(frame: Frame, argument: ast.expr) -> bool:
    """Whether an argument is the name of a scalar that was fixed at compile time: the callee fixes it too."""
    return isinstance(argument, ast.Name) and argument.id in frame.baked


def _orders(argument: signature.Argument) -> bool:
    return isinstance(argument, PyValue) or (isinstance(argument, ArrayValue) and argument.var is None)


def _argument(reader: Reader, name: str, spec: ParamSpec, value: Value, node: ast.expr) -> signature.Argument:
    builder = reader.builder
    if spec.kind == "array" or (spec.kind == "any" and isinstance(value, ArrayValue)):
        if not isinstance(value, ArrayValue):
            builder.fail(
                "type",
                f"{name}(): {spec.name!r} is an array, got {describe(value)}",
                node,
                "make one: pl.array.create(n, dtype)",
            )
        if spec.shape is not None and (spec.shape[0], spec.dtype) != (value.extent, value.dtype):
            wanted = f"pl.Array[{spec.shape[0]}, pl.{spec.dtype}]"
            builder.fail(
                "type",
                f"{name}(): {spec.name!r} is {wanted}, got {describe(value)}",
                node,
                f"declare the parameter as pl.Array[{value.extent}, pl.{value.dtype}]",
            )
        return value
    if value in (TASK_ID, NONE) and (spec.dtype is TASK_ID_TYPE or spec.kind == "any"):
        return TASK_ID
    if spec.kind == "scalar" or (spec.kind == "any" and is_scalar(value)):
        if not is_scalar(value):
            builder.fail(
                "type",
                f"{name}(): {spec.name!r} is a scalar, got {describe(value)}",
                node,
                "pass a number; an element of a tensor is read with pl.read(x, [i, j])",
            )
        if spec.dtype is not None and (value.dtype.is_float, value.dtype.is_bool) != (
            spec.dtype.is_float,
            spec.dtype.is_bool,
        ):
            if isinstance(value, Const) and spec.dtype.is_float and not value.dtype.is_bool:
                return cast(value, spec.dtype)
            builder.fail(
                "type",
                f"{name}(): {spec.name!r} is {spec.dtype.with_article} scalar, got {describe(value)}",
                node,
                f"convert it: pl.cast(x, pl.{spec.dtype.name})",
            )
        return value
    if isinstance(value, Window) or not isinstance(value, Var):
        builder.fail(
            "type",
            f"{name}(): {spec.name!r} is a tensor, got {describe(value)}",
            node,
            "pass a tensor, or a slice of one that has a name",
        )
    if isinstance(value.type, TileType):
        return views.in_memory(builder, value, node)
    if spec.dtype is not None and spec.dtype is not value.type.dtype:
        builder.fail(
            "type",
            f"{name}(): {spec.name!r} has dtype {spec.dtype}, got {describe(value)}",
            node,
            "convert it in a kernel: pl.cast",
        )
    if spec.shape is not None and len(spec.shape) != len(value.type.shape):
        builder.fail(
            "type",
            f"{name}(): {spec.name!r} has {len(spec.shape)} axes, got {describe(value)}",
            node,
            f"pl.reshape it to {len(spec.shape)} axes, or index it: x[i]",
        )
    return value
