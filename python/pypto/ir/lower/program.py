"""Programs, parameters and kernels as plain data."""

from __future__ import annotations

from typing import Any

from pypto.ir.diagnostics import Loc
from pypto.ir.effects import Effects
from pypto.ir.exprs import Symbol
from pypto.ir.lower.function import FunctionLowering
from pypto.ir.nodes import CallStmt, Function, Param, Program, Var, walk
from pypto.language.dtypes import INT64, DataType


class Files:
    """Source files by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def place(self, loc: Loc) -> list[int]:
        """A place as the core writes it."""
        return [self.numbers.setdefault(loc.file, len(self.numbers)), loc.line, loc.col]


def lower(program: Program) -> dict[str, Any]:
    """The core program of one without scopes and barriers. Only what the entry reaches is lowered."""
    entry = program.entry
    kernels = _reachable(entry)
    numbers = {id(kernel): number for number, kernel in enumerate(kernels)}
    files = Files()
    effects: dict[int, Effects] = {}
    entry_effects = Effects(entry, effects)
    lowered = [_function(kernel, effects, numbers, files) for kernel in kernels]
    symbols = {symbol: number for number, symbol in enumerate(entry.symbols)}
    return {
        "name": program.name,
        "symbols": [symbol.name for symbol in entry.symbols],
        "params": [_param(param, entry_effects, symbols) for param in entry.params],
        "entry": _function(entry, effects, numbers, files, entry=True),
        "kernels": lowered,
        "files": list(files.numbers),
    }


def _reachable(entry: Function) -> list[Function]:
    found: dict[int, Function] = {}
    stack = [entry]
    while stack:
        for stmt in walk(stack.pop().body):
            if isinstance(stmt, CallStmt) and id(stmt.callee) not in found:
                found[id(stmt.callee)] = stmt.callee
                stack.append(stmt.callee)
    return list(found.values())


def entry_direction(param: Param, effects: Effects) -> str:
    """The direction of an entry parameter: as declared, or `InOut` where an undeclared one is written."""
    if param.declared or not isinstance(param.var, Var) or param.var not in effects.writes:
        return param.direction
    return "InOut"


def scalar_dtype(dtype: DataType) -> str:
    """The dtype of a scalar parameter: INDEX is a 64-bit integer."""
    return INT64.name if dtype.torch_name is None else dtype.name


def _number(value: bool | int | float | None) -> dict[str, Any] | None:
    if value is None:
        return None
    kinds = {bool: "Bool", int: "Int" if value < 2**63 else "Large", float: "Float"}
    return {kinds[type(value)]: value}


def _param(param: Param, effects: Effects, symbols: dict[Symbol, int]) -> dict[str, Any]:
    if not isinstance(param.var, Var):
        return {
            "name": param.name,
            "kind": {"Scalar": {"dtype": scalar_dtype(param.var.dtype), "baked": _number(param.baked)}},
        }
    type = param.var.tensor
    dims = [{"Const": dim} if isinstance(dim, int) else {"Symbol": symbols[dim]} for dim in type.shape]  # type: ignore[index]
    return {
        "name": param.name,
        "kind": {"Tensor": {"dtype": type.dtype.name, "dims": dims, "direction": entry_direction(param, effects)}},
    }


def _function(
    function: Function, effects: dict[int, Effects], numbers: dict[int, int], files: Files, entry: bool = False
) -> dict[str, Any]:
    # The entry's directions are what it declares, because they decide copies; a kernel's are what it does.
    known = effects.get(id(function)) or Effects(function, effects)
    directions = {
        param.var: entry_direction(param, known) if entry else known.direction(param.var)
        for param in function.params
        if isinstance(param.var, Var)
    }
    return FunctionLowering(function, directions, numbers, files.place).run()
