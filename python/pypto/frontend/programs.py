"""Programs from `@pl.program` classes, `@pl.function` functions and jit entries."""

from __future__ import annotations

import ast
from typing import Any

from pypto.errors import InternalError
from pypto.frontend.annotations import ParamSpec
from pypto.frontend.functions import build
from pypto.frontend.invoke import is_launchable
from pypto.frontend.library import Library
from pypto.frontend.namespace import Namespace
from pypto.frontend.signature import Argument, dynamic_axes, resolve, specs_of
from pypto.frontend.source import Source, read
from pypto.frontend.tasks import array_parameter
from pypto.frontend.values import TASK_ID, ArrayValue
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.exprs import ScalarVar
from pypto.ir.nodes import Function, Program, Var
from pypto.ir.passes import wrap_kernel_entry
from pypto.ir.types import TensorType
from pypto.language.annotations import DynVar
from pypto.language.dtypes import FP32
from pypto.language.dtypes import TASK_ID as TASK_ID_TYPE
from pypto.language.enums import FunctionType, Level
from pypto.language.program import FunctionDecl, InlineFunction


def build_program(cls: type) -> Program:
    """The program of a class of `@pl.function` methods."""
    methods: dict[str, Any] = {
        name: member for name, member in vars(cls).items() if isinstance(member, (FunctionDecl, InlineFunction))
    }
    decls = {name: member for name, member in methods.items() if isinstance(member, FunctionDecl)}
    if not decls:
        raise TypeError(f"@pl.program class {cls.__name__!r} has no @pl.function method")
    library = Library()
    entries = _entries_of(decls)
    order = [*entries, *(decl for decl in decls.values() if decl not in entries)]
    built: dict[str, Function] = {}
    for decl in order:
        if decl.__name__ not in library.functions and decl.type is not FunctionType.Inline:
            built[decl.__name__] = _build_decl(library, decl, methods)
    raise_mistakes(library)
    names = [built[entry.__name__].name for entry in entries]
    # Variants of kernels first, then the functions as they stand in the class.
    ordered = [name for name in library.functions if name not in decls] + list(decls)
    functions = {name: library.functions[name] for name in ordered if name in library.functions}
    program = Program(cls.__name__, functions, names[0] if len(names) == 1 else None, _class_loc(decls), names)
    if len(names) == 1:
        wrap_kernel_entry(program)
    return program


def _class_loc(decls: dict[str, FunctionDecl]) -> Any:
    return min(read(decl.fn).loc(read(decl.fn).node) for decl in decls.values())


def _entries_of(decls: dict[str, FunctionDecl]) -> list[FunctionDecl]:
    """The functions that a launch may run: of the outermost kind, those that no other function calls."""
    called = {
        node.attr
        for decl in decls.values()
        for node in ast.walk(read(decl.fn).node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    free = [decl for name, decl in decls.items() if name not in called]
    for wanted in (FunctionType.Orchestration, FunctionType.Opaque, FunctionType.InCore):
        found = [decl for decl in free if decl.type is wanted]
        if found:
            return found
    others = [decl for decl in free if decl.type is not FunctionType.Inline]
    return others if len(others) == 1 else []


def build_function(decl: FunctionDecl) -> Function:
    """A free `@pl.function` as IR."""
    library = Library()
    function = _build_decl(library, decl, None)
    raise_mistakes(library)
    function.attrs["decl"] = decl
    return function


def _build_decl(library: Library, decl: FunctionDecl, methods: dict[str, Any] | None) -> Function:
    source = read(decl.fn)
    level = decl.options.get("level")
    if isinstance(level, Level) and level >= Level.HOST:
        return _host_function(library, decl, source, level)
    namespace = Namespace(decl.fn, library.captures)
    specs = specs_of(source, namespace, skip_self=methods is not None, jit=False)
    arguments = annotated_arguments(source, specs)
    kind = decl.type
    if not kind.is_kernel:
        kind = FunctionType.InCore if is_launchable(decl) else FunctionType.Orchestration
    signature = resolve(namespace, specs, dynamic_axes(source, namespace, specs), arguments, {})
    return build(library, decl.__name__, kind, source, namespace, specs, signature, {}, methods)


def _host_function(library: Library, decl: FunctionDecl, source: Source, level: Level) -> Function:
    """A function that runs on the host: it exists, and compiling a program that starts with it is refused."""
    loc = source.loc(source.node)
    message = f"{decl.__name__!r} is at level {level.name}: programs over several ranks are not supported"
    refusal = Diagnostic("unsupported", message, loc, "write one chip's program: @pl.function without level=")
    body = source.node.body[-1]
    stub = isinstance(body, ast.Expr) and isinstance(body.value, ast.Constant) and body.value.value is Ellipsis
    attrs = {"unsupported": refusal, "stub": stub}
    function = Function(decl.__name__, FunctionType.Orchestration, [], [], [], loc, attrs=attrs)
    library.add(function)
    return function


def annotated_arguments(source: Source, specs: list[ParamSpec]) -> list[Argument]:
    """Stand-ins for arguments, from annotations alone. Raises where an annotation leaves something open."""
    problems: list[Diagnostic] = []
    arguments: list[Argument] = []
    for spec in specs:
        if spec.kind == "array" and spec.shape is not None and spec.dtype is not None:
            memory = array_parameter(spec.name, spec.shape[0], spec.dtype, source.loc(spec.node))
            arguments.append(ArrayValue(spec.shape[0], spec.dtype, memory))
        elif spec.kind == "scalar" and spec.dtype is TASK_ID_TYPE:
            arguments.append(TASK_ID)
        elif spec.kind == "scalar":
            arguments.append(ScalarVar(spec.name, spec.dtype or FP32))
        elif spec.shape is not None and spec.dtype is not None:
            shape = tuple(1 if isinstance(dim, DynVar) else dim for dim in spec.shape)
            arguments.append(Var(spec.name, TensorType(shape, spec.dtype)))
        else:
            problems.append(
                Diagnostic(
                    "type",
                    f"parameter {spec.name!r} is a bare 'pl.Tensor': its shape and dtype are not known here",
                    source.loc(spec.node),
                    "write pl.Tensor[[rows, cols], dtype], or compile with sample arguments",
                )
            )
    if problems:
        raise error_for(problems)
    return arguments


def raise_mistakes(library: Library) -> None:
    """Raises everything that was refused, together."""
    if library.diagnostics:
        raise error_for(library.diagnostics)
    if library.refused:
        raise InternalError("a statement was left out of a program, and nothing says why")
