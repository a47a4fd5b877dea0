"""Every operation of the language, as data. `find(namespace, name)` looks one up."""

from __future__ import annotations

from pypto.language.ops import bits, creation, distributed, elementwise, gather, matmul, memory, reduce, system
from pypto.language.ops.table import NAMESPACES, REQUIRED, Form, Op, OpParam

ALL: tuple[Op, ...] = tuple(
    op
    for family in (elementwise, bits, creation, memory, matmul, reduce, gather, system, distributed)
    for op in family.row.ops
)
"""Every row."""

FORMS: dict[str, dict[str, Form]] = {namespace: {} for namespace in NAMESPACES}
"""Forms by namespace and by the name used there."""

BY_NAME: dict[str, Op] = {op.name: op for op in ALL}
"""Rows by their own name."""

for _op in ALL:
    for _form in _op.forms.values():
        FORMS[_form.namespace][_form.name] = _form


def find(namespace: str, name: str) -> Form | None:
    """The form that `namespace` calls `name`, or `None`."""
    return FORMS[namespace].get(name)


__all__ = ["ALL", "BY_NAME", "FORMS", "NAMESPACES", "REQUIRED", "Form", "Op", "OpParam", "find"]
