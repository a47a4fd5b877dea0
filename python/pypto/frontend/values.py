"""What an expression of a kernel evaluates to while it is read.

Scalars are `ir` expressions, tensors and tiles are `ir.Var`s; the classes here are the rest.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard

from pypto.ir.exprs import Const, Dim, Expr, ScalarOp, ScalarVar, Symbol
from pypto.ir.nodes import TaskRef, TaskVar, Var
from pypto.ir.types import TileType, same_extents
from pypto.language.annotations import TaskId
from pypto.language.dtypes import DataType


@dataclass(frozen=True, slots=True)
class PyValue:
    """A Python object that is no value of the language: a dtype, an enum member, a module, a function, `None`.

    Of a task id, and of `None` in its place, `ids` says where it is kept. Ids are alike for everything else.
    """

    obj: Any
    ids: TaskRef | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """A subscript or `pl.slice` of device memory inside a kernel, before it is decided whether it is loaded or viewed.

    One entry per axis of `base`; `keep` lists the axes that remain. Binding it to a name loads it (a snapshot).
    """

    base: Var
    offsets: tuple[Expr, ...]
    extents: tuple[Dim, ...]
    valid: tuple[Dim, ...]
    keep: tuple[int, ...]

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents of the axes that remain."""
        return tuple(self.extents[axis] for axis in self.keep)


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """`x.bind_dynamic`, `pl.FP32.get_byte`: a method of a value, about to be called."""

    owner: Any
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class ArrayValue:
    """`pl.array.create(n, dtype)`. Task ids need no memory, so an array of them has no variable but `ids`."""

    extent: int
    dtype: DataType
    var: Var | None
    ids: TaskVar | None = None


class Poison:
    """The value of a name whose assignment was refused. Using it reports nothing again."""


class Ambiguous(Poison):
    """A name that means different things on different paths. `text` and `hint` say so where it is used."""

    def __init__(self, text: str, hint: str = "a name keeps its type; use two names") -> None:
        self.text, self.hint = text, hint


POISON = Poison()
NONE = PyValue(None)
TASK_ID = PyValue(TaskId())
"""Every task id equals this one: program order already satisfies what it could order."""


def task_id(ids: TaskRef) -> PyValue:
    """The task id that is kept there."""
    return PyValue(TASK_ID.obj, ids)


def is_task_id(value: Value | None) -> TypeGuard[PyValue]:
    """Whether a value is a task id, or `None`, which is the id of no task."""
    return isinstance(value, PyValue) and value in (NONE, TASK_ID)


SCALARS = (Const, Symbol, ScalarVar, ScalarOp)

Value: TypeAlias = Expr | Var | Window | PyValue | BoundMethod | ArrayValue | Poison | tuple[Any, ...]


def python_number(obj: Any) -> Any:
    """A scalar of numpy as Python's own number; anything else as it is."""
    if type(obj).__module__ == "numpy" and getattr(obj, "shape", None) == () and hasattr(obj, "item"):
        number = obj.item()
        return number if isinstance(number, (bool, int, float)) else obj
    return obj


def plain_numbers(value: Value) -> Any:
    """A constant as Python's own number, also inside tuples; `None` for what is known at run time or is no number."""
    if isinstance(value, tuple):
        items = tuple(map(plain_numbers, value))
        return None if None in items else items
    return value.value if isinstance(value, Const) else None


def is_scalar(value: Value | None) -> TypeGuard[Expr]:
    """Whether a value is a scalar."""
    return isinstance(value, SCALARS)


def same_type(a: Value, b: Value) -> bool:
    """Whether a name may change from one value to the other.

    Integers of any width are one type; validity is no part of it; device memory and the on-chip value of an operation
    on tensors, of equal shape and dtype, are both "the tensor" to an author. A tile that was loaded is none.
    """
    if is_scalar(a) and is_scalar(b):
        return (a.dtype.is_float, a.dtype.is_bool) == (b.dtype.is_float, b.dtype.is_bool)
    if isinstance(a, Var) and isinstance(b, Var):
        if a.is_tensor != b.is_tensor:
            tile = b.type if a.is_tensor else a.type
            if isinstance(tile, TileType) and not tile.tensor_level:
                return False  # an explicit tile
            if not all(isinstance(dim, int) for dim in (*a.type.shape, *b.type.shape)):
                return False  # only device memory of static shape can be loaded to become an on-chip value
        return a.type.dtype is b.type.dtype and same_extents(a.type.shape, b.type.shape)
    return not (is_scalar(a) or is_scalar(b) or isinstance(a, Var) or isinstance(b, Var)) or POISON in (a, b)


def is_outside_tensor(value: Value) -> TypeGuard[PyValue]:
    """Whether `value` is a tensor or an array of the program around the kernel, which the kernel was not given."""
    return isinstance(value, PyValue) and hasattr(value.obj, "shape") and hasattr(value.obj, "dtype")


def describe(value: Value) -> str:
    """The value in the language's words, for messages."""
    if isinstance(value, Var):
        from pypto.ir.print_types import type_text

        return type_text(value.type)
    if isinstance(value, Window):
        return f"a slice of {value.base.name!r}"
    if isinstance(value, SCALARS):
        return f"{value.dtype.with_article} scalar"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, ArrayValue):
        return f"an array of {value.extent} {value.dtype}"
    if is_outside_tensor(value):
        return f"{type(value.obj).__name__} of shape {list(value.obj.shape)}"
    if isinstance(value, PyValue):
        return (
            "None"
            if value.obj is None
            else "a task id"
            if isinstance(value.obj, TaskId)
            else f"{type(value.obj).__name__} {reprlib.repr(getattr(value.obj, '__name__', value.obj))}"
        )
    return "an unknown value"
