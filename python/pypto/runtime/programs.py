"""Compiled programs as the extension knows them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram

_cache: dict[int, tuple[weakref.ref[Any], _pypto.Program]] = {}
"""The program of each compiled object that is alive. Two compiled objects may compare equal (they compare as paths) and
hold different programs, so the key is identity, guarded by the reference."""

_compiled_class: type | None = None
"""`CompiledProgram`, once it was needed: an import statement costs more than the rest of a launch."""


def check_compiled(compiled: Any) -> CompiledProgram:
    """The compiled program that is meant: itself, or the one that a `RunResult` stands for.

    Raises:
        TypeError: It is neither; the text says what to do instead.
    """
    global _compiled_class
    if _compiled_class is None:
        from pypto.ir import CompiledProgram

        _compiled_class = CompiledProgram
    if isinstance(compiled, _compiled_class):
        return compiled  # type: ignore[return-value]
    from pypto.runtime.runner import RunResult

    if isinstance(compiled, RunResult) and compiled.compiled is not None:
        return compiled.compiled
    hint = "; call .compile(...) on it first" if hasattr(compiled, "compile") else "; ir.compile(...) makes one"
    raise failures.NOT_COMPILED(f"expected a CompiledProgram, got {type(compiled).__name__}{hint}")


def runtime_name(compiled: CompiledProgram) -> str:
    """The kind of runtime that the program was built for; the usual one where it does not say."""
    return getattr(compiled, "runtime_name", "tensormap_and_ringbuffer")


def needs_sdma(compiled: CompiledProgram) -> bool:
    """Whether the program was built to use the DMA engine between chips."""
    return getattr(compiled, "enable_sdma", False) is True


def core_program(compiled: CompiledProgram) -> _pypto.Program:
    """The verified program, made the first time."""
    key = id(compiled)
    known = _cache.get(key)
    if known is not None and known[0]() is compiled:
        return known[1]
    program = _pypto.Program(compiled.core_program())
    _cache[key] = (weakref.ref(compiled, lambda _: _cache.pop(key, None)), program)
    return program


def register(impl: _pypto.Worker, compiled: CompiledProgram, owner: Any, shown: Any) -> _pypto.RegistrationHandle:
    """Registers a program on an open device.

    Args:
        impl: The device.
        compiled: The program.
        owner: What the handle keeps alive.
        shown: What the handle shows as `compiled`.
    """
    return impl.register(
        core_program(compiled),
        owner=owner,
        compiled=shown,
        output_indices=list(compiled.output_indices),
        has_return=compiled.has_return,
    )
