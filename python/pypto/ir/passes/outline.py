"""Outlining: every `pl.at`/`pl.spmd` scope becomes a kernel of its own, launched where the scope stood.

Tensors and scalars that a scope uses become parameters. On-chip values that one scope defines and another uses live in
device memory in between: the kernel that defines one stores it at its end, the kernel that uses it loads it first.
Scalars that a kernel computes travel back the same way. What nobody reads later stays where it is (`liveness`).
"""

from __future__ import annotations

from dataclasses import replace

from pypto.ir.effects import Name, defined, leaves, used
from pypto.ir.exprs import ScalarVar, Symbol, index, of_dim
from pypto.ir.nodes import (
    CallStmt,
    ForStmt,
    Function,
    IfStmt,
    OpStmt,
    Param,
    Program,
    ScopeStmt,
    Stmt,
    Var,
    WhileStmt,
    children,
    untracked,
    walk,
    with_blocks,
)
from pypto.ir.passes.cells import cell_dtype, put, take
from pypto.ir.passes.copies import scope_copies
from pypto.ir.passes.liveness import Liveness
from pypto.ir.passes.names import unused
from pypto.ir.passes.survey import Unit, survey
from pypto.ir.types import TensorType, TileType
from pypto.language.enums import FunctionType


def outline(program: Program) -> Program:
    """The program with every scope as a kernel. The given program is not changed."""
    functions: dict[str, Function] = {}
    for function in program.functions.values():
        if any(isinstance(stmt, ScopeStmt) for stmt in walk(function.body)):
            outlined, kernels = _Outliner(scope_copies(without_dead(function))).run()
            for kernel in kernels:
                kernel.name = unused(kernel.name, functions, program)
                functions[kernel.name] = kernel
            functions[function.name] = outlined
        else:
            functions[function.name] = function
    return Program(program.name, functions, program.entry_name, program.loc, program.entry_names)


def without_dead(function: Function) -> Function:
    """The function without the statements outside scopes that give a value which nobody reads to a name."""
    live = Liveness(function)

    def block(body: list[Stmt]) -> list[Stmt]:
        return [with_blocks(stmt, block) for stmt in body if not live.is_dead(stmt)]

    return replace(function, body=block(function.body))


class _Outliner:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.live = Liveness(function)
        self.units: dict[int, Unit] = {}
        self.outside: set[Name] = set()
        self.mentions: dict[Name, int] = {}
        self.temporaries: dict[Name, Var] = {}
        self.kernels: list[Function] = []
        self.kept: set[Name] = set()

    def run(self) -> tuple[Function, list[Function]]:
        """The function without scopes, and their kernels."""
        self._survey(self.function.body)
        for unit in self.units.values():
            for name in {**unit.used, **unit.assigned}:
                self.mentions[name] = self.mentions.get(name, 0) + 1
        self.kept = {name for at, unit in self.units.items() for name in unit.assigned if name in self.live.after[at]}
        body = self._rewrite(self.function.body)
        created: list[Stmt] = [
            OpStmt(
                "create_tensor",
                temporary,
                (tuple(of_dim(dim) for dim in temporary.type.shape),),
                self.function.loc,
                {"init_value": None},
            )
            for temporary in self.temporaries.values()
        ]
        old = self.function
        outlined = Function(
            old.name, old.kind, old.params, created + body, old.returns, old.loc, old.symbols, old.attrs
        )
        return outlined, self.kernels

    def _survey(self, body: list[Stmt]) -> None:
        for stmt in body:
            if isinstance(stmt, ScopeStmt):
                self.outside.update(used(stmt))
                self.units[id(stmt)] = survey(stmt.body)
                continue
            self.outside.update(used(stmt))
            target = defined(stmt)
            if target is not None:
                self.outside.add(target)
            for block in children(stmt):
                self._survey(block)

    def _crosses(self, name: Name) -> bool:
        return name in self.outside or self.mentions.get(name, 0) > 1

    def _temporary(self, name: Var | ScalarVar) -> Var:
        """The device memory in which a value waits between scopes."""
        found = self.temporaries.get(name)
        if found is None:
            if isinstance(name, Var):
                type = TensorType(name.type.shape, name.type.dtype)
            else:
                type = TensorType((1,), cell_dtype(name.dtype))
            found = self.temporaries[name] = Var(f"{name.name}_gm", type, self.function.loc)
        return found

    def _rewrite(self, body: list[Stmt]) -> list[Stmt]:
        result: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, ScopeStmt):
                result.extend(self._outline(stmt))
            elif isinstance(stmt, (ForStmt, WhileStmt, IfStmt)):
                result.append(with_blocks(stmt, self._rewrite))
            elif isinstance(stmt, OpStmt) and stmt.op == "spill":
                assert isinstance(stmt.args[0], Var), "a spill takes a variable"
                waits = self._temporary(stmt.args[0].resolve())
                shape = waits.type.shape
                box = (waits, tuple(index(0) for _ in shape), shape)
                result.append(OpStmt("slice", stmt.out, box, stmt.loc, {"keep": tuple(range(len(shape)))}))
            else:
                result.append(stmt)
        return result

    def _outline(self, scope: ScopeStmt) -> list[Stmt]:
        unit, later = self.units[id(scope)], self.live.after[id(scope)]
        needed = self.live.before[id(scope)] & (self.kept | self.outside)
        loc = scope.loc
        before: list[Stmt] = []
        after: list[Stmt] = []
        back: list[Stmt] = []
        tensors: dict[Var, None] = {}
        scalars: dict[ScalarVar | Symbol, None] = {}
        for name in {**unit.used, **unit.assigned}:
            inside = name in unit.assigned
            crosses = self._crosses(name)
            enters, stays = crosses and name in needed, crosses and inside and name in later
            if isinstance(name, Var):
                if isinstance(name.type, TileType):
                    if not enters and not stays:
                        continue
                    temporary = self._temporary(name)
                    tensors[temporary] = None
                    zero = tuple(index(0) for _ in name.type.shape)
                    if enters:
                        whole = {
                            "box": name.type.shape,
                            "keep": tuple(range(len(name.type.shape))),
                            "transposed": False,
                        }
                        before.append(OpStmt("load", name, (temporary, zero, name.type.valid), loc, whole))
                    if stays:
                        box = {"box": name.type.shape}
                        after.append(OpStmt("store", None, (name, zero, temporary, name.type.valid), loc, box))
                elif not inside:
                    tensors[name] = None
            elif isinstance(name, Symbol) or not inside:
                scalars[name] = None
            else:
                if enters:
                    scalars[name] = None
                if stays:
                    cell = self._temporary(name)
                    tensors[cell] = None
                    after += put(cell, (index(0),), name, loc)
                    back += take(cell, (index(0),), name, loc)
        for statement in (*before, *after):
            for name in leaves(statement.args) if isinstance(statement, OpStmt) else ():
                if isinstance(name, (ScalarVar, Symbol)) and name not in unit.assigned:
                    scalars[name] = None
        params = [Param(var.name, var, "In", loc) for var in tensors]
        params += [Param(scalar.name, scalar, "In", loc) for scalar in scalars]
        kernel = Function(scope.name, FunctionType.InCore, params, [*before, *scope.body, *after], [], loc)
        self.kernels.append(kernel)
        blocks = index(1) if scope.blocks is None else scope.blocks
        hidden = {var.resolve() for var in scope.order.no_dep}
        args = tuple(
            untracked(param.var) if isinstance(param.var, Var) and param.var in hidden else param.var
            for param in params
        )
        return [CallStmt(kernel, args, blocks, loc, replace(scope.order, no_dep=())), *back]
