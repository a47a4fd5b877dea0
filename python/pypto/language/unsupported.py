"""Names of the language that exist, so that imports resolve, and are refused where a kernel uses them."""

from __future__ import annotations


class PrefetchAsyncContext:
    """Type of a prefetch context."""


class AsyncEvent:
    """Type of a prefetch event."""


class AsyncSession:
    """Type of a prefetch session."""


class adir:
    """Directions of call arguments, for programs that state them: hints on this device."""

    input = "input"
    output = "output"
    output_existing = "output_existing"
    inout = "inout"
    no_dep = "no_dep"
    scalar = "scalar"
