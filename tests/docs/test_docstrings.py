"""What is exported explains itself: a docstring that says what each parameter is, and what goes wrong."""

import ast
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from raising import raised_by

import pypto
from pypto.language import ops
from pypto.language.ops import wording
from pypto.language.ops.table import NAMESPACES

PACKAGES = ["pypto", "pypto.ir", "pypto.language", "pypto.runtime", *(f"pypto.language.{name}" for name in
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


def class_of(name: str) -> type | None:
    """The class whose method `name` is."""
    owner = EXPORTED.get(name.rpartition(".")[0])
    return owner if inspect.isclass(owner) else None


def told_errors(value: Any) -> str:
    """What a docstring says about errors. A property may point to another one, whose errors are the same."""
    doc = inspect.getdoc(value) or ""
    return doc.partition("Raises:")[2] or (doc if "rrors as of `" in doc else "")


EXPORTED = dict(exported())
RAISING = {
    name: value
    for name, value in EXPORTED.items()
    if not name.startswith("pypto.language") and not (inspect.isclass(value) and issubclass(value, BaseException))
}
"""What runs when it is called. Of the language the table of operations and the diagnostics of the frontend tell."""


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


@pytest.mark.parametrize("name", RAISING)
def test_the_docstring_says_what_is_raised(name: str) -> None:
    value = RAISING[name]
    owner = value if inspect.isclass(value) else class_of(name)
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    told = told_errors(value)
    missing = {
        error.__name__: way
        for error, way in raised_by(function, owner).items()
        # The number of a device is one of the few arguments that come from far above.
        if not ("_check_worker_id" in way and "worker_id" not in parameters(value))
        if "rrors as of" not in told and not any(re.search(rf"\b{kind.__name__}:", told) for kind in error.__mro__)
    }
    assert missing == {}, f"{name} can raise these and does not say so"


def test_errors_of_what_is_called_count_unless_they_are_caught() -> None:
    runtime = EXPORTED
    benchmark = raised_by(runtime["pypto.runtime.benchmark"])
    assert {ValueError, RuntimeError} <= set(benchmark)
    malloc = raised_by(runtime["pypto.runtime.ChipWorker.malloc"], runtime["pypto.runtime.ChipWorker"])
    assert malloc[RuntimeError] == "ChipMemory.malloc > ChipMemory._ready"
    assert FileNotFoundError not in raised_by(runtime["pypto.runtime.BenchmarkStats.from_json"])


OPERATIONS = {
    form.spelling: (op, getattr(importlib.import_module(NAMESPACES[namespace]), form.name))
    for op in ops.ALL
    if op.supported
    for namespace, form in op.forms.items()
}


@pytest.mark.parametrize("spelling", OPERATIONS)
def test_the_docstring_of_an_operation_has_shapes_and_errors_from_the_table(spelling: str) -> None:
    op, function = OPERATIONS[spelling]
    doc = " ".join((inspect.getdoc(function) or "").split())
    assert op.doc in doc
    assert wording.SHAPES[op.rule] in doc
    assert "Raises: pypto.ir.KernelError: While a kernel is compiled: an operand does not fit." in doc


NATIVE = ("BoundLaunch", "DeviceTensor", "MemoryReport", "MemoryScope", "RegistrationHandle")
NOTHING_TO_REFUSE = {"MemoryReport.as_dict", "RegistrationHandle.unregister", "BoundLaunch.close"}


def stubs() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The public methods of the extension's classes, as editors and the site read them."""
    for path in sorted((Path(pypto.__file__).parent / "_native").glob("*.pyi")):
        for cls in ast.parse(path.read_text()).body:
            if isinstance(cls, ast.ClassDef) and cls.name in NATIVE:
                for method in cls.body:
                    if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                        yield f"{cls.name}.{method.name}", method


STUBS = dict(stubs())


def test_the_classes_of_the_extension_are_all_looked_at() -> None:
    assert {name.partition(".")[0] for name in STUBS} == set(NATIVE)


@pytest.mark.parametrize("name", [name for name in STUBS if not name.startswith("MemoryReport.")])
def test_a_method_of_the_extension_has_a_docstring_and_says_what_it_raises(name: str) -> None:
    method = STUBS[name]
    doc = ast.get_docstring(method) or ""
    assert len(doc) > 10, f"{name} has no docstring"
    is_property = any(ast.unparse(mark) == "property" for mark in method.decorator_list)
    if not is_property and name not in NOTHING_TO_REFUSE:
        assert re.search(r"Raises:|\braises\b|`\w+Error`", doc), f"{name} does not say what it raises"


def test_a_report_of_memory_says_what_each_figure_is() -> None:
    tree = ast.parse((Path(pypto.__file__).parent / "_native" / "memory.pyi").read_text())
    (report,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "MemoryReport")
    doc = ast.get_docstring(report) or ""
    missing = [name for name in STUBS if name.startswith("MemoryReport.") and f"{name.partition('.')[2]}:" not in doc]
    assert missing == ["MemoryReport.as_dict"]
