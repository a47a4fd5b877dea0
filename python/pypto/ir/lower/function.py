"""One function as core statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.ir.diagnostics import Loc
from pypto.ir.exprs import Expr, ScalarVar, Symbol
from pypto.ir.lower.ops import LOWERINGS, generic
from pypto.ir.lower.scalars import ScalarLowering
from pypto.ir.nodes import (
    BreakStmt,
    CallStmt,
    ContinueStmt,
    ForStmt,
    Function,
    IfStmt,
    Let,
    OpStmt,
    Stmt,
    TaskRef,
    TaskStmt,
    TaskVar,
    Var,
    WhileStmt,
)
from pypto.ir.types import TileType, region
from pypto.language.dtypes import DataType

Place = Callable[[Loc], list[int]]


class FunctionLowering:
    """Assigns slots and emits statements. Each variable has one slot; temporaries of expressions have one each."""

    def __init__(self, function: Function, directions: dict[Var, str], kernels: dict[int, int], place: Place) -> None:
        self.function = function
        self.directions = directions
        self.kernels = kernels
        self.place = place
        self.block: list[dict[str, Any]] = []
        self.scalars = ScalarLowering(self.emit)
        self.tensors: dict[Var, int] = {}
        self.tensor_names: list[str] = []
        self.tensor_types: list[dict[str, Any]] = []
        self.valid: dict[int, list[dict[str, Any]]] = {}
        self.tiles: dict[Var, int] = {}
        self.tasks: dict[TaskVar, int] = {}

    def run(self) -> dict[str, Any]:
        """The function as plain data."""
        function = self.function
        params: list[dict[str, Any]] = []
        own: set[Symbol] = set()
        for param in function.params:
            if isinstance(param.var, Var):
                slot = self.tensor(param.var)
                params.append({"Tensor": {"slot": slot, "direction": self.directions[param.var]}})
            else:
                params.append({"Scalar": self.scalars.slot(param.var)})
                if isinstance(param.var, Symbol):
                    own.add(param.var)
        outer, self.block = self.block, []
        for param in function.params:
            if isinstance(param.var, Var):
                self.declare(param.var, function.loc)
        declared, self.block = self.block, outer
        body = [*declared, *self.body(function.body)]
        return {
            "name": function.name,
            "at": self.place(function.loc),
            "params": params,
            "scalars": self.scalars.types,
            "tensors": self.tensor_types,
            "tiles": [_tile_slot(var) for var in self.tiles],
            "body": [*self._extents(own), *body],
            "source": {
                "tensors": self.tensor_names,
                "tasks": [var.extent for var in self.tasks],
                "valid": [{"tensor": slot, "extents": extents} for slot, extents in self.valid.items()],
            },
        }

    def _extents(self, own: set[Symbol]) -> list[dict[str, Any]]:
        """Reads the runtime extents that the body mentions, each from the first parameter that carries it."""
        statements: list[dict[str, Any]] = []
        for symbol, slot in self.scalars.symbols.items():
            if symbol in own:
                continue
            tensor, axis = self._carrier(symbol)
            statements.append(
                {"at": self.place(self.function.loc), "kind": {"Dim": {"dst": slot, "tensor": tensor, "axis": axis}}}
            )
        return statements

    def _carrier(self, symbol: Symbol) -> tuple[int, int]:
        for param in self.function.params:
            if isinstance(param.var, Var):
                for axis, dim in enumerate(param.var.type.shape):
                    if dim is symbol:
                        return self.tensor(param.var), axis
        raise AssertionError(f"{self.function.name}: no parameter carries the extent {symbol.name}")

    # Slots and operands.

    def tensor(self, var: Var) -> int:
        """The slot of a tensor variable."""
        var = var.resolve()
        found = self.tensors.get(var)
        if found is None:
            found = self.tensors[var] = self.new_tensor(var.type.dtype, len(var.type.shape), var.name)
        return found

    def new_tensor(self, dtype: DataType, rank: int, name: str = "") -> int:
        """A fresh slot for a view that has no variable."""
        self.tensor_names.append(name)
        self.tensor_types.append({"dtype": dtype.name, "rank": rank})
        return len(self.tensor_types) - 1

    def declare(self, var: Var, loc: Loc) -> None:
        """Says what is valid of a tensor that has just been assigned, where that is not all of it."""
        var = var.resolve()
        if var.tensor.partial is not None:
            self.valid[self.tensor(var)] = [self.scalars.dim(extent, loc) for extent in var.tensor.partial]

    def tile(self, var: Var) -> int:
        """The slot of a tile variable."""
        return self.tiles.setdefault(var.resolve(), len(self.tiles))

    def arg(self, value: Any, loc: Loc) -> dict[str, Any]:
        """An argument of a tile operation."""
        if isinstance(value, Var):
            return {"Tensor": self.tensor(value)} if value.is_tensor else {"Tile": self.tile(value)}
        return {"Scalar": self.scalars.dim(value, loc)}

    def region(self, type: TileType, loc: Loc) -> list[dict[str, Any]]:
        """The rows and columns that hold the valid part of a tile, as operands."""
        return [self.scalars.dim(extent, loc) for extent in region(type.shape, type.valid)]

    # Statements.

    def emit(self, kind: Any, loc: Loc) -> None:
        """Appends a statement."""
        self.block.append({"at": self.place(loc), "kind": kind})

    def tile_op(
        self, op: str, out: Var | None, args: list[Any], region: list[Any], loc: Loc, mode: str | None = None
    ) -> None:
        """Appends an operation on tiles."""
        slot = None if out is None else self.tile(out)
        self.emit({"Tile": {"op": op, "out": slot, "args": args, "region": region, "mode": mode}}, loc)

    def body(self, statements: list[Stmt]) -> list[dict[str, Any]]:
        """A block."""
        outer, self.block = self.block, []
        for stmt in statements:
            self._statement(stmt)
        done, self.block = self.block, outer
        return done

    def _statement(self, stmt: Stmt) -> None:
        loc = stmt.loc
        if isinstance(stmt, Let):
            self.scalars.assign(self.scalars.slot(stmt.var), stmt.value, loc)
        elif isinstance(stmt, OpStmt):
            lowering = LOWERINGS.get(stmt.op, generic)
            lowering(self, stmt)
        elif isinstance(stmt, TaskStmt):
            self.order(lambda: self._task(stmt), loc)
        elif isinstance(stmt, CallStmt):
            self._call(stmt)
        elif isinstance(stmt, ForStmt):
            start, stop, step = (self.scalars.operand(bound, loc) for bound in (stmt.start, stmt.stop, stmt.step))
            var = self.scalars.slot(stmt.var)
            body = self.body(stmt.body)
            self.emit(
                {
                    "For": {
                        "var": var,
                        "start": start,
                        "stop": stop,
                        "step": step,
                        "parallel": stmt.kind == "parallel",
                        "body": body,
                    }
                },
                loc,
            )
        elif isinstance(stmt, WhileStmt):
            self._while(stmt)
        elif isinstance(stmt, IfStmt):
            condition = self.scalars.operand(stmt.cond, loc)
            self.emit({"If": {"cond": condition, "then": self.body(stmt.then), "orelse": self.body(stmt.orelse)}}, loc)
        elif isinstance(stmt, BreakStmt):
            self.emit("Break", loc)
        elif isinstance(stmt, ContinueStmt):
            self.emit("Continue", loc)
        else:
            raise AssertionError(f"scopes are outlined before lowering, found {type(stmt).__name__}")

    def _while(self, stmt: WhileStmt) -> None:
        outer, self.block = self.block, []
        for inner in stmt.head:
            self._statement(inner)
        condition = self.scalars.operand(stmt.cond, stmt.loc)
        head, self.block = self.block, outer
        self.emit({"While": {"head": head, "cond": condition, "body": self.body(stmt.body)}}, stmt.loc)

    # The order of tasks.

    def order(self, rule: Callable[[], dict[str, Any] | None], loc: Loc) -> None:
        """Appends a declaration. It has the scalars that only it needs, so a launch that ignores it does nothing."""
        outer, self.block = self.block, []
        made = rule()
        scalars, self.block = self.block, outer
        if made is not None:
            self.emit({"Order": {"scalars": scalars, "rule": made}}, loc)

    def _ids(self, ids: TaskRef, loc: Loc) -> dict[str, Any]:
        slot = self.tasks.setdefault(ids.var, len(self.tasks))
        return {"slot": slot, "index": None if ids.index is None else self.scalars.operand(ids.index, loc)}

    def _task(self, stmt: TaskStmt) -> dict[str, Any]:
        dst, deps = self._ids(stmt.out, stmt.loc), [self._ids(ids, stmt.loc) for ids in stmt.deps]
        if stmt.kind == "dummy":
            return {"Dummy": {"dst": dst, "deps": deps}}
        return {"Assign": {"dst": dst, "src": deps[0] if deps else None}}

    def _next(self, stmt: CallStmt) -> dict[str, Any] | None:
        order = stmt.order
        no_dep = [at for at, arg in enumerate(stmt.args) if isinstance(arg, Var) and arg.untracked]
        if order.out is None and not order.deps and not order.manual and not no_dep:
            return None
        dst = None if order.out is None else self._ids(order.out, stmt.loc)
        deps = [self._ids(ids, stmt.loc) for ids in order.deps]
        return {"Next": {"dst": dst, "deps": deps, "manual": order.manual, "no_dep": no_dep}}

    def _call(self, stmt: CallStmt) -> None:
        args: list[dict[str, Any]] = []
        for param, value in zip(stmt.callee.params, stmt.args, strict=True):
            if isinstance(value, Var):
                args.append({"Tensor": self.tensor(value)})
            else:
                args.append({"Scalar": self.scalars.operand(_as_param(value, param.var), stmt.loc)})
        blocks = self.scalars.operand(stmt.blocks, stmt.loc)
        self.order(lambda: self._next(stmt), stmt.loc)
        self.emit({"Launch": {"kernel": self.kernels[id(stmt.callee)], "args": args, "blocks": blocks}}, stmt.loc)


def _as_param(value: Expr, param: Var | ScalarVar | Symbol) -> Expr:
    from pypto.ir.exprs import cast
    from pypto.ir.lower.scalars import scalar_class

    assert not isinstance(param, Var), "a scalar is passed for a scalar parameter"
    return value if scalar_class(value.dtype) == scalar_class(param.dtype) else cast(value, param.dtype)


def _tile_slot(var: Var) -> dict[str, Any]:
    rows, cols = var.tile.physical
    return {"dtype": var.type.dtype.name, "rows": rows, "cols": cols}
