"""What the language itself raises: only ever because kernel code was run as plain Python."""

from __future__ import annotations

from typing import NoReturn


class OutsideKernelError(RuntimeError):
    """A name that only means something inside a kernel was called as plain Python."""


def outside_kernel(name: str) -> NoReturn:
    """Raises the error for `name` (as the author spells it)."""
    raise OutsideKernelError(
        f"{name} only has a meaning inside a kernel: kernels are read from their source and never executed by Python. "
        f"Put it into a function decorated with @pl.jit (or @pl.function in a @pl.program class) and call that."
    )
