"""The rules that a program keeps between the frontend and lowering. A broken one is a bug of this project."""

from __future__ import annotations

from pypto.errors import InternalError
from pypto.ir.diagnostics import Loc
from pypto.ir.effects import Name, defined, used
from pypto.ir.exprs import Symbol
from pypto.ir.nodes import (
    BreakStmt,
    CallStmt,
    ContinueStmt,
    ForStmt,
    Function,
    OpStmt,
    Program,
    ScopeStmt,
    Stmt,
    Var,
    WhileStmt,
    children,
)
from pypto.ir.types import TileType
from pypto.language.ops import BY_NAME


def verify(program: Program) -> None:
    """Checks every function; `InternalError` with the place of the first broken rule."""
    for function in program.functions.values():
        _Checker(function).run()


class _Checker:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.known: set[Name] = set(function.symbols)
        for param in function.params:
            self.known.add(param.var)
            if isinstance(param.var, Var):
                self.known.update(dim for dim in param.var.type.shape if isinstance(dim, Symbol))

    def run(self) -> None:
        """Checks the body and what it returns."""
        self._block(self.function.body, kernel=self.function.kind.is_kernel, loops=0)
        for var in self.function.returns:
            self._require(var.resolve() in self.known, self.function.loc, f"returns {var.name}, which nothing assigns")

    def _require(self, holds: bool, loc: Loc, message: str) -> None:
        if not holds:
            raise InternalError(f"{loc.file}:{loc.line}: in {self.function.name}: {message}")

    def _block(self, body: list[Stmt], kernel: bool, loops: int) -> None:
        for stmt in body:
            self._statement(stmt, kernel, loops)
            inner = kernel or isinstance(stmt, ScopeStmt)
            # A scope becomes a function of its own: a loop around it is no loop inside.
            depth = 0 if isinstance(stmt, ScopeStmt) else loops + isinstance(stmt, (ForStmt, WhileStmt))
            if isinstance(stmt, WhileStmt):
                self._block(stmt.head, inner, depth)
            for name in used(stmt):
                self._require(name in self.known, stmt.loc, f"{name.name} is used before anything assigns it")
            target = defined(stmt)
            if target is not None:
                self.known.add(target)
            for block in children(stmt)[1:] if isinstance(stmt, WhileStmt) else children(stmt):
                self._block(block, inner, depth)

    def _statement(self, stmt: Stmt, kernel: bool, loops: int) -> None:
        if isinstance(stmt, (BreakStmt, ContinueStmt)):
            self._require(loops > 0, stmt.loc, "break or continue outside a loop")
        elif isinstance(stmt, ScopeStmt):
            self._require(not kernel, stmt.loc, "a scope inside a kernel")
        elif isinstance(stmt, CallStmt):
            self._call(stmt, kernel)
        elif isinstance(stmt, OpStmt):
            self._operation(stmt, kernel)

    def _call(self, stmt: CallStmt, kernel: bool) -> None:
        callee = stmt.callee
        self._require(not kernel, stmt.loc, "a launch inside a kernel")
        self._require(callee.kind.is_kernel, stmt.loc, f"{callee.name} is no kernel")
        self._require(
            len(stmt.args) == len(callee.params), stmt.loc, f"{callee.name} takes {len(callee.params)} arguments"
        )
        for argument, param in zip(stmt.args, callee.params, strict=True):
            tensors = isinstance(argument, Var), isinstance(param.var, Var)
            self._require(tensors[0] == tensors[1], stmt.loc, f"{callee.name}: {param.name} has another kind")
            if isinstance(argument, Var) and isinstance(param.var, Var):
                have, want = argument.type, param.var.type
                fits = have.dtype is want.dtype and len(have.shape) == len(want.shape)
                self._require(fits, stmt.loc, f"{callee.name}: {param.name} has another dtype or rank")

    def _operation(self, stmt: OpStmt, kernel: bool) -> None:
        self._require(stmt.op in BY_NAME or stmt.op == "spill", stmt.loc, f"{stmt.op} is no operation")
        out = stmt.out
        if isinstance(out, Var) and isinstance(out.type, TileType):
            copies = stmt.op in (
                "move",
                "load",
                "create_tile",
            )  # where paths meet outside scopes; outlining gives them one
            self._require(kernel or copies, stmt.loc, f"{stmt.op} computes outside a kernel")
