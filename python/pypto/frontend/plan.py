"""What is known of a jit function before it has arguments: parameters, defaults, dynamic extents."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from pypto.frontend.annotations import ParamSpec
from pypto.frontend.namespace import Captures, Namespace
from pypto.frontend.signature import Axes, dynamic_axes, specs_of
from pypto.frontend.source import Source, read
from pypto.frontend.values import python_number
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.language.annotations import RUNTIME
from pypto.language.jit import JITFunction

ABSENT: Final = object()
"""Stands where a parameter got no argument."""

_UNSUPPORTED: Final = {
    "host": "host functions (programs over several ranks)",
    "extern": "hand-written device code",
}


@dataclass(slots=True)
class Plan:
    """A jit function as far as its source tells. `axes` are the dynamic extents, by parameter and axis."""

    function: JITFunction
    source: Source
    specs: list[ParamSpec]
    captures: Captures
    axes: dict[str, Axes]
    defaults: list[Any]
    inputs: list[int]
    axes_in_order: list[Axes | None]

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Arguments by position of the parameter; `ABSENT` where there is none. All inputs alone leave outputs out."""
        specs = self.specs
        if len(args) == len(specs) and not kwargs:
            return list(args)
        if len(args) > len(specs):
            raise self._mismatch(f"takes {len(specs)} arguments ({self._names()}), got {len(args)}")
        given = list(self.defaults)
        inputs_alone = len(args) == len(self.inputs) and not kwargs and self._are_inputs(args)
        for position, value in zip(self.inputs if inputs_alone else range(len(args)), args, strict=True):
            given[position] = value
        seen = set(range(len(args)))
        for name, value in kwargs.items():
            position = next((at for at, spec in enumerate(specs) if spec.name == name), -1)
            if position < 0:
                raise self._mismatch(f"got an unexpected keyword argument {name!r}; it has {self._names()}")
            if position in seen:
                raise self._mismatch(f"got {name!r} twice", specs[position])
            given[position] = value
        return given

    def _are_inputs(self, args: tuple[Any, ...]) -> bool:
        """Whether as many arguments as inputs are them. With defaults, outputs may be there and numbers left out."""
        if all(value is ABSENT for value in self.defaults):
            return True
        pairs = (
            (self.specs[position], python_number(value)) for position, value in zip(self.inputs, args, strict=True)
        )
        return all(isinstance(value, (int, float, type(RUNTIME))) for spec, value in pairs if spec.kind == "scalar")

    def _mismatch(self, message: str, spec: ParamSpec | None = None) -> Exception:
        """A call that does not fit, shown where the function or the parameter is defined."""
        place = self.source.loc(self.source.node if spec is None else spec.node)
        hint = "give each parameter once, by position or by name; outputs may be left out where all inputs are given"
        return error_for([Diagnostic("type", f"{self}: {message}", place, hint)])

    def _names(self) -> str:
        return ", ".join(spec.name for spec in self.specs)

    def __str__(self) -> str:
        return f"@pl.jit function {self.function.__name__!r}"


_PLANS: WeakKeyDictionary[JITFunction, Plan] = WeakKeyDictionary()


def plan_of(function: JITFunction) -> Plan:
    """The plan of a function; made again when an outside name that its annotations use changed its meaning."""
    plan = _PLANS.get(function)
    if plan is None or not plan.captures.unchanged():
        plan = _PLANS[function] = _make(function)
    return plan


def _make(function: JITFunction) -> Plan:
    source = read(function.fn)
    if function.kind in _UNSUPPORTED:
        message = f"@pl.jit.{function.kind}: {_UNSUPPORTED[function.kind]} are not supported"
        raise error_for(
            [Diagnostic("unsupported", message, source.loc(source.node), "write the program of one chip: @pl.jit")]
        )
    captures = Captures()
    namespace = Namespace(function.fn, captures)
    specs = specs_of(source, namespace, skip_self=False, jit=True)
    axes = _axes(source, namespace, specs, {function: {}})
    values = list(function.fn.__defaults__ or ())
    defaults = [ABSENT] * (len(specs) - len(values)) + values
    inputs = [position for position, spec in enumerate(specs) if spec.direction != "Out"]
    ordered = [axes.get(spec.name) for spec in specs]
    return Plan(function, source, specs, captures, axes, defaults, inputs, ordered)


def _axes(
    source: Source, namespace: Namespace, specs: list[ParamSpec], known: dict[JITFunction, dict[str, Axes]]
) -> dict[str, Axes]:
    """Dynamic extents that the function declares, or a callee for a parameter passed on as it is.

    `known` holds what was found for callees (nothing for those that are being looked at): each is visited once.
    """
    axes = dynamic_axes(source, namespace, specs)
    open_params = {spec.name for spec in specs if spec.kind != "scalar" and spec.shape is None}
    for call in ast.walk(source.node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        callee = namespace.peek(call.func.id)
        if not isinstance(callee, JITFunction) or callee.kind in _UNSUPPORTED:
            continue
        inner_source = read(callee.fn)
        inner = Namespace(callee.fn, namespace.captures)
        inner_specs = specs_of(inner_source, inner, skip_self=False, jit=True)
        if callee not in known:
            known[callee] = {}
            known[callee] = _axes(inner_source, inner, inner_specs, known)
        inner_axes = known[callee]
        passed = list(zip([spec.name for spec in inner_specs], call.args, strict=False))
        passed += [(keyword.arg or "", keyword.value) for keyword in call.keywords]
        for name, argument in passed:
            if isinstance(argument, ast.Name) and argument.id in open_params and name in inner_axes:
                for axis, variable in inner_axes[name].items():
                    axes.setdefault(argument.id, {}).setdefault(axis, variable)
    return axes
