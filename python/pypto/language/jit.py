"""The `@pl.jit` family. A decorator records the function; nothing is read before the first call or `compile()`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from pypto.language import enclosing
from pypto.language.frontdoor import frontend


class JITFunction:
    """A kernel function: what `@pl.jit` and its variants make of the function `fn`.

    Calling an entry compiles for the shapes, dtypes and scalars of the arguments and runs the result. `_cache` keeps
    what was compiled, `_plan` what is known without arguments.

    Args:
        fn: The function that was decorated.
        kind: `entry`, `incore`, `inline`, `opaque`, `host` or `extern`.
        options: What the decorator was given.
    """

    __name__: str

    def __init__(self, fn: Callable[..., Any], kind: str, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.kind = kind
        self.options = options
        self._cache: dict[Any, Any] = {}
        self._plan: Any = None

    def __call__(self, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        """Compiles for these arguments and runs. Tensors as for `CompiledProgram.__call__`."""
        compiled, ordered = frontend().specialise(self, args, kwargs, config)
        return compiled(*ordered, config=config)

    def compile(self, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        """The compiled program for sample arguments, or for the annotations alone when no tensor is given.

        The same shapes, dtypes and scalars give the very same object.

        Args:
            *args: Tensors and numbers, one for each parameter. Scalars are fixed to the given value; `pl.RUNTIME` keeps
                one a runtime parameter.
            config: A `RunConfig`; what concerns compiling is read.
            **kwargs: Arguments by name.

        Raises:
            TypeError: A bare `pl.Tensor` without an argument, or a scalar without a value.
            pypto.ir.KernelError: The body is not what the language has; with file, line and column.
        """
        return frontend().specialise(self, args, kwargs, config)[0]

    def lower(self, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        """The IR program for these arguments, without artifacts on disk; errors as of `compile`.

        Args:
            *args: As for `compile`.
            config: As for `compile`.
            **kwargs: As for `compile`.
        """
        return frontend().lower(self, args, kwargs, config)

    def __repr__(self) -> str:
        return f"<@pl.jit{'' if self.kind == 'entry' else '.' + self.kind} function {self.__name__}>"


class _Decorator:
    """`@pl.jit`, `@pl.jit(...)`, and the members `incore`, `inline`, `opaque`, `host`, `extern`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @overload
    def __call__(self, fn: Callable[..., Any]) -> JITFunction: ...

    @overload
    def __call__(self, fn: None = None, **options: Any) -> Callable[[Callable[..., Any]], JITFunction]: ...

    def __call__(self, fn: Callable[..., Any] | None = None, **options: Any) -> Any:
        if fn is None:
            return lambda function: self(function) if not options else self._record(function, options)
        return self._record(fn, options)

    def _record(self, fn: Callable[..., Any], options: dict[str, Any]) -> JITFunction:
        if not callable(fn) or not hasattr(fn, "__code__"):
            raise TypeError(f"@pl.jit decorates a plain function, got {fn!r}")
        enclosing.remember(fn)
        return JITFunction(fn, self._kind, options)


class _Jit(_Decorator):
    """Makes a kernel function of a Python function, which is read and never executed by Python.

    `@pl.jit` marks the entry, `@pl.jit.incore` a kernel, `@pl.jit.inline` what is spliced into its caller;
    `@pl.jit.opaque`, `@pl.jit.host` and `@pl.jit.extern` are accepted.

    Args:
        fn: The function, of a source file. Left out where options are given: `@pl.jit(auto_scope=False)`.
        **options: Hints, as `auto_scope=` and `level=`.

    Raises:
        TypeError: What is decorated is no plain function.
    """

    incore = _Decorator("incore")
    inline = _Decorator("inline")
    opaque = _Decorator("opaque")
    host = _Decorator("host")
    extern = _Decorator("extern")


jit = _Jit("entry")
