"""Operations as DSL text.

Most print by their row of the table: arguments in the order of the form's parameters, keywords from the attributes of
the same name, shape and dtype from the result. `Text` prints an operand.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

from pypto.ir.exprs import Const
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TileType
from pypto.language.dtypes import DataType
from pypto.language.enums import MemorySpace
from pypto.language.ops import BY_NAME, Form

Text: TypeAlias = Callable[[Any], str]

_SCRATCH = frozenset({"tmp", "tmp_tile", "scratch"})


def operation_text(stmt: OpStmt, text: Text, explicit: bool = False) -> str:
    """The call, without the name that its result gets.

    An author's `pl.slice` in a kernel loads; explicit text tells views of device memory apart from that.
    """
    if explicit and stmt.op == "slice" and isinstance(stmt.out, Var) and stmt.out.is_tensor:
        return _slice(stmt, text, "pl.tensor.slice")
    printer = _PRINTERS.get(stmt.op)
    return printer(stmt, text) if printer else _generic(stmt, text)


def _form(stmt: OpStmt) -> Form:
    forms = BY_NAME[stmt.op].forms
    level = "tensor" if isinstance(stmt.out, Var) and not _is_tile(stmt.out) else "tile"
    return forms.get("pl") or forms.get(level) or next(iter(forms.values()))


def _is_tile(var: Var) -> bool:
    return isinstance(var.type, TileType) and not var.type.tensor_level


def _generic(stmt: OpStmt, text: Text, form: Form | None = None, names: tuple[str, ...] = ()) -> str:
    """`form(args, keywords)`; `names` says which parameters the arguments are for, where they are not the first."""
    form = form or _form(stmt)
    out = stmt.out
    values: dict[str, str] = {}
    operands = [text(arg) for arg in stmt.args]
    given = iter(operands)
    for param in form.accepted:
        if param.name in names or (not names and not param.keyword_only and param.name not in _SCRATCH):
            if param.name == "shape" and isinstance(out, Var):
                values["shape"] = text(out.type.shape)
            elif param.name in ("dtype", "target_type") and isinstance(out, Var):
                values[param.name] = f"pl.{out.type.dtype}"
            elif param.name in stmt.attrs:
                continue
            elif (value := next(given, None)) is not None:
                values[param.name] = value
        elif param.name in _SCRATCH and (param.required or _takes_scratch(stmt, param.name)):
            values[param.name] = next(
                operand for operand, arg in zip(operands, stmt.args, strict=True) if isinstance(arg, Var)
            )
    for param in form.accepted:
        if param.name in stmt.attrs and stmt.attrs[param.name] is not None:
            values[param.name] = _literal(stmt.attrs[param.name], text)
    parts: list[str] = []
    positional = True
    for param in form.accepted:
        if param.name not in values:
            positional = False
        elif positional and not param.keyword_only and param.name not in stmt.attrs:
            parts.append(values[param.name])
        else:
            positional = False
            parts.append(f"{param.name}={values[param.name]}")
    return f"{form.spelling}({', '.join(parts)})"


def _takes_scratch(stmt: OpStmt, name: str) -> bool:
    """Whether an operation on a tile must name scratch space, which the same on a tensor does not take."""
    tile_form, first = BY_NAME[stmt.op].forms.get("tile"), stmt.args[0]
    return (
        name == "tmp_tile"
        and isinstance(first, Var)
        and _is_tile(first)
        and tile_form is not None
        and any(param.name == name and param.required for param in tile_form.accepted)
    )


def _literal(value: Any, text: Text) -> str:
    if isinstance(value, DataType):
        return f"pl.{value}"
    if isinstance(value, Enum):
        return f"pl.{type(value).__name__}.{value.name}"
    if isinstance(value, (bool, str, float)):
        return repr(value)
    return text(value)


def _named(*names: str) -> Callable[[OpStmt, Text], str]:
    return lambda stmt, text: _generic(stmt, text, names=names)


def _load(stmt: OpStmt, text: Text) -> str:
    base, offsets, valid = stmt.args
    box, keep = stmt.attrs["box"], stmt.attrs["keep"]
    partial = f", valid_shape={text(valid)}" if tuple(valid) != tuple(box) else ""  # type: ignore[arg-type]  # tuples
    if keep is None:
        return f"pl.load({text(base)}, {text(offsets)}, {text(box)}{partial}{_target(stmt)})"
    dropped = [axis for axis in range(len(box)) if axis not in keep]
    drop = f", drop_dims={dropped}" if dropped else ""
    call = f"pl.slice({text(base)}, {text(box)}, {text(offsets)}{partial}{drop})"
    return f"pl.tile.transpose_view({call})" if stmt.attrs["transposed"] else call


def _target(stmt: OpStmt) -> str:
    space = stmt.out.tile.space if isinstance(stmt.out, Var) else MemorySpace.Vec
    return "" if space is MemorySpace.Vec else f", target_memory=pl.MemorySpace.{space.value}"


def _store(stmt: OpStmt, text: Text) -> str:
    tile, offsets, tensor, _ = stmt.args
    assert isinstance(tile, Var)
    box, shape = stmt.attrs["box"], tile.tile.shape
    plain = ((1,) * len(box) + shape)[-len(box) :] == box and tile.tile.spread is None
    spread = "" if plain else f", {text(box)}"
    atomic = ", atomic=pl.AtomicType.Add" if stmt.attrs.get("atomic") else ""
    return f"pl.store({text(tile)}, {text(offsets)}, {text(tensor)}{spread}{atomic})"


def _slice(stmt: OpStmt, text: Text, spelling: str = "pl.slice") -> str:
    source, offsets, extents = stmt.args
    assert isinstance(extents, tuple)
    shape = stmt.attrs.get("shape", extents)
    valid = extents
    if isinstance(stmt.out, Var) and stmt.out.is_tensor:
        kept = dict(zip(stmt.attrs["keep"], stmt.out.type.valid, strict=True))
        valid = tuple(kept.get(axis, extent) for axis, extent in enumerate(extents))
    partial = f", valid_shape={text(valid)}" if tuple(shape) != valid else ""
    dropped = [axis for axis in range(len(extents)) if axis not in stmt.attrs["keep"]]
    drop = f", drop_dims={dropped}" if dropped else ""
    return f"{spelling}({text(source)}, {text(shape)}, {text(offsets)}{partial}{drop})"


def _create(stmt: OpStmt, text: Text) -> str:
    assert isinstance(stmt.out, Var)
    init = stmt.attrs.get("init_value")
    filled = "" if init is None else f", init_value={init!r}"
    manual = ", manual_dep=True" if stmt.attrs.get("manual_dep") else ""
    return f"pl.create_tensor({text(stmt.out.type.shape)}, pl.{stmt.out.type.dtype}{manual}{filled})"


def _create_tile(stmt: OpStmt, text: Text) -> str:
    assert isinstance(stmt.out, Var)
    name = "create_tile" if _is_tile(stmt.out) else "create_tensor"
    target = _target(stmt) if _is_tile(stmt.out) else ""
    return f"pl.{name}({text(stmt.out.type.shape)}, pl.{stmt.out.type.dtype}{target})"


def _leveled(stmt: OpStmt, text: Text) -> str:
    """Creation makes a tile or a tensor-level value, by its spelling."""
    assert isinstance(stmt.out, Var)
    return _generic(stmt, text, BY_NAME[stmt.op].forms["tile" if _is_tile(stmt.out) else "pl"])


def _compare(stmt: OpStmt, text: Text) -> str:
    assert isinstance(stmt.out, Var)
    level = "tile" if stmt.out.type.dtype.is_bool else "tensor"
    return f"pl.{level}.cmp({text(stmt.args[0])}, {text(stmt.args[1])}, cmp_type={stmt.attrs['cmp_type']})"


def _pad(stmt: OpStmt, text: Text) -> str:
    assert isinstance(stmt.out, Var)
    value = stmt.attrs["pad_value"]
    assert isinstance(value, Const)
    name = "zero" if value.value == 0 else "max" if value.value > 0 else "min"
    shape = f", {text(stmt.out.type.shape)}" if stmt.op == "fillpad_expand" else ""
    return f"pl.{stmt.op}({text(stmt.args[0])}{shape}, pad_value=pl.PadValue.{name})"


def _reinterpret(stmt: OpStmt, text: Text) -> str:
    source, out = stmt.args[0], stmt.out
    assert isinstance(source, Var)
    assert isinstance(out, Var)
    kept = out.is_tensor or out.type.shape[:-1] == source.type.shape[:-1]
    shape = "" if kept else f", shape={text(out.type.shape)}"
    return f"pl.reinterpret_view({text(source)}, pl.{out.type.dtype}{shape})"


def _gather_compare(stmt: OpStmt, text: Text) -> str:
    source, value, offset = map(text, stmt.args)
    attrs = stmt.attrs
    counted = attrs["count_dtype"]
    count = "" if counted is None else f", count_dtype=pl.{counted}"
    keywords = f"cmp_mode={attrs['cmp_mode']}, offset={offset}, out_cols={attrs['out_cols']}{count}"
    return f"pl.tile.gather_compare({source}, {value}, {source}, {keywords})[{0 if counted is None else 1}]"


def _scatter_mask(stmt: OpStmt, text: Text) -> str:
    target, source = map(text, stmt.args)
    number = stmt.attrs["mask_pattern"]
    if stmt.attrs["blend"]:
        return f"pl.scatter({source}, mask_pattern={number}, dst={target})"
    return f"pl.tile.scatter_mask({target}, {source}, {number})"


def _scatter_update(stmt: OpStmt, text: Text) -> str:
    target, where, source = map(text, stmt.args)
    return f"pl.scatter_update({target}, -2, {where}, {source})"


def _spill(stmt: OpStmt, text: Text) -> str:
    return text(stmt.args[0])  # another name: whoever uses the value there finds it in device memory


def _transpose(stmt: OpStmt, text: Text) -> str:
    a, b = stmt.attrs["axes"]
    return f"pl.transpose({text(stmt.args[0])}, {a}, {b})"


def _positional(stmt: OpStmt, text: Text) -> str:
    return f"{_form(stmt).spelling}({', '.join(text(arg) for arg in stmt.args)})"


def _reshape(stmt: OpStmt, text: Text) -> str:
    """The form of tensors gives a tile axes that tiles do not have."""
    source, out = stmt.args[0], stmt.out
    assert isinstance(source, Var)
    assert isinstance(out, Var)
    lifts = _is_tile(source) and not out.is_tensor and not _is_tile(out)
    return _generic(stmt, text, BY_NAME["reshape"].forms["tensor"] if lifts else None)


_PRINTERS: dict[str, Callable[[OpStmt, Text], str]] = {
    "load": _load,
    "store": _store,
    "slice": _slice,
    "create_tensor": _create,
    "create_tile": _create_tile,
    "full": _leveled,
    "arange": _leveled,
    "random": _leveled,
    "cmp": _compare,
    "cmps": _compare,
    "fillpad": _pad,
    "fillpad_expand": _pad,
    "reinterpret_view": _reinterpret,
    "spill": _spill,
    "transpose": _transpose,
    "reshape": _reshape,
    "assemble": _positional,
    "matmul_acc": _named("acc", "lhs", "rhs", "init_cond"),
    "gather": _named("input", "index"),
    "gather_compare": _gather_compare,
    "scatter": _named("input", "index", "src"),
    "scatter_mask": _scatter_mask,
    "scatter_update": _scatter_update,
}

__all__ = ["Text", "operation_text"]
