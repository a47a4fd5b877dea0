"""`@pl.program`, `@pl.function`, `@pl.inline`: the explicit spelling of programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pypto.language import enclosing
from pypto.language.enums import FunctionType
from pypto.language.frontdoor import frontend


class FunctionDecl:
    """A method of a `@pl.program` class as its decorator recorded it."""

    def __init__(self, fn: Callable[..., Any], type: FunctionType, options: dict[str, Any]) -> None:
        self.fn = fn
        self.type = type
        self.options = options
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<@pl.function {self.__name__} ({self.type.value})>"


class InlineFunction:
    """A macro for `@pl.program` code: the body of `fn` is spliced into each caller."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<@pl.inline function {self.__name__}>"


def function(fn: Callable[..., Any] | None = None, *, type: FunctionType = FunctionType.Opaque, **options: Any) -> Any:
    """Declares a function of a program.

    In a `@pl.program` class it records the method; elsewhere it builds the function at once and returns it as IR.

    Args:
        fn: The function. Left out where options are given.
        type: What it is: a kernel (`pl.FunctionType.InCore`), the entry (`Orchestration`), ...
        **options: `level=`, `role=`, `strict_ssa=`, `auto_scope=`, `attrs=`: hints on this device.

    Raises:
        TypeError: Another option.
        pypto.ir.KernelError: The body is not what the language has.
    """
    known = {"level", "role", "strict_ssa", "auto_scope", "attrs"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise TypeError(
            f"@pl.function got an unexpected keyword argument {unknown[0]!r}; it takes type, {', '.join(sorted(known))}"
        )

    def declare(function: Callable[..., Any]) -> Any:
        enclosing.remember(function)
        decl = FunctionDecl(function, type, options)
        owner, _, _ = function.__qualname__.rpartition(".")
        in_class = bool(owner) and not owner.endswith("<locals>")
        return decl if in_class else frontend().build_function(decl)

    return declare if fn is None else declare(fn)


def program(cls: Any = None, **options: Any) -> Any:
    """Turns a class of `@pl.function` methods into a program, at class creation.

    Args:
        cls: The class. Left out where options are given.
        **options: Hints.

    Raises:
        TypeError: What is decorated is no class.
        pypto.ir.KernelError: A body is not what the language has.
    """
    if cls is None:
        return lambda decorated: program(decorated, **options)
    if not inspect.isclass(cls):
        raise TypeError(f"@pl.program decorates a class, got {cls!r}")
    return frontend().build_program(cls)


def inline(fn: Callable[..., Any]) -> InlineFunction:
    """Makes a macro for `@pl.program` code of the function `fn`."""
    enclosing.remember(fn)
    return InlineFunction(fn)
