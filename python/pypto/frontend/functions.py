"""One function, from its source and the types of its parameters to IR."""

from __future__ import annotations

import ast
from typing import Any

from pypto.frontend import left_out
from pypto.frontend.annotations import ParamSpec
from pypto.frontend.builder import Builder, Chain, Frame, Refused
from pypto.frontend.explicit import Explicit, is_explicit
from pypto.frontend.library import Library
from pypto.frontend.namespace import Namespace
from pypto.frontend.reader import Reader
from pypto.frontend.rules.transfer import write_tile
from pypto.frontend.signature import ArrayType, ParamType, Signature, passed_as
from pypto.frontend.source import Source
from pypto.frontend.tasks import array_parameter
from pypto.frontend.values import POISON, TASK_ID, ArrayValue, PyValue, Value, describe
from pypto.ir.diagnostics import Loc
from pypto.ir.dump_tags import TAGS
from pypto.ir.exprs import Const, ScalarVar, Symbol, index
from pypto.ir.nodes import Function, Param, Var
from pypto.ir.types import TensorType, TileType
from pypto.language.dtypes import TASK_ID as TASK_ID_TYPE
from pypto.language.enums import FunctionType


def build(
    library: Library,
    name: str,
    kind: FunctionType,
    source: Source,
    namespace: Namespace,
    specs: list[ParamSpec],
    signature: Signature,
    baked: dict[str, Const],
    methods: dict[str, Any] | None = None,
    chain: Chain = (),
) -> Function:
    """Reads the function and adds it to the library. Mistakes go to `library.diagnostics`."""
    frame = Frame(source, namespace, dynamic=dict(signature.dynamic), methods=methods, baked=frozenset(baked))
    level = "kernel" if kind.is_kernel else "orchestration"
    builder = Builder(frame, level, name, library.diagnostics, chain)
    reader = Reader(builder, library)
    if is_explicit(source.node):
        reader.statements = Explicit(reader, source.node)
    carried = {
        variable.name: dim
        for variable, dim in signature.dynamic.items()
        if isinstance(dim, Symbol)
        and passed_as(variable, specs)
        and (builder.explicit or dim not in signature.symbols)  # an author's scalar is no extent, whatever its name
    }
    given = [_param(builder, spec, type, baked, carried) for spec, type in zip(specs, signature.types, strict=True)]
    params = [param for param in given if param is not None]
    loc = source.loc(source.node)
    params += [Param(symbol.name, symbol, "In", loc) for symbol, _ in signature.valid]
    attrs = {TAGS: builder.dump_tags}
    function = Function(name, kind, params, builder.block, [], loc, list(signature.symbols), attrs)
    try:
        reader.statements.read_function(source.node.body)
        function.returns = _returns(reader, function)
    except Refused:
        pass
    unwritten = {param.name: left_out.why_unwritten(frame, param.name) for param in params if param.direction == "Out"}
    function.left_out = {name: why for name, why in unwritten.items() if why is not None}
    library.add(function)
    return function


def _param(
    builder: Builder, spec: ParamSpec, type: ParamType, baked: dict[str, Const], carried: dict[str, Symbol]
) -> Param | None:
    """Gives the parameter its name, and says what it is in the program: nothing where it only orders tasks.

    `carried` are the valid extents of other parameters that scalars of their names tell.
    """
    loc = builder.loc(spec.node)
    builder.frame.where[spec.name] = builder.block
    if type is TASK_ID_TYPE:
        builder.bind(spec.name, TASK_ID)
        return None
    if isinstance(type, ArrayType):
        memory = array_parameter(spec.name, type.extent, type.dtype, loc)
        builder.bind(spec.name, ArrayValue(type.extent, type.dtype, memory))
        return None if memory is None else Param(spec.name, memory, "In", loc)
    if isinstance(type, TensorType):
        var = Var(spec.name, type, loc)
        builder.bind(spec.name, var)
        return Param(spec.name, var, spec.direction, loc, spec.declared)
    scalar = carried.get(spec.name) or ScalarVar(spec.name, type)
    fixed = baked.get(spec.name)
    builder.bind(spec.name, scalar if fixed is None else fixed)
    return Param(spec.name, scalar, "In", loc, False, None if fixed is None else fixed.value)


def _returns(reader: Reader, function: Function) -> list[Var]:
    result = reader.builder.frame.result
    if result is None or (isinstance(result, PyValue) and result.obj is None):
        return []
    items = result if isinstance(result, tuple) else (result,)
    return [_returned(reader, function, item, position) for position, item in enumerate(items)]


def _returned(reader: Reader, function: Function, value: Value, position: int) -> Var:
    builder = reader.builder
    place = builder.frame.returned or function.loc
    if value is POISON:
        raise Refused
    if isinstance(value, ArrayValue) and value.var is not None:
        value = value.var
    if isinstance(value, Var):
        var = value.resolve()
        if any(param.var is var for param in function.params):
            return var
        if var.is_tensor and var.mutable and builder.frame.given:
            hint = "return the same parameter on every path, or return all of them"
            builder.fail("type", f"{function.name!r} returns another tensor on each path", place, hint)
        _refuse_rebound_output(builder, function, var, place, position)
        if isinstance(var.type, TileType) and function.kind.is_kernel:
            return _result_param(builder, function, var, position)
    builder.fail(
        "type",
        f"{function.name!r} returns {describe(value)}, which is none of its parameters",
        place,
        "declare a parameter out: pl.Out[pl.Tensor[...]], write it (out[:] = x), and return it",
    )


def _refuse_rebound_output(
    builder: Builder, function: Function, var: Var, place: ast.Return | Loc, position: int
) -> None:
    """`out = pl.add(a, b)` gives the name another value; returning it then is the mistake that this explains."""
    if not isinstance(place, ast.Return) or place.value is None:
        return
    items = place.value.elts if isinstance(place.value, (ast.Tuple, ast.List)) else [place.value]
    item = items[position] if position < len(items) else None
    name = item.id if isinstance(item, ast.Name) else None
    if any(param.name == name and param.direction != "In" for param in function.params):
        builder.fail(
            "codegen",
            f"nothing writes the output {name!r}: a bare assignment gives the name another value, and the memory of "
            f"the parameter stays as it was",
            var.loc if var.loc.line else place,
            f"write {name}[:] = x, {name} = pl.assemble({name}, x, offsets) or {name} = pl.store(x, offsets, {name})",
        )


def _result_param(builder: Builder, function: Function, tile: Var, position: int) -> Var:
    """A kernel that returns an on-chip value writes it to a parameter that its caller provides."""
    name = f"{function.name}_result{position}"
    type = tile.tile
    var = Var(name, TensorType(type.shape, type.dtype), function.loc)
    function.params.append(Param(name, var, "Out", function.loc, True))
    zero = tuple(index(0) for _ in type.shape)
    write_tile(builder, tile, var, zero, builder.frame.source.node, "return")
    return var
