"""Writes the `.pyi` files of the namespaces, so that type checkers and editors see every operation with its signature.

Run `python -m pypto.language.ops.stubgen` after changing a row; a test fails when the files are stale.
"""

from __future__ import annotations

from pathlib import Path

from pypto.language.ops import FORMS, NAMESPACES, Form

GENERATED = tuple(namespace for namespace in NAMESPACES if namespace != "pld")
"""Namespaces with a file of their own; `pld` is a package with other names beside its operations."""

_ENUMS = {"tile": ["MaskPattern"], "tensor": ["MaskPattern"]}
"""Names of a namespace that are no operations; `pypto.language.enums` has them."""


def path_of(namespace: str) -> Path:
    """The file of a namespace."""
    module = {"pl": "unified"}.get(namespace) or NAMESPACES[namespace].removeprefix("pypto.language.")
    return Path(__file__).parent.parent / f"{module.replace('.', '/')}.pyi"


def render(namespace: str) -> str:
    """What the file holds."""
    lines = ['"""Generated from the table of operations by `pypto.language.ops.stubgen`; do not edit."""', ""]
    forms = sorted(FORMS[namespace].values(), key=lambda form: form.name)
    enums = _ENUMS.get(namespace, [])
    names = [*enums, *(form.name for form in forms)]
    lines += ["from typing import Any", ""]
    lines += [f"from pypto.language.enums import {name}" for name in enums] + [""] * bool(enums)
    lines += ["__all__ = [", *(f'    "{name}",' for name in names), "]", ""]
    lines += [_declaration(form) for form in forms]
    return "\n".join(lines) + "\n"


def _declaration(form: Form) -> str:
    parameters = _parameters(form)
    line = f"def {form.name}({', '.join(parameters)}) -> Any: ..."
    if len(line) <= 120:
        return line
    return "\n".join([f"def {form.name}(", *(f"    {parameter}," for parameter in parameters), ") -> Any: ..."])


def _parameters(form: Form) -> list[str]:
    parts: list[str] = []
    starred = False
    for param in form.params:
        if param.keyword_only and not starred and not param.name.startswith("*"):
            parts.append("*")
            starred = True
        parts.append(f"{param.name}: Any" + ("" if param.required or param.name.startswith("*") else " = ..."))
    return parts


def main() -> None:
    """Writes every file."""
    for namespace in GENERATED:
        path_of(namespace).write_text(render(namespace))


if __name__ == "__main__":
    main()
