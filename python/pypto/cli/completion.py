"""What the shell completes of `FILE:KERNEL`. Files are read, not imported: completing must be quick and do nothing."""

from __future__ import annotations

import ast
import os
from pathlib import Path

_FILE: list[str] = []
"""The file whose kernels are completed, where the shell has cut it off."""


def rejoin(environment: dict[str, str] | os._Environ[str] = os.environ) -> None:
    """Undoes what bash does to `FILE:KERNEL`: it takes `:` for a word of its own, and replaces only what is behind it.

    The file and the colon are taken out of the words, so that the rest stands where the whole belongs.
    """
    _FILE.clear()
    if environment.get("_PYPTO_COMPLETE") != "complete_bash":
        return
    words, at = environment["COMP_WORDS"].split("\n"), int(environment["COMP_CWORD"])
    before, last = words[:at], "".join(words[at : at + 1])
    if last == ":":
        before, last = [*before, ":"], ""
    if len(before) > 1 and before[-1] == ":":
        _FILE.append(before[-2])
        del before[-2:]
    while ":" in before[1:-1]:
        colon = before.index(":", 1)
        before[colon - 1 : colon + 2] = ["".join(before[colon - 1 : colon + 2])]
    environment["COMP_WORDS"], environment["COMP_CWORD"] = "\n".join([*before, last]), str(len(before))


def complete_target(incomplete: str) -> list[str]:
    """What `FILE:KERNEL` may go on with; nothing for a file without a colon, since shells complete files themselves."""
    if _FILE:
        return [name for name in kernels_of(Path(_FILE[0])) if name.startswith(incomplete)]
    file, colon, name = incomplete.rpartition(":")
    return [f"{file}:{one}" for one in kernels_of(Path(file)) if one.startswith(name)] if colon else []


def kernels_of(path: Path) -> list[str]:
    """The names of `@pl.jit` functions and `@pl.program` classes at the top of a file; none where it cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    marks = {ast.FunctionDef: "jit", ast.ClassDef: "program"}
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and any(_name(decorator) == marks[type(node)] for decorator in node.decorator_list)
    ]


def _name(decorator: ast.expr) -> str:
    """The last part of what decorates, called or not."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
