"""What names outside the kernel mean: closure cells, then globals, then builtins, read when the kernel needs them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MISSING = object()


@dataclass(slots=True)
class Captures:
    """Every outside name that the frontend read, with what it saw: part of the key under which a result is cached."""

    seen: dict[tuple[int, str], tuple[Namespace, Any]] = field(default_factory=dict)

    def note(self, namespace: Namespace, name: str, value: Any) -> None:
        """Remembers one read."""
        self.seen.setdefault((id(namespace.fn), name), (namespace, value))

    def unchanged(self) -> bool:
        """Whether every name still means what it meant."""
        for (_, name), (namespace, value) in self.seen.items():
            now = namespace.peek(name)
            if now is not value and not (type(now) is type(value) and isinstance(value, _PLAIN) and now == value):
                return False
        return True


_PLAIN = (int, float, bool, str, tuple)


class Namespace:
    """The outside names of one function. Reads are lazy: a cell or global may be filled or rebound after decoration."""

    __slots__ = ("captures", "cells", "fn", "globals")

    def __init__(self, fn: Callable[..., Any], captures: Captures) -> None:
        self.fn = fn
        self.captures = captures
        self.globals: dict[str, Any] = fn.__globals__
        closure = fn.__closure__ or ()
        self.cells = dict(zip(fn.__code__.co_freevars, closure, strict=True))

    def peek(self, name: str) -> Any:
        """What `name` means now, or `MISSING`."""
        cell = self.cells.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:  # the variable of the enclosing function has no value yet
                return MISSING
        value = self.globals.get(name, MISSING)
        return vars(builtins).get(name, MISSING) if value is MISSING else value

    def find(self, name: str) -> Any:
        """As `peek`, and remembers the read."""
        value = self.peek(name)
        self.captures.note(self, name, value)
        return value
