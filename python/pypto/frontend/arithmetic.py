"""Arithmetic of Python's own on constants: in annotations, and in calls such as `math.sqrt(HEAD_DIM)`.

Everything here is pure, takes numbers of 64 bits, and is quick: nothing of a kernel's source is ever executed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

MAX_EXPONENT: Final = 64
"""Exponents and shifts: no greater one gives an integer of 64 bits."""


def _power(a: Any, b: Any) -> Any:
    if abs(b) > MAX_EXPONENT or not is_number(a):
        raise ValueError(f"{a}**{b} is no number of 64 bits")
    return a**b


def _shifted(shift: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def apply(a: int, b: int) -> int:
        if b > MAX_EXPONENT or not is_number(a):
            raise ValueError(f"shifting {a} by {b} gives no number of 64 bits")
        return shift(a, b)

    return apply


OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: _power,
    ast.LShift: _shifted(operator.lshift),
    ast.RShift: _shifted(operator.rshift),
}

_FUNCTIONS: Final = (
    *(abs, bool, float, int, len, max, min, round, sum),
    *(math.ceil, math.exp, math.fabs, math.floor, math.gcd, math.isqrt, math.lcm, math.log, math.log2, math.log10),
    *(math.prod, math.sqrt, math.trunc),
)


def is_pure(function: Any) -> bool:
    """Whether a function calculates with constants and does nothing else."""
    return any(function is known for known in _FUNCTIONS)


def is_number(value: Any) -> bool:
    """Whether a value is a number that a kernel can have: its integers have 64 bits."""
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= MAX_EXPONENT)


def called(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """What a pure function gives for numbers, and for tuples of them.

    Raises `TypeError`, `ValueError`, `OverflowError` or `ArithmeticError` as Python does, and `ValueError` for integers
    of more than 64 bits.
    """
    for argument in arguments:
        if not all(map(is_number, argument if isinstance(argument, (tuple, list)) else (argument,))):
            raise TypeError("it calculates with something that is no number of 64 bits")
    result = function(*arguments)
    if not is_number(result):
        raise ValueError(f"{result} is no number of 64 bits")
    return result
