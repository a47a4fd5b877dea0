"""What names outside the kernel mean: closure cells, then globals, then builtins, read when the kernel needs them.

Annotations also see the names of the enclosing function that have no cell, as they were at the decoration.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from enum import Enum
from types import CellType, ModuleType
from typing import Any, Final

from pypto.language import enclosing
from pypto.language.dtypes import DataType

MISSING = object()

_PLAIN: Final = (int, float, bool, str, bytes)


class Captures:
    """Everything outside that the frontend read, with what it saw: part of the key under which a result is cached.

    A cached call checks all of it, so it is kept flat: one entry for each global, cell, attribute and container,
    however many functions read it.
    """

    __slots__ = ("_attributes", "_cells", "_containers", "_globals")

    def __init__(self, base: Captures | None = None) -> None:
        self._globals: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = dict(base._globals) if base else {}
        self._cells: dict[int, tuple[CellType, Any]] = dict(base._cells) if base else {}
        self._attributes: dict[tuple[int, str], tuple[Any, str, Any]] = dict(base._attributes) if base else {}
        self._containers: dict[int, tuple[Any, Any]] = dict(base._containers) if base else {}

    def note_global(self, module: dict[str, Any], name: str) -> None:
        """Remembers what a module's name means, also that it means nothing."""
        self._globals.setdefault((id(module), name), (module, name, module.get(name, MISSING)))

    def note_cell(self, cell: CellType) -> None:
        """Remembers what a variable of an enclosing function holds."""
        self._cells.setdefault(id(cell), (cell, _content(cell)))

    def note_attribute(self, obj: Any, name: str, value: Any) -> None:
        """Remembers an attribute of an object that may change."""
        fixed = isinstance(obj, (DataType, Enum)) or (isinstance(obj, ModuleType) and obj.__name__.startswith("pypto"))
        if not fixed:
            self._attributes.setdefault((id(obj), name), (obj, name, value))

    def note_container(self, obj: Any) -> None:
        """Remembers what a list or dict holds."""
        if isinstance(obj, (list, dict)):
            self._containers.setdefault(id(obj), (obj, obj.copy()))

    def unchanged(self) -> bool:
        """Whether everything still means what it meant."""
        for module, name, value in self._globals.values():
            now = module.get(name, MISSING)
            if now is not value and not _equal(now, value):
                return False
        for cell, value in self._cells.values():
            now = _content(cell)
            if now is not value and not _equal(now, value):
                return False
        for obj, name, value in self._attributes.values():
            now = getattr(obj, name, MISSING)
            if now is not value and not _equal(now, value):
                return False
        return all(_equal(obj, value) for obj, value in self._containers.values())


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable of the enclosing function has no value yet
        return MISSING


def _equal(a: Any, b: Any) -> bool:
    """Whether two objects mean the same to a kernel: plain values by value, containers by items, others by identity."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _PLAIN):
        return bool(a == b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(value, b[key]) for key, value in a.items())
    return False


class Namespace:
    """The outside names of one function. Reads are lazy: a cell or global may be filled or rebound after decoration."""

    __slots__ = ("captures", "cells", "enclosing", "fn", "globals")

    def __init__(self, fn: Callable[..., Any], captures: Captures) -> None:
        self.fn = fn
        self.captures = captures
        self.globals: dict[str, Any] = fn.__globals__
        self.enclosing: dict[str, Any] = getattr(fn, enclosing.ATTRIBUTE, {})
        closure = fn.__closure__ or ()
        self.cells = dict(zip(fn.__code__.co_freevars, closure, strict=True))

    def peek(self, name: str) -> Any:
        """What `name` means now, or `MISSING`."""
        cell = self.cells.get(name)
        if cell is not None:
            return _content(cell)
        if name in self.enclosing:
            return self.enclosing[name]
        value = self.globals.get(name, MISSING)
        return vars(builtins).get(name, MISSING) if value is MISSING else value

    def find(self, name: str) -> Any:
        """As `peek`, and remembers the read."""
        cell = self.cells.get(name)
        if cell is not None:
            self.captures.note_cell(cell)
        elif name not in self.enclosing:
            self.captures.note_global(self.globals, name)
        return self.peek(name)
