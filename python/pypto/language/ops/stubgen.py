"""Writes the `.pyi` files of the namespaces, so that type checkers and editors see every operation with its signature.

Run `python -m pypto.language.ops.stubgen` after changing a row; a test fails when the files are stale.
"""

from __future__ import annotations

from pathlib import Path

from pypto.language.ops import FORMS, NAMESPACES, Form

_FILES = {"pl": "unified"}


def path_of(namespace: str) -> Path:
    """The file of a namespace."""
    return Path(__file__).parent.parent / f"{_FILES.get(namespace, namespace)}.pyi"


def render(namespace: str) -> str:
    """What the file holds."""
    lines = ['"""Generated from the table of operations by `pypto.language.ops.stubgen`; do not edit."""', ""]
    forms = sorted(FORMS[namespace].values(), key=lambda form: form.name)
    lines += ["from typing import Any", "", "__all__ = [", *(f'    "{form.name}",' for form in forms), "]", ""]
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
    for namespace in NAMESPACES:
        path_of(namespace).write_text(render(namespace))


if __name__ == "__main__":
    main()
