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
from pypto.frontend.signature import dynamic_axes, resolve, specs_of
from pypto.frontend.source import Source, read
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.exprs import Expr, ScalarVar, Symbol, index
from pypto.ir.nodes import CallStmt, Function, Param, Program, Var
from pypto.ir.types import TensorType
from pypto.language.annotations import DynVar
from pypto.language.dtypes import FP32
from pypto.language.enums import FunctionType, Level
from pypto.language.ops import BY_NAME, FORMS
from pypto.language.program import FunctionDecl, InlineFunction

_SCOPES = frozenset({"at", "spmd", "cluster", "submit", "spmd_submit", "scope", "manual_scope"})


def build_program(cls: type) -> Program:
    """The program of a class of `@pl.function` methods."""
    methods: dict[str, Any] = {
        name: member for name, member in vars(cls).items() if isinstance(member, (FunctionDecl, InlineFunction))
    }
    decls = {name: member for name, member in methods.items() if isinstance(member, FunctionDecl)}
    if not decls:
        raise TypeError(f"@pl.program class {cls.__name__!r} has no @pl.function method")
    library = Library()
    entry = _entry_of(decls)
    order = [entry] if entry else []
    order += [decl for decl in decls.values() if decl is not entry]
    built: dict[str, Function] = {}
    for decl in order:
        if decl.__name__ not in library.functions and decl.type is not FunctionType.Inline:
            built[decl.__name__] = _build_decl(library, decl, methods)
    raise_mistakes(library)
    entry_name = built[entry.__name__].name if entry else None
    program = Program(cls.__name__, library.functions, entry_name, _class_loc(decls))
    if entry_name is not None:
        wrap_kernel_entry(program)
    return program


def _class_loc(decls: dict[str, FunctionDecl]) -> Any:
    return min(read(decl.fn).loc(read(decl.fn).node) for decl in decls.values())


def _entry_of(decls: dict[str, FunctionDecl]) -> FunctionDecl | None:
    for wanted in (FunctionType.Orchestration, FunctionType.Opaque):
        of_type = [decl for decl in decls.values() if decl.type is wanted]
        if len(of_type) == 1:
            return of_type[0]
        if of_type:
            return None
    callable_ones = [decl for decl in decls.values() if decl.type is not FunctionType.Inline]
    return callable_ones[0] if len(callable_ones) == 1 else None


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
        message = f"{decl.__name__!r} is at level {level.name}: programs over several ranks are not supported"
        raise error_for([Diagnostic("unsupported", message, source.loc(source.node), "write one chip's program")])
    namespace = Namespace(decl.fn, library.captures)
    specs = specs_of(source, namespace, skip_self=methods is not None)
    arguments = annotated_arguments(source, specs)
    kind = decl.type
    if kind is FunctionType.Opaque:
        kind = (
            FunctionType.InCore if computes_outside_scopes(source, namespace, methods) else FunctionType.Orchestration
        )
    signature = resolve(namespace, specs, dynamic_axes(source, namespace, specs), arguments, {})
    return build(library, decl.__name__, kind, source, namespace, specs, signature, {}, methods)


def annotated_arguments(source: Source, specs: list[ParamSpec]) -> list[Var | Expr]:
    """Stand-ins for arguments, from annotations alone. Raises where an annotation leaves something open."""
    problems: list[Diagnostic] = []
    arguments: list[Var | Expr] = []
    for spec in specs:
        if spec.kind == "scalar":
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


def computes_outside_scopes(source: Source, namespace: Namespace, methods: dict[str, Any] | None) -> bool:
    """Whether an opaque function is a kernel itself: it computes, opens no scope and calls no function."""
    computes = False
    for node in ast.walk(source.node):
        if not isinstance(node, ast.Call):
            continue
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if name in _SCOPES:
            return False
        if (
            isinstance(func, ast.Attribute)
            and isinstance(func.value, ast.Name)
            and func.value.id == "self"
            and methods is not None
        ):
            return False
        if isinstance(func, ast.Name) and is_launchable(namespace.peek(name)):
            return False
        if name in FORMS["pl"] or name in FORMS["tile"]:
            form = FORMS["pl"].get(name) or FORMS["tile"][name]
            computes = computes or bool(BY_NAME[form.op.name].core)
    return computes


def wrap_kernel_entry(program: Program) -> None:
    """A program whose entry is a kernel gets an orchestration function that launches it once."""
    kernel = program.entry
    if not kernel.kind.is_kernel:
        return
    copies = {param.var: _copy(param.var) for param in kernel.params}
    params = [
        Param(param.name, copies[param.var], param.direction, param.loc, param.declared, param.baked)
        for param in kernel.params
    ]
    launch = CallStmt(kernel, tuple(copies.values()), index(1), kernel.loc)
    returns = [copy for var in kernel.returns if isinstance(copy := copies[var.resolve()], Var)]
    name = f"{kernel.name}_entry"
    program.functions[name] = Function(
        name, FunctionType.Orchestration, params, [launch], returns, kernel.loc, kernel.symbols
    )
    program.entry_name = name


def _copy(var: Var | ScalarVar | Symbol) -> Var | ScalarVar:
    return Var(var.name, var.type, var.loc) if isinstance(var, Var) else ScalarVar(var.name, var.dtype)


def raise_mistakes(library: Library) -> None:
    """Raises everything that was refused, together."""
    if library.diagnostics:
        raise error_for(library.diagnostics)
    if library.refused:
        raise InternalError("a statement was left out of a program, and nothing says why")
