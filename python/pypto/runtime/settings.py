"""Checks of settings: each says the name of the setting, what it may be, and what it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from pypto import failures

_RINGS = 4
_DEVICE_ID_MAX = 2**31 - 1


def is_int(value: object) -> TypeGuard[int]:
    """Whether it is an int; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_int(name: str, value: object) -> None:
    """Refuses what is no int.

    Raises:
        TypeError: It is none.
    """
    if not is_int(value):
        raise failures.SETTING_TYPE(f"{name} must be an int, got {value!r}")


def check_device_id(device_id: int) -> None:
    """Refuses a number that no device can have.

    Raises:
        TypeError: It is no int.
        ValueError: It is negative, or more than 32 bits hold.
    """
    check_int("device_id", device_id)
    if not 0 <= device_id <= _DEVICE_ID_MAX:
        raise failures.SETTING_VALUE(f"device_id must be from 0 to {_DEVICE_ID_MAX}, got {device_id}")


def check_aicpu_threads(threads: object) -> None:
    """Refuses a number of scheduler threads that no device can have; None leaves the choice to others.

    Raises:
        ValueError: It is no positive int.
    """
    if threads is not None and not (is_int(threads) and threads > 0):
        raise failures.SETTING_VALUE(f"aicpu_thread_num must be a positive int or None, got {threads!r}")


def check_range(name: str, value: object, most: int, unit: str) -> None:
    """Refuses a number that is not from 1 to `most`; None is none.

    Raises:
        ValueError: It is another number, or no int.
    """
    if value is not None and not (is_int(value) and 0 < value <= most):
        raise failures.SETTING_VALUE(f"{name} must be a positive number of {unit}, at most {most}, got {value!r}")


def check_share(name: str, value: object) -> None:
    """Refuses what is no bool and no number from 0 to 1.

    Raises:
        TypeError: It is no number.
        ValueError: It is another number.
    """
    if not isinstance(value, (bool, int, float)):
        raise failures.SETTING_TYPE(f"{name} must be True, False or a share from 0 to 1, got {value!r}")
    if not 0 <= value <= 1:
        raise failures.SETTING_VALUE(f"{name} must be True, False or a share from 0 to 1, got {value!r}")


LARGEST_SEED = 2**64 - 1
"""The largest `schedule_seed`."""


def check_seed(name: str, value: object) -> None:
    """Refuses what is neither None nor a number of 64 bits.

    Raises:
        ValueError: It is something else.
    """
    if value is not None and not (is_int(value) and 0 <= value <= LARGEST_SEED):
        raise failures.SETTING_VALUE(f"{name} must be an int from 0 to 2**64 - 1 or None, got {value!r}")


def check_instance(name: str, value: object, kind: type, what: str) -> None:
    """Refuses an object that is neither None nor of a class.

    Raises:
        TypeError: It is of another class.
    """
    if value is not None and not isinstance(value, kind):
        raise failures.SETTING_TYPE(f"{name} must be {what} or None, got {value!r}")


def check_path(name: str, value: object) -> None:
    """Refuses what is neither None nor a path.

    Raises:
        TypeError: It is something else.
    """
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise failures.SETTING_TYPE(f"{name} must be a path or None, got {value!r}")


def switch(name: str, value: Any) -> bool:
    """A truth value; 0 and 1 are two.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise failures.SETTING_TYPE(f"{name} must be True or False, got {value!r}")


def level(name: str, value: object, most: int, when_true: int) -> int:
    """A level from 0 to `most`; True is `when_true`.

    Raises:
        TypeError: It is no int.
        ValueError: It is out of range.
    """
    if isinstance(value, bool):
        return when_true if value else 0
    if not isinstance(value, int):
        raise failures.SETTING_TYPE(f"{name} must be an int from 0 to {most}, got {value!r}")
    if not 0 <= value <= most:
        raise failures.SETTING_VALUE(f"{name} must be from 0 to {most}, got {value}")
    return value


@dataclass(frozen=True)
class RingRule:
    """What one ring may be set to."""

    holds: Callable[[int], bool]
    text: str


def power_of_two(least: int) -> RingRule:
    """Powers of two from `least` on."""
    return RingRule(lambda value: value >= least and value & (value - 1) == 0, f"a power of two, at least {least}")


def between(least: int, most: int) -> RingRule:
    """Numbers from `least` to `most`."""
    return RingRule(lambda value: least <= value <= most, f"from {least} to {most}")


def ring(name: str, value: Any, rule: RingRule) -> int | list[int] | None:
    """A ring setting: one number for all rings, or one for each, 0 for the default of that ring.

    Raises:
        ValueError: A number breaks the rule, or there are not exactly four.
    """
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        if len(value) != _RINGS:
            raise failures.SETTING_VALUE(f"{name} must have exactly {_RINGS} entries, got {len(value)}")
        if not all(is_int(entry) and (entry == 0 or rule.holds(entry)) for entry in value):
            raise failures.SETTING_VALUE(f"each entry of {name} must be 0 or {rule.text}, got {value!r}")
        return list(value)
    if not is_int(value) or not rule.holds(value):
        raise failures.SETTING_VALUE(f"{name} must be {rule.text}, got {value!r}")
    return value
