"""Which names a block of source assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

LANES: Final = (0, 1)
"""The vector lanes of a core."""


RETURNED: Final = "has returned"
"""Whether a function that returns on some paths has done so; no name of the source has a space."""
_RESULT: Final = "result "


def result_name(position: int) -> str:
    """What one of the values that such a function returns is called."""
    return f"{_RESULT}{position}"


def is_result(name: str) -> bool:
    """Whether a name holds what a function returns."""
    return name.startswith(_RESULT)


def called(name: str) -> str:
    """A name in messages."""
    return "what this function returns" if is_result(name) else repr(name)


def lane_name(name: str, lane: int) -> str:
    """What a name that a `pl.split_aiv` region assigns is called in one lane; no name of the source has a space."""
    return f"{name} lane {lane}"


def _is_region(node: ast.For) -> bool:
    func = node.iter.func if isinstance(node.iter, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "split_aiv"


def assigned_names(body: Iterable[ast.stmt], boxes: bool = True) -> list[str]:
    """Names that statements assign, at any depth, in order of first appearance.

    Writing a box assigns its name where that means an on-chip value, which the source does not say; `boxes=False`
    leaves such names out. Indices of loops are no assignments: they mean something inside their loop only.
    """
    found: dict[str, None] = {}
    stack: list[ast.AST] = []
    stack.extend(reversed(list(body)))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.For) and _is_region(node):
            for name in assigned_names(node.body, boxes):
                found.update(dict.fromkeys((name, *(lane_name(name, lane) for lane in LANES))))
            continue
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found[node.id] = None
        elif isinstance(node, ast.Subscript):
            if boxes and isinstance(node.value, ast.Name):
                found[node.value.id] = None
        elif isinstance(node, (ast.stmt, ast.Tuple, ast.List, ast.Starred, ast.withitem, ast.ExceptHandler)):
            stack.extend(reversed(list(_parts(node))))
    return list(found)


def _parts(node: ast.AST) -> Iterable[ast.AST]:
    if isinstance(node, ast.Assign) or "targets" in node._fields:  # `return` on some paths has targets too
        targets: Iterable[ast.AST] = node.targets  # type: ignore[attr-defined]  # see the condition
        return targets
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return (node.target,)
    if isinstance(node, (ast.For, ast.While, ast.If)):  # the index of a loop has a meaning inside it only
        return (*node.body, *node.orelse)
    if isinstance(node, ast.With):
        return (*node.items, *node.body)
    if isinstance(node, ast.withitem):
        return () if node.optional_vars is None else (node.optional_vars,)
    if isinstance(node, (ast.Tuple, ast.List)):
        return node.elts
    return ()
