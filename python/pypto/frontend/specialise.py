"""Calls of jit functions: which program the arguments need, and where compiled ones are kept."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

from pypto import ir
from pypto.frontend.annotations import ParamSpec
from pypto.frontend.functions import build
from pypto.frontend.library import Library
from pypto.frontend.namespace import Captures, Namespace
from pypto.frontend.plan import ABSENT, Plan, plan_of
from pypto.frontend.programs import raise_mistakes
from pypto.frontend.signature import Axes, resolve
from pypto.frontend.values import python_number
from pypto.ir.diagnostics import Diagnostic, error_for
from pypto.ir.exprs import Const, Expr, ScalarVar, cast, literal
from pypto.ir.nodes import Program, Var
from pypto.ir.passes import wrap_kernel_entry
from pypto.ir.types import TensorType
from pypto.language.annotations import RUNTIME, DynVar
from pypto.language.dtypes import BOOL, FP32, INDEX, TASK_ID, DataType
from pypto.language.enums import FunctionType
from pypto.language.jit import JITFunction

_CONFIG_FIELDS = (
    "platform", "strategy", "memory_planner", "strict_memory", "dump_passes", "analyze_auto_scopes_for_deps",
    "dump_ptoas_passes",
)  # fmt: skip
"""What of a configuration decides the result of a compilation, here or on the real chip."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled program, and what it depends on besides the key that finds it."""

    captures: Captures
    compiled: Any


_LOCK = threading.RLock()


def specialise(
    function: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any], config: Any
) -> tuple[Any, list[Any]]:
    """The compiled program for these arguments, and the arguments in order of the parameters."""
    plan = function._plan or plan_of(function)
    given = plan.match(args, kwargs)
    compiled = _find(function, _key(plan, given, config))  # what a result depends on includes the plan
    if compiled is None:
        plan = plan_of(function)
        given = plan.match(args, kwargs)
        key = _key(plan, given, config)
        with _LOCK:  # two threads that need the same program get the very same object
            compiled = _find(function, key) or _compile(function, plan, given, key, config)
    return compiled, given if len(args) == len(given) else [value for value in given if value is not ABSENT]


def lower(function: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any], config: Any) -> Program:
    """The IR program for these arguments."""
    plan = plan_of(function)
    return _build(plan, plan.match(args, kwargs), Captures())


def _find(function: JITFunction, key: Any) -> Any:
    for entry in function._cache.get(key, ()):
        if entry.captures.unchanged():
            return entry.compiled
    return None


def _compile(function: JITFunction, plan: Plan, given: list[Any], key: Any, config: Any) -> Any:
    captures = Captures(plan.captures)
    compiled = ir.compile(
        _build(plan, given, captures),
        output_dir=getattr(config, "save_kernels_dir", None),
        dump_passes=bool(getattr(config, "dump_passes", False)),
        platform=getattr(config, "platform", None),
        strict_memory=bool(getattr(config, "strict_memory", False)),
        profiling=bool(getattr(config, "compile_profiling", False)),
    )
    function._cache.setdefault(key, []).append(Entry(captures, compiled))
    return compiled


def _key(plan: Plan, given: list[Any], config: Any) -> tuple[Any, ...]:
    """Equal for arguments that one program serves: shapes without dynamic extents, dtypes, values of scalars."""
    parts: list[Any] = [] if config is None else [getattr(config, name, None) for name in _CONFIG_FIELDS]
    context = ir.PassContext.current()
    if context is not None:
        parts.append(("context", context.runtime))
    for axes, spec, value in zip(plan.axes_in_order, plan.specs, given, strict=True):
        shape = getattr(value, "shape", None)
        if value is ABSENT:
            parts += _key_of_absent(spec, axes)
        elif shape is None:
            parts += (type(value), _number(value)) if isinstance(value, (int, float)) else (id(value),)
        elif shape == () and python_number(value) is not value:
            parts += (type(value), _number(value))
        elif axes:
            parts += (tuple([None if axis in axes else dim for axis, dim in enumerate(shape)]), value.dtype)
        else:
            parts += (tuple(shape), value.dtype)
    return tuple(parts)


def _key_of_absent(spec: ParamSpec, axes: Axes | None) -> tuple[Any, ...]:
    """What a torch tensor that fits the annotation would add to the key, so that both find one program."""
    torch = sys.modules.get("torch")  # not imported for this: without it nobody has such a tensor
    dtype = None if spec.dtype is None else getattr(torch, spec.dtype.torch_name or "", None)
    if spec.kind != "tensor" or spec.shape is None or dtype is None:
        return (ABSENT,)
    return tuple([None if axis in (axes or ()) else dim for axis, dim in enumerate(spec.shape)]), dtype


def _number(value: Any) -> Any:
    """What tells a scalar from others: zeros have signs, and no NaN equals itself."""
    return value if value and value == value else str(value)


def _build(plan: Plan, given: list[Any], captures: Captures) -> Program:
    function = plan.function
    namespace = Namespace(function.fn, captures)
    baked: dict[str, Const] = {}
    values = map(python_number, given)
    arguments = [_argument(plan, spec, value, baked) for spec, value in zip(plan.specs, values, strict=True)]
    signature = resolve(namespace, plan.specs, plan.axes, arguments, baked)
    library = Library(captures)
    kind = FunctionType.InCore if function.kind == "incore" else FunctionType.Orchestration
    entry = build(library, function.__name__, kind, plan.source, namespace, plan.specs, signature, baked)
    raise_mistakes(library)
    program = Program(function.__name__, library.functions, entry.name, entry.loc)
    wrap_kernel_entry(program)
    return program


def _argument(plan: Plan, spec: ParamSpec, value: Any, baked: dict[str, Const]) -> Var | Expr:
    if spec.kind == "tensor" or (spec.kind == "any" and hasattr(value, "shape")):
        return _tensor(plan, spec, value)
    if spec.kind == "array" or spec.dtype is TASK_ID:
        what = "a task id" if spec.kind == "scalar" else "a pl.Array"
        hint = "declare a tensor or a number, and make the array in the body: pl.array.create(n, dtype)"
        raise _wrong(plan, spec, "type", f"is {what}: only functions that others call take one", hint)
    if spec.kind == "any" and value is ABSENT:
        raise _wrong(plan, spec, "type", "has no annotation and no argument", "write pl.Tensor or pl.Scalar[dtype]")
    if value is RUNTIME:
        return ScalarVar(spec.name, spec.dtype or INDEX)
    if not isinstance(value, (int, float)):
        what = "no value" if value is ABSENT else f"a {type(value).__name__}"
        hint = "give a number, or pl.RUNTIME to keep it a parameter"
        raise _wrong(plan, spec, "type", f"is a scalar and got {what}", hint)
    dtype = spec.dtype or (BOOL if isinstance(value, bool) else INDEX if isinstance(value, int) else FP32)
    if isinstance(value, float) and not dtype.is_float:
        hint = f"pass int({value!r}), or declare pl.Scalar[pl.FP32]"
        raise _wrong(plan, spec, "type", f"is {dtype.with_article} scalar, got {value!r}", hint)
    place = plan.source.loc(spec.node)
    where = f"{place.file}:{place.line}:{place.col + 1}: {plan}: parameter {spec.name!r}"
    baked[spec.name] = constant = _baked(where, value, dtype)
    return constant


def _wrong(plan: Plan, spec: ParamSpec, kind: str, message: str, hint: str) -> Exception:
    """An argument that does not fit, shown where the parameter is declared."""
    place = plan.source.loc(spec.node)
    return error_for([Diagnostic(kind, f"{plan}: parameter {spec.name!r} {message}", place, hint)])


def _baked(where: str, value: float, dtype: DataType) -> Const:
    if dtype.is_integer and not isinstance(value, bool):
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        high = (1 << (dtype.bits - 1 if dtype.is_signed else dtype.bits)) - 1
        if not low <= value <= high:
            raise OverflowError(f"{where} is {dtype.with_article} scalar: {value} is not between {low} and {high}")
    folded = cast(literal(value), FP32 if dtype.is_float else dtype)
    assert isinstance(folded, Const), "a number is a constant"
    return Const(folded.value, dtype)


def _conversion(value: Any, name: str | None) -> str:
    """The call that gives an argument another dtype."""
    return f'.astype("{name}")' if type(value).__module__ == "numpy" and name != "bfloat16" else f".to(torch.{name})"


def _tensor(plan: Plan, spec: ParamSpec, value: Any) -> Var:
    shape = getattr(value, "shape", None)
    if shape is None:
        if value is not ABSENT:
            hint = "pass a torch.Tensor, a numpy array or a DeviceTensor, or declare pl.Scalar[dtype]"
            raise _wrong(plan, spec, "type", f"is a tensor, got {type(value).__name__}", hint)
        if spec.shape is None or spec.dtype is None:
            message = "is a bare 'pl.Tensor': without an argument its shape and dtype are not known"
            raise _wrong(plan, spec, "type", message, "Pass a sample, or annotate pl.Tensor[[rows, cols], dtype]")
        extents = tuple(1 if isinstance(dim, DynVar) else dim for dim in spec.shape)
        return Var(spec.name, TensorType(extents, spec.dtype))
    dtype = DataType.of(value.dtype)
    if dtype is None or not dtype.supported:
        hint = f"convert it with {_conversion(value, 'float32')} or another dtype of the language"
        raise _wrong(plan, spec, "type", f"got dtype {value.dtype}, which is not supported", hint)
    if spec.dtype is not None and spec.dtype is not dtype:
        hint = f"convert it with {_conversion(value, spec.dtype.torch_name)}"
        raise _wrong(plan, spec, "type", f"is declared {spec.dtype}, got {dtype}", hint)
    extents = tuple(int(dim) for dim in shape)
    if spec.shape is not None and not _fits(spec.shape, extents):
        declared = ", ".join(dim.name if isinstance(dim, DynVar) else str(dim) for dim in spec.shape)
        hint = "pass a tensor of that shape, or declare what differs as pl.dynamic"
        message = f"is declared [{declared}], got a tensor of shape {list(extents)}"
        raise _wrong(plan, spec, "value", message, hint)
    if spec.shape is not None:
        # An extent that each call decides may be none: a batch without rows is a launch that does nothing.
        pairs = zip(spec.shape, extents, strict=True)
        extents = tuple(max(1, have) if isinstance(want, DynVar) else have for want, have in pairs)
    if not extents or 0 in extents:
        hint = "pass at least one element, or declare as pl.dynamic an extent that may be 0"
        raise _wrong(plan, spec, "value", f"got a tensor of shape {list(extents)}, which has no elements", hint)
    return Var(spec.name, TensorType(extents, dtype))


def _fits(declared: tuple[Any, ...], extents: tuple[int, ...]) -> bool:
    return len(declared) == len(extents) and all(
        isinstance(want, DynVar) or want == have for want, have in zip(declared, extents, strict=True)
    )
