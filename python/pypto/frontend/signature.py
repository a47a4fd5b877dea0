"""Parameters of one specialisation: their types, and what the dynamic extents are called inside."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from pypto.frontend.annotations import ParamSpec, read_params
from pypto.frontend.builder import Builder
from pypto.frontend.namespace import MISSING, Namespace
from pypto.frontend.source import Source
from pypto.frontend.values import Value, Window
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.exprs import Const, Dim, Expr, Symbol, linear, of_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TensorType
from pypto.language.annotations import DynVar
from pypto.language.dtypes import DataType


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of the parameters (a dtype for a scalar), extents by dynamic variable, and the key of the specialisation."""

    types: tuple[TensorType | DataType, ...]
    dynamic: dict[DynVar, Dim]
    symbols: tuple[Symbol, ...]
    key: Hashable


def specs_of(source: Source, namespace: Namespace, skip_self: bool) -> list[ParamSpec]:
    """The parameters of a function as annotated."""
    return read_params(source, namespace, skip_self)


def bound_axes(source: Source, namespace: Namespace) -> dict[str, dict[int, DynVar]]:
    """What `x.bind_dynamic(axis, M)` statements of a function say: by parameter, by axis."""
    found: dict[str, dict[int, DynVar]] = {}
    problems: list[Diagnostic] = []
    for stmt in source.node.body:
        call = stmt.value if isinstance(stmt, ast.Expr) else None
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr != "bind_dynamic"
        ):
            continue
        owner = call.func.value
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        variable = (
            namespace.find(arguments[1].id) if len(arguments) == 2 and isinstance(arguments[1], ast.Name) else MISSING
        )
        axis = arguments[0] if arguments else None
        if (
            not isinstance(owner, ast.Name)
            or not isinstance(variable, DynVar)
            or not isinstance(axis, ast.Constant)
            or not isinstance(axis.value, int)
        ):
            problems.append(
                Diagnostic(
                    "type",
                    "bind_dynamic takes a constant axis and a pl.dynamic object, on a parameter",
                    source.loc(call),
                    'M = pl.dynamic("M") at module level, then x.bind_dynamic(0, M)',
                )
            )
            continue
        found.setdefault(owner.id, {})[axis.value] = variable
    if problems:
        raise error_for(problems)
    return found


def resolve(
    source: Source, namespace: Namespace, specs: list[ParamSpec], arguments: list[Var | Expr], baked: dict[str, Const]
) -> Signature:
    """The types of parameters for these arguments. Declared extents win over those of the arguments."""
    bound = bound_axes(source, namespace)
    symbols: list[Symbol] = []
    dynamic: dict[DynVar, Dim] = {}
    named: dict[str, Symbol] = {}
    by_value: dict[Any, Symbol] = {}
    types: list[TensorType | DataType] = []
    key: list[Hashable] = [namespace.fn]

    def symbol(name: str) -> Symbol:
        made = Symbol(name)
        symbols.append(made)
        return made

    def declared(variable: DynVar) -> Dim:
        if variable not in dynamic:
            if variable.name not in named or type(variable) is DynVar:
                named[variable.name] = symbol(variable.name)
            dynamic[variable] = named[variable.name]
        return dynamic[variable]

    def of_argument(dim: Dim, label: str) -> Dim:
        if isinstance(dim, int):
            return dim
        terms, constant = linear(of_dim(dim))
        value = (frozenset(terms.items()), constant)
        if value not in by_value:
            by_value[value] = symbol(label)
        return by_value[value]

    for spec, argument in zip(specs, arguments, strict=True):
        if not isinstance(argument, Var):
            dtype = spec.dtype or argument.dtype
            types.append(dtype)
            key.append((dtype.name, baked[spec.name].value if spec.name in baked else None))
            continue
        have = argument.tensor
        axes = bound.get(spec.name, {})
        shape: list[Dim] = []
        for axis, dim in enumerate(spec.shape if spec.shape is not None else have.shape):
            if axis in axes:
                shape.append(declared(axes[axis]))
            elif isinstance(dim, DynVar):
                shape.append(declared(dim))
            else:
                shape.append(of_argument(dim, f"{spec.name}_{axis}"))
        types.append(TensorType(tuple(shape), spec.dtype or have.dtype, have.layout))
        key.append(
            (types[-1].dtype.name, tuple(dim if isinstance(dim, int) else symbols.index(dim) + 0.5 for dim in shape))
        )  # type: ignore[union-attr, arg-type]
    return Signature(tuple(types), dynamic, tuple(symbols), tuple(key))


def bind_dynamic_extents(builder: Builder, source: Source, specs: list[ParamSpec], values: list[Value]) -> None:
    """In a spliced function a dynamic variable is the extent of the argument that carries it."""
    bound = bound_axes(source, builder.frame.namespace)
    for spec, value in zip(specs, values, strict=True):
        if not isinstance(value, (Var, Window)):
            continue
        shape = value.type.shape if isinstance(value, Var) else value.shape
        axes: dict[int, Any] = dict(enumerate(spec.shape or ())) | bound.get(spec.name, {})
        for axis, variable in axes.items():
            if isinstance(variable, DynVar) and axis < len(shape):
                builder.frame.dynamic.setdefault(variable, shape[axis])
