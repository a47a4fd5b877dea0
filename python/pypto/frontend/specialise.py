"""Calls of jit functions: which program the arguments need, and where compiled ones are kept."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pypto import ir
from pypto.frontend.annotations import ParamSpec
from pypto.frontend.functions import build
from pypto.frontend.library import Library
from pypto.frontend.namespace import Captures, Namespace
from pypto.frontend.programs import check_outputs, raise_mistakes, wrap_kernel_entry
from pypto.frontend.signature import bound_axes, resolve, specs_of
from pypto.frontend.source import Source, read
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.exprs import Const, Expr, ScalarVar, cast, literal
from pypto.ir.nodes import Program, Var
from pypto.ir.types import TensorType
from pypto.language.annotations import RUNTIME, DynVar
from pypto.language.dtypes import BOOL, FP32, INDEX, DataType
from pypto.language.enums import FunctionType
from pypto.language.jit import JITFunction


@dataclass(slots=True)
class Plan:
    """What does not depend on arguments: the parameters, and which extents are dynamic."""

    source: Source
    specs: list[ParamSpec]
    captures: Captures
    dynamic: dict[str, frozenset[int]]
    defaults: dict[str, Any]
    inputs: int


@dataclass(slots=True)
class Entry:
    """A compiled program and everything that it depends on besides its key."""

    captures: Captures
    compiled: Any


_PLANS: WeakKeyDictionary[JITFunction, Plan] = WeakKeyDictionary()
_LOCK = threading.RLock()

_CONFIG_FIELDS = ("platform", "strategy", "backend_type", "memory_planner", "strict_memory", "save_kernels_dir")


def specialise(
    function: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any], config: Any
) -> tuple[Any, tuple[Any, ...]]:
    """The compiled program for these arguments, and the arguments in order of the parameters."""
    plan = _plan(function)
    given = _match(function, plan, args, kwargs)
    key = (_key(function, plan, given), tuple(str(getattr(config, field, None)) for field in _CONFIG_FIELDS))
    # One thread compiles at a time: two that need the same program must get the very same object.
    with _LOCK:
        for entry in function._cache.get(key, ()):
            if entry.captures.unchanged():
                return entry.compiled, _ordered(plan, given)
        captures = Captures(dict(plan.captures.seen))
        program = _build(function, plan, given, captures)
        compiled = ir.compile(
            program,
            output_dir=getattr(config, "save_kernels_dir", None),
            platform=getattr(config, "platform", None),
            dump_passes=bool(getattr(config, "dump_passes", True)),
        )
        function._cache.setdefault(key, []).append(Entry(captures, compiled))
    return compiled, _ordered(plan, given)


def lower(function: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any], config: Any) -> Program:
    """The IR program for these arguments."""
    plan = _plan(function)
    return _build(function, plan, _match(function, plan, args, kwargs), Captures())


def _plan(function: JITFunction) -> Plan:
    plan = _PLANS.get(function)
    if plan is None or not plan.captures.unchanged():
        if function.kind in ("host", "extern"):
            source = read(function.fn)
            what = "host functions (several ranks)" if function.kind == "host" else "hand-written device code"
            raise error_for(
                [
                    Diagnostic(
                        "unsupported", f"@pl.jit.{function.kind}: {what} are not supported", source.loc(source.node)
                    )
                ]
            )
        source = read(function.fn)
        captures = Captures()
        namespace = Namespace(function.fn, captures)
        specs = specs_of(source, namespace, skip_self=False)
        bound = bound_axes(source, namespace)
        dynamic = {
            spec.name: frozenset(
                {axis for axis, dim in enumerate(spec.shape or ()) if isinstance(dim, DynVar)}
                | set(bound.get(spec.name, ()))
            )
            for spec in specs
        }
        values = function.fn.__defaults__ or ()
        defaults = dict(zip([spec.name for spec in specs][len(specs) - len(values) :], values, strict=True))
        inputs = sum(1 for spec in specs if spec.direction != "Out")
        plan = _PLANS[function] = Plan(source, specs, captures, dynamic, defaults, inputs)
    return plan


def _match(function: JITFunction, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter; parameters without one are absent."""
    specs = plan.specs
    if len(args) > len(specs):
        raise TypeError(
            f"@pl.jit function {function.__name__!r} takes {len(specs)} arguments ({', '.join(spec.name for spec in specs)}), got {len(args)}"
        )
    if args and len(args) == plan.inputs < len(specs) and len(args) + len(kwargs) < len(specs):
        given = dict(zip([spec.name for spec in specs if spec.direction != "Out"], args, strict=True))
    else:
        given = dict(zip([spec.name for spec in specs], args, strict=False))
    names = {spec.name for spec in specs}
    for name, value in kwargs.items():
        if name not in names:
            raise TypeError(
                f"@pl.jit function {function.__name__!r}: got an unexpected keyword argument {name!r}; it has {', '.join(spec.name for spec in specs)}"
            )
        if name in given:
            raise TypeError(f"@pl.jit function {function.__name__!r}: got {name!r} twice")
        given[name] = value
    for name, value in plan.defaults.items():
        given.setdefault(name, value)
    return given


def _ordered(plan: Plan, given: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(given[spec.name] for spec in plan.specs if spec.name in given)


def _key(function: JITFunction, plan: Plan, given: dict[str, Any]) -> tuple[Any, ...]:
    key: list[Any] = []
    for spec in plan.specs:
        value = given.get(spec.name)
        shape = getattr(value, "shape", None)
        if shape is None:
            key.append(
                (type(value), value)
                if isinstance(value, (int, float, bool))
                else value
                if value is RUNTIME
                else type(value)
            )
        else:
            dynamic = plan.dynamic[spec.name]
            key.append(
                (
                    tuple(shape)
                    if not dynamic
                    else tuple(None if axis in dynamic else dim for axis, dim in enumerate(shape)),
                    value.dtype,
                )
            )
    return tuple(key)


def _build(function: JITFunction, plan: Plan, given: dict[str, Any], captures: Captures) -> Program:
    namespace = Namespace(function.fn, captures)
    baked: dict[str, Const] = {}
    arguments = [_argument(function, plan, spec, given, baked) for spec in plan.specs]
    signature = resolve(plan.source, namespace, plan.specs, arguments, baked)
    library = Library(captures)
    kind = FunctionType.InCore if function.kind == "incore" else FunctionType.Orchestration
    entry = build(library, function.__name__, kind, plan.source, namespace, plan.specs, signature, baked)
    raise_mistakes(library)
    check_outputs(entry)
    program = Program(function.__name__, library.functions, entry.name, entry.loc)
    wrap_kernel_entry(program)
    return program


def _argument(
    function: JITFunction, plan: Plan, spec: ParamSpec, given: dict[str, Any], baked: dict[str, Const]
) -> Var | Expr:
    value = given.get(spec.name)
    shape = getattr(value, "shape", None)
    if spec.kind == "tensor" or (spec.kind == "any" and shape is not None):
        return _tensor_argument(function, spec, value, shape)
    if spec.kind == "any" and value is None:
        raise TypeError(
            f"@pl.jit function {function.__name__!r}: parameter {spec.name!r} has no annotation and no argument; write pl.Tensor or pl.Scalar[dtype]"
        )
    if value is RUNTIME:
        return ScalarVar(spec.name, spec.dtype or INDEX)
    if not isinstance(value, (int, float, bool)):
        what = "no value" if value is None else f"a {type(value).__name__}"
        raise TypeError(
            f"@pl.jit function {function.__name__!r}: scalar parameter {spec.name!r} got {what}; give a number, or pl.RUNTIME to keep it a runtime parameter"
        )
    dtype = spec.dtype or (BOOL if isinstance(value, bool) else INDEX if isinstance(value, int) else FP32)
    if isinstance(value, float) and not dtype.is_float:
        raise TypeError(
            f"@pl.jit function {function.__name__!r}: scalar parameter {spec.name!r} is {dtype}, got {value!r}"
        )
    constant = cast(literal(value), dtype)
    if isinstance(constant, Const):
        baked[spec.name] = constant
    return constant


def _tensor_argument(function: JITFunction, spec: ParamSpec, value: Any, shape: Any) -> Var:
    where = f"@pl.jit function {function.__name__!r}: parameter {spec.name!r}"
    if shape is None:
        if value is not None:
            raise TypeError(f"{where} is a tensor, got {type(value).__name__}")
        if spec.shape is None or spec.dtype is None:
            raise TypeError(
                f"{where} is a bare 'pl.Tensor', so its shape and dtype are not known without an argument; pass a sample, or annotate pl.Tensor[[..], dtype]"
            )
        return Var(
            spec.name, TensorType(tuple(1 if isinstance(dim, DynVar) else dim for dim in spec.shape), spec.dtype)
        )
    dtype = DataType.of(value.dtype)
    if dtype is None or not dtype.supported:
        raise TypeError(f"{where}: dtype {value.dtype} is not supported")
    if spec.dtype is not None and spec.dtype is not dtype:
        raise TypeError(
            f"{where} is declared {spec.dtype}, got {dtype}; convert it with .to({spec.dtype.torch_name and 'torch.' + spec.dtype.torch_name})"
        )
    extents = tuple(int(dim) for dim in shape)
    if spec.shape is not None:
        fits = len(spec.shape) == len(extents) and all(
            isinstance(want, DynVar) or want == have for want, have in zip(spec.shape, extents, strict=True)
        )
        if not fits:
            raise ValueError(f"{where} is declared {_extents(spec.shape)}, got a tensor of shape {list(extents)}")
    if 0 in extents:
        raise ValueError(f"{where} is empty: shape {list(extents)}")
    return Var(spec.name, TensorType(extents, dtype))


def _extents(shape: tuple[Any, ...]) -> str:
    return "[" + ", ".join(dim.name if isinstance(dim, DynVar) else str(dim) for dim in shape) + "]"
