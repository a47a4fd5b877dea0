"""What the shell completes of `FILE:KERNEL` and of the options that name something of the kernel or of its passes.

Files are read, not imported: completing must be quick and do nothing. What a file takes from another one is not seen.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from pypto.cli.usage import PASSES

_BREAKS = (":", "=")
"""What bash takes for words of their own, and the user for a part of one."""
_CUT = [""]
"""The begin of the word that is completed, where bash has cut it off and replaces only what is behind it."""
_EXTENTS = (16, 64, 256)
_SCALARS = ("1", "2")
_TENSORS = ("16x64:fp16", "16x64:fp32")
"""Of one word shells complete all, and set a space behind it; of several they complete `NAME=`, behind which the user
goes on."""
_KINDS = {ast.FunctionDef: "jit", ast.ClassDef: "program"}


def rejoin(environment: dict[str, str] | os._Environ[str] = os.environ) -> None:
    """Undoes what bash does to `FILE:KERNEL`, `NAME=VALUE` and `--option=VALUE`: it takes `:` and `=` for words."""
    _CUT[0] = ""
    if environment.get("_PYPTO_COMPLETE") != "complete_bash":
        return
    at = int(environment["COMP_CWORD"])
    raw = [*environment["COMP_WORDS"].split("\n")[:at], "".join(environment["COMP_WORDS"].split("\n")[at : at + 1])]
    words: list[str] = []
    glue = False
    for word in raw:
        if word == "=" and words[-1].startswith("--"):
            words.append("")
            glue = True
        elif word in _BREAKS and len(words) > 1:
            words[-1] += word
            glue = True
        elif glue:
            words[-1] += word
            glue = False
        else:
            words.append(word)
    rest = "" if raw[-1] in _BREAKS else raw[-1]
    _CUT[0] = words[-1][: len(words[-1]) - len(rest)]
    environment["COMP_WORDS"], environment["COMP_CWORD"] = "\n".join([*words[:-1], rest]), str(len(words) - 1)


def complete_target(incomplete: str) -> list[str]:
    """What `FILE:KERNEL` may go on with; nothing for a file without a colon, since shells complete files themselves."""
    file, colon, _ = (_CUT[0] + incomplete).rpartition(":")
    return _beginning(incomplete, (f"{file}:{name}" for name in kernels_of(Path(file)))) if colon else []


def complete_pass(incomplete: str) -> list[str]:
    """The passes after which `inspect` shows the IR."""
    return _beginning(incomplete, PASSES)


def complete_resident(context: typer.Context, incomplete: str) -> list[str]:
    """Tensors of the kernel, in a list of which the last is completed."""
    before, comma, _ = incomplete.rpartition(",")
    listed = before.split(",")
    return _beginning(incomplete, (before + comma + name for name in _told(context).tensors if name not in listed))


def complete_argument(context: typer.Context, incomplete: str) -> list[str]:
    """`NAME=` of each parameter of the kernel, with values that show the form."""
    told = _told(context)
    values = {name: _TENSORS if name in told.tensors else _SCALARS for name in told.parameters}
    return _beginning(incomplete, (f"{name}={value}" for name in values for value in values[name]))


def complete_dimension(context: typer.Context, incomplete: str) -> list[str]:
    """`NAME=` of each dynamic dimension of the kernel, with some extents."""
    return _beginning(incomplete, (f"{name}={value}" for name in _told(context).dims for value in _EXTENTS))


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    """The words that go on from what is there, without what bash has cut off."""
    cut = _CUT[0]
    return [word.removeprefix(cut) for word in words if word.startswith(cut + incomplete)]


@dataclass(frozen=True)
class Told:
    """What the source of a kernel says about it.

    Attributes:
        parameters: Names of all parameters.
        tensors: Those that are no scalars.
        dims: Names of dynamic dimensions.
    """

    parameters: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()


def kernels_of(path: Path) -> list[str]:
    """The names of `@pl.jit` functions and `@pl.program` classes at the top of a file; none where it cannot be read."""
    return [node.name for node in _kernels(_tree(path))]


def told_of(target: str) -> Told:
    """What the source says about the kernel that `FILE` or `FILE:kernel` names; nothing where it cannot be found."""
    file, _, name = target.rpartition(":")
    tree = _tree(Path(file if name.isidentifier() and file else target))
    found = [node for node in _kernels(tree) if node.name == name] or list(_kernels(tree))
    if len(found) != 1:
        return Told()
    entry = _entry(found[0])
    parameters = [one for one in (*entry.posonlyargs, *entry.args) if one.arg != "self"]
    tensors = [one for one in parameters if one.annotation is None or "Tensor" in ast.unparse(one.annotation)]
    dynamic = _dynamic(tree)
    used = {node.id: None for node in ast.walk(found[0]) if isinstance(node, ast.Name) and node.id in dynamic}
    return Told(
        tuple(one.arg for one in parameters),
        tuple(one.arg for one in tensors),
        tuple(dict.fromkeys(dynamic[name] for name in used)),
    )


def _told(context: typer.Context) -> Told:
    """Of all kernels that the command line names so far."""
    # Behind an option whose value is still to come the parser gives up, and leaves the others where they are.
    targets = [context.params.get("target"), context.params.get("other"), *context.args]
    found = [told_of(target) for target in targets if target]

    def together(field: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in found for name in getattr(one, field)))

    return Told(together("parameters"), together("tensors"), together("dims"))


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _kernels(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if any(_name(decorator) == _KINDS[type(node)] for decorator in node.decorator_list):
            yield node


def _entry(kernel: ast.FunctionDef | ast.ClassDef) -> ast.arguments:
    """The function whose parameters are those of the kernel: of a class the orchestration, which comes last."""
    if isinstance(kernel, ast.FunctionDef):
        return kernel.args
    methods = [node for node in kernel.body if isinstance(node, ast.FunctionDef)]
    marked = [one for one in methods if any("Orchestration" in ast.unparse(mark) for mark in one.decorator_list)]
    return [*methods, *marked][-1].args if methods else ast.arguments([], [], None, [], [], None, [])


def _dynamic(tree: ast.Module) -> dict[str, str]:
    """What `M = pl.dynamic("M")` calls its dimension, by variable."""
    return {
        node.targets[0].id: str(node.value.args[0].value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and _name(node.value) == "dynamic"
        and node.value.args
        and isinstance(node.value.args[0], ast.Constant)
    }


def _name(decorator: ast.expr) -> str:
    """The last part of what decorates, called or not."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
