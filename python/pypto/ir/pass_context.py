"""`PassContext`: settings of compilation for everything that is compiled inside a `with` block."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from pypto import failures

if TYPE_CHECKING:
    from typing_extensions import Self

_ACTIVE: Final[ContextVar[tuple[PassContext, ...]]] = ContextVar("pypto_pass_contexts", default=())

_SETTINGS: Final = ("verification_level", "diagnostic_phase", "disabled_diagnostics", "memory_planner", "runtime")
"""What belongs to the context while one is active, and to the arguments of `ir.compile` otherwise."""


class PassContext:
    """Settings of compilation. `with PassContext(...)` makes it the one that `ir.compile` follows, in this context.

    Contexts nest; the innermost counts, as a whole.

    Args:
        instruments: None: this version calls nobody between passes.
        verification_level: How much is verified.
        diagnostic_phase: When warnings are computed.
        disabled_diagnostics: Warnings to leave out.
        memory_planner: Who places tiles on the real chip.
        runtime: The kind of runtime to build for.

    Raises:
        NotImplementedError: There are instruments.
    """

    def __init__(
        self,
        instruments: Iterable[Any] = (),
        verification_level: Any = None,
        diagnostic_phase: Any = None,
        disabled_diagnostics: Any = None,
        memory_planner: Any = None,
        runtime: Any = None,
    ) -> None:
        if list(instruments):
            raise failures.NOT_SUPPORTED(
                "instruments of a PassContext are not supported in this version: with dump_passes=True ir.compile "
                "writes the program after each pass"
            )
        self.verification_level = verification_level
        self.diagnostic_phase = diagnostic_phase
        self.disabled_diagnostics = disabled_diagnostics
        self.memory_planner = memory_planner
        self.runtime = runtime
        self._tokens: list[Token[tuple[PassContext, ...]]] = []

    @staticmethod
    def current() -> PassContext | None:
        """The innermost active context."""
        active = _ACTIVE.get()
        return active[-1] if active else None

    def __enter__(self) -> Self:
        """Makes it the innermost context."""
        self._tokens.append(_ACTIVE.set((*_ACTIVE.get(), self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives way to the context around it."""
        _ACTIVE.reset(self._tokens.pop())


def resolve(**given: Any) -> dict[str, Any]:
    """The settings of one compilation: those of the active context, or what `ir.compile` was given.

    Raises:
        RuntimeError: Both say something.
    """
    context = PassContext.current()
    if context is None:
        return given
    both = [name for name in _SETTINGS if given[name] is not None]
    if both:
        raise failures.PASS_CONTEXT(
            f"{', '.join(both)} given to ir.compile() while a PassContext is active: "
            f"set it on the existing PassContext({both[0]}=...)"
        )
    return {name: getattr(context, name) for name in _SETTINGS}
