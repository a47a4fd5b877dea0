"""Parameters of one specialisation: their types, and what the dynamic extents are called inside."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pypto.frontend.annotations import ParamSpec, read_params
from pypto.frontend.builder import Builder
from pypto.frontend.namespace import MISSING, Namespace
from pypto.frontend.source import Source
from pypto.frontend.values import ArrayValue, PyValue, Value, Window
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.exprs import Const, Dim, Expr, Symbol, binary, index, linear, of_dim, to_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TensorType, same_extents
from pypto.language.annotations import DynVar
from pypto.language.dtypes import INDEX, TASK_ID, DataType

Axes: TypeAlias = dict[int, DynVar]
"""The dynamic extents of one parameter, by axis."""


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of a small array."""

    extent: int
    dtype: DataType


ParamType: TypeAlias = TensorType | DataType | ArrayType
Argument: TypeAlias = Var | Expr | ArrayValue | PyValue
"""What a parameter gets. The only Python value is a task id."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of the parameters, dynamic extents, and the key of the specialisation.

    A type is a dtype for a scalar; `TASK_ID`, and an array of that, is known without a parameter of the program.
    `valid` are the valid extents of arguments that are only known at run time and that no extent carries: the function
    takes each as a further parameter, and the caller passes the extent beside it.
    """

    types: tuple[ParamType, ...]
    dynamic: dict[DynVar, Dim]
    symbols: tuple[Symbol, ...]
    key: Hashable
    valid: tuple[tuple[Symbol, Dim], ...] = ()


def specs_of(source: Source, namespace: Namespace, skip_self: bool, jit: bool) -> list[ParamSpec]:
    """The parameters of a function as annotated."""
    return read_params(source, namespace, skip_self, jit)


def dynamic_axes(source: Source, namespace: Namespace, specs: list[ParamSpec]) -> dict[str, Axes]:
    """Which extents are dynamic: by annotation, or by `x.bind_dynamic(axis, M)` statements."""
    found: dict[str, Axes] = {}
    for spec in specs:
        axes = {axis: dim for axis, dim in enumerate(spec.shape or ()) if isinstance(dim, DynVar)}
        if axes:
            found[spec.name] = axes
    problems: list[Diagnostic] = []
    for stmt in source.node.body:
        call = stmt.value if isinstance(stmt, ast.Expr) else None
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr != "bind_dynamic"
        ):
            continue
        bound = _binding(call, namespace)
        if bound is None:
            problems.append(
                Diagnostic(
                    "type",
                    "bind_dynamic takes a constant axis and a pl.dynamic object, on a parameter",
                    source.loc(call),
                    'M = pl.dynamic("M") at module level, then x.bind_dynamic(0, M)',
                )
            )
        else:
            found.setdefault(bound[0], {})[bound[1]] = bound[2]
    if problems:
        raise error_for(problems)
    return found


def _binding(call: ast.Call, namespace: Namespace) -> tuple[str, int, DynVar] | None:
    assert isinstance(call.func, ast.Attribute), "checked by the caller"
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if len(arguments) != 2 or not isinstance(call.func.value, ast.Name):
        return None
    axis, name = arguments
    variable = namespace.find(name.id) if isinstance(name, ast.Name) else MISSING
    if not isinstance(axis, ast.Constant) or not isinstance(axis.value, int) or not isinstance(variable, DynVar):
        return None
    return call.func.value.id, axis.value, variable


class _Symbols:
    """Hands out one symbol per dynamic extent of a function."""

    def __init__(self) -> None:
        self.all: list[Symbol] = []
        self.dynamic: dict[DynVar, Dim] = {}
        self._by_value: dict[Hashable, Symbol] = {}

    def declared(self, variable: DynVar) -> Symbol:
        """The symbol of a dynamic variable; equal objects are equal extents, arithmetic on them is compared by text."""
        value: Hashable = variable if type(variable) is DynVar else variable.name
        symbol = self._of(value, variable.name)
        self.dynamic[variable] = symbol
        return symbol

    def passed(self, dim: Dim, label: str) -> Dim:
        """The extent of an argument: itself where it is static, else one symbol per provably equal extents."""
        if isinstance(dim, int):
            return dim
        terms, constant = linear(of_dim(dim))
        return self._of((frozenset(terms.items()), constant), label)

    def numbers(self, extents: tuple[Dim, ...]) -> tuple[Hashable, ...]:
        """Extents for a key: the number of a symbol stands for it."""
        return tuple(dim if isinstance(dim, int) else f"#{self.all.index(dim)}" for dim in extents)  # type: ignore[arg-type]

    def _of(self, value: Hashable, label: str) -> Symbol:
        if value not in self._by_value:
            self._by_value[value] = Symbol(label)
            self.all.append(self._by_value[value])
        return self._by_value[value]


def resolve(
    namespace: Namespace,
    specs: list[ParamSpec],
    axes: dict[str, Axes],
    arguments: Sequence[Argument],
    baked: dict[str, Const],
) -> Signature:
    """The types of parameters for these arguments. Declared extents win over those of the arguments."""
    symbols = _Symbols()
    parts: dict[Symbol, Dim] = {}
    types: list[ParamType] = []
    key: list[Hashable] = [namespace.fn]
    for spec, argument in zip(specs, arguments, strict=True):
        if isinstance(argument, ArrayValue):
            types.append(ArrayType(argument.extent, argument.dtype))
            key.append(types[-1])
            continue
        if isinstance(argument, PyValue):
            types.append(TASK_ID)
            key.append(TASK_ID.name)
            continue
        if not isinstance(argument, Var):
            dtype = spec.dtype or argument.dtype
            types.append(dtype)
            key.append((dtype.name, baked[spec.name].value if spec.name in baked else None))
            continue
        have, dynamic = argument.tensor, axes.get(spec.name, {})
        shape: list[Dim] = []
        for axis, dim in enumerate(have.shape if spec.shape is None else spec.shape):
            if axis in dynamic:
                shape.append(symbols.declared(dynamic[axis]))
            else:
                shape.append(symbols.passed(dim, f"{spec.name}_{axis}"))
        partial = _valid(spec, have, tuple(shape), symbols, parts)
        type = TensorType(tuple(shape), spec.dtype or have.dtype, have.layout, partial)
        types.append(type)
        # A symbol's number stands for it: kernels whose extents are equal in the same places are the same kernel.
        key.append((type.dtype.name, symbols.numbers(type.shape), partial and symbols.numbers(partial)))
    _require_carried(specs, symbols, types)
    carried = {dim for type in types if isinstance(type, TensorType) for dim in type.shape}
    valid = tuple((symbol, dim) for symbol, dim in parts.items() if symbol not in carried)
    own = tuple(symbol for symbol in symbols.all if symbol in carried)
    return Signature(tuple(types), symbols.dynamic, own, tuple(key), valid)


def _require_carried(specs: list[ParamSpec], symbols: _Symbols, types: list[ParamType]) -> None:
    """A dynamic variable that only a `valid_shape` names has no value."""
    extents = {dim for type in types if isinstance(type, TensorType) for dim in type.shape}
    for spec in specs:
        for item in spec.valid or ():
            if isinstance(item, DynVar) and symbols.dynamic.get(item) not in extents:
                raise ValueError(
                    f"parameter {spec.name!r}: valid_shape names {item!r}, which is no extent of a parameter; name an "
                    f"extent, or say what is valid where it is sliced: pl.slice(x, shape, offset, valid_shape=[n, 64])"
                )


def _valid(
    spec: ParamSpec, have: TensorType, shape: tuple[Dim, ...], symbols: _Symbols, parts: dict[Symbol, Dim]
) -> tuple[Dim, ...] | None:
    """The valid extents of a parameter: those of the argument, or fewer where the annotation says so."""
    partial: list[Dim] = []
    for axis, (extent, whole, part) in enumerate(zip(shape, have.shape, have.valid, strict=True)):
        declared = spec.valid[axis] if spec.valid is not None else None
        if declared is not None and not isinstance(declared, int):
            partial.append(symbols.dynamic[declared] if declared in symbols.dynamic else symbols.declared(declared))
        elif not same_extents((part,), (whole,)) and not isinstance(part, int):
            if declared is not None:
                part = to_dim(binary("min", of_dim(part), index(declared), INDEX))
            symbol = symbols.passed(part, f"{spec.name}_valid{axis}")
            assert isinstance(symbol, Symbol), "a runtime extent has a symbol"
            parts.setdefault(symbol, part)
            partial.append(symbol)
        else:
            known = [dim for dim in (part if part != whole else None, declared) if isinstance(dim, int)]
            partial.append(min(known) if known else extent)
    return None if same_extents(tuple(partial), shape) else tuple(partial)


def bind_dynamic_extents(builder: Builder, axes: dict[str, Axes], specs: list[ParamSpec], values: list[Value]) -> None:
    """In a spliced function a dynamic variable is the extent of the argument that carries it."""
    for spec, value in zip(specs, values, strict=True):
        if isinstance(value, (Var, Window)):
            shape: tuple[Any, ...] = value.type.shape if isinstance(value, Var) else value.shape
            for axis, variable in axes.get(spec.name, {}).items():
                if axis < len(shape):
                    builder.frame.dynamic.setdefault(variable, shape[axis])
