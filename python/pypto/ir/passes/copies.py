"""Copies of on-chip values outside scopes, where the paths of orchestration code meet."""

from __future__ import annotations

from pypto.ir.nodes import Function, OpStmt, ScopeStmt, Stmt, with_blocks

COPIES = frozenset({"move", "load", "create_tile"})
"""What the frontend emits where branches and loops of orchestration code reconcile on-chip values."""


def scope_copies(function: Function, name: str | None = None) -> Function:
    """The function with each such copy in a scope of its own. The given function is not changed."""
    name = f"{function.name}_copy" if name is None else name

    def block(body: list[Stmt]) -> list[Stmt]:
        return [scoped(stmt) for stmt in body]

    def scoped(stmt: Stmt) -> Stmt:
        if isinstance(stmt, OpStmt) and stmt.op in COPIES:
            return ScopeStmt(name, None, [stmt], stmt.loc)
        return with_blocks(stmt, block)

    if function.kind.is_kernel:
        return function
    return Function(
        function.name,
        function.kind,
        function.params,
        block(function.body),
        function.returns,
        function.loc,
        function.symbols,
        function.attrs,
    )
