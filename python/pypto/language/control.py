"""Iterators, yields and the other control constructs. They mean something to the frontend; running them explains."""

from __future__ import annotations

from typing import Any

from pypto.language.errors import outside_kernel
from pypto.language.stubs import construct


class RangeIterator:
    """What a loop runs over. Kernels spell it `pl.range`, `pl.parallel`, `pl.unroll` or `pl.pipeline`."""

    def __init__(
        self, stop: Any, start: Any = 0, step: Any = 1, init_values: Any = None, pipeline_stages: Any = None
    ) -> None:
        outside_kernel("pl.RangeIterator")


class WhileIterator:
    """What a `while_` loop runs over."""

    def __init__(self, *, init_values: Any = None) -> None:
        outside_kernel("pl.WhileIterator")


@construct("range")
def range(*args: Any, init_values: Any = None, attrs: Any = None) -> Any:
    """A sequential loop: `for i in pl.range(stop)`, `pl.range(start, stop)` or `pl.range(start, stop, step)`.

    Args:
        *args: The bounds, integer constants or scalars of run time. The step is not 0.
        init_values: Values that the loop carries: `for i, (acc,) in pl.range(n, init_values=(acc,))` with `pl.yield_`.
        attrs: Hints for the real chip.
    """
    outside_kernel("pl.range")


@construct("parallel")
def parallel(*args: Any, init_values: Any = None, attrs: Any = None) -> Any:
    """A loop whose iterations are independent of each other: tasks in it may run at once.

    Args:
        *args: The bounds, as of `pl.range`.
        init_values: As of `pl.range`.
        attrs: Hints for the real chip.
    """
    outside_kernel("pl.parallel")


@construct("unroll")
def unroll(*args: Any) -> Any:
    """A loop with constant bounds whose body is repeated with a constant index.

    Args:
        *args: The bounds, as of `pl.range`, all constant.
    """
    outside_kernel("pl.unroll")


@construct("pipeline")
def pipeline(*args: Any, stage: Any, init_values: Any = None) -> Any:
    """A loop as `pl.range`, which the real chip overlaps with itself.

    Args:
        *args: The bounds, as of `pl.range`.
        stage: How many iterations overlap; of no effect here.
        init_values: As of `pl.range`.
    """
    outside_kernel("pl.pipeline")


@construct("while_")
def while_(*, init_values: Any = None) -> Any:
    """A loop that runs while the condition of its first statement, `pl.cond(...)`, holds.

    Args:
        init_values: Values that the loop carries, as of `pl.range`.
    """
    outside_kernel("pl.while_")


@construct("yield_")
def yield_(*values: Any) -> Any:
    """Carries values to the next iteration, or out of the arms of an `if`.

    Args:
        *values: As many as the loop has `init_values`, in their order; the names on the left have the final ones.
    """
    outside_kernel("pl.yield_")


@construct("cond")
def cond(condition: Any) -> Any:
    """The `condition` of a `pl.while_` loop, a scalar; its first statement."""
    outside_kernel("pl.cond")


@construct("const")
def const(value: Any, dtype: Any) -> Any:
    """The number `value` as a scalar of `dtype`."""
    outside_kernel("pl.const")


@construct("min")
def min(lhs: Any, rhs: Any) -> Any:
    """The smaller of the scalars `lhs` and `rhs` (element by element: `pl.minimum`)."""
    outside_kernel("pl.min")


@construct("max")
def max(lhs: Any, rhs: Any) -> Any:
    """The larger of the scalars `lhs` and `rhs` (element by element: `pl.maximum`)."""
    outside_kernel("pl.max")


@construct("static_print")
def static_print(*args: Any) -> None:
    """Prints `*args` while the kernel is compiled: strings, constants, and the types of values."""
    outside_kernel("pl.static_print")


@construct("static_assert")
def static_assert(condition: Any, msg: str = "") -> None:
    """Fails the compilation with the text `msg` where `condition` is a constant that is false."""
    outside_kernel("pl.static_assert")


@construct("func_attr")
def func_attr(attrs: Any) -> None:
    """Attributes of the function, the mapping `attrs`: hints for the real chip. Only as its first statement."""
    outside_kernel("pl.func_attr")
