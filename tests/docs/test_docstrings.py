"""What is exported explains itself: a docstring that says what each parameter is."""

import ast
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

PACKAGES = ["pypto", "pypto.language", "pypto.runtime", *(f"pypto.language.{name}" for name in
            ("tensor", "tile", "system", "array", "prefetch"))]  # fmt: skip
# Numbers, dtypes and layouts are values: their class explains them.
EXPLAINED_BY_THEIR_CLASS = (str, int, float, enum.Enum)


def exported() -> Iterator[tuple[str, Any]]:
    """Each exported name that is no module, and the public methods of what is a class."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, (ModuleType, *EXPLAINED_BY_THEIR_CLASS)):
                continue
            where = f"{package}.{name}"
            yield where, value
            if inspect.isclass(value) and not issubclass(value, (enum.Enum, BaseException)):
                yield from ((f"{where}.{part}", method) for part, method in methods(value))


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    inherited = [vars(base) for base in reversed(cls.__mro__) if base.__module__.startswith("pypto")]
    for name, value in {name: value for own in inherited for name, value in own.items()}.items():
        if name.startswith("_"):
            continue
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        if isinstance(value, property):
            value = value.fget
        if inspect.isroutine(value):
            yield name, getattr(cls, name, value)


def parameters(value: Any) -> list[str]:
    """Of what is refused whatever it is given, parameters do not matter; of an annotation there are none."""
    doc = inspect.getdoc(value) or ""
    if inspect.isclass(value) and (
        issubclass(value, (enum.Enum, BaseException)) or hasattr(value, "__class_getitem__")
    ):
        return []
    if value is Any or re.search(r"A kernel that uses it is refused|not supported in this version|needs none", doc):
        return []
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    return [name for name in signature.parameters if name not in ("self", "cls") and not name.startswith("_")]


def attributes_with_a_docstring(cls: type) -> set[str]:
    """Fields that a string follows in the source, as mkdocs and editors read it."""
    found = set()
    for base in cls.__mro__[:-1]:
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError):
            continue
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if text and isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                found.add(field.target.id)
    return found


EXPORTED = dict(exported())


def test_all_of_the_public_names_are_looked_at() -> None:
    assert {"pypto.trace", "pypto.language.row_max", "pypto.runtime.ChipWorker.alloc_tensor"} <= set(EXPORTED)
    assert len(EXPORTED) > 500


@pytest.mark.parametrize("name", EXPORTED)
def test_the_docstring_says_what_each_parameter_is(name: str) -> None:
    value = EXPORTED[name]
    doc = inspect.getdoc(value) or ""
    assert len(doc) > 10, f"{name} has no docstring"
    told = attributes_with_a_docstring(value) if inspect.isclass(value) else set()
    missing = [
        parameter
        for parameter in parameters(value)
        if parameter not in told
        and not re.search(rf"`\*{{0,2}}{parameter}\b[^`]*`|^ *\*{{0,2}}{parameter}:", doc, re.M)
    ]
    assert missing == [], f"{name} does not say what {', '.join(missing)} is"
