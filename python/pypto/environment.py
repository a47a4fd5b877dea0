"""Environment variables, read strictly: what is neither a value nor empty is an error, not a default."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pypto import failures

_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")


def flag(name: str, default: bool) -> bool:
    """A variable that switches something; `default` where it is not set or empty.

    Raises:
        ValueError: It is set to something else than a switch can be. Taking that for "off" would hide a typing error.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if text.lower() in _ON:
        return True
    if text.lower() in _OFF:
        return False
    raise failures.BAD_SWITCH(
        f"{name}={text!r} is no switch; use one of {', '.join(_ON)}, or of {', '.join(_OFF)}, or unset it"
    )


def choice(name: str, names: Iterable[str]) -> str | None:
    """A variable that is one of several names, in any case of letters; None where it is not set or empty.

    Raises:
        ValueError: It is none of them.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    found = {known.lower(): known for known in names}
    if text.lower() not in found:
        raise failures.BAD_SWITCH(f"{name}={text!r} is none of {', '.join(found)}; use one of these, or unset it")
    return found[text.lower()]


def number(name: str, largest: int, option: str = "") -> int | None:
    """A variable that is a number from 0 to `largest`; None where it is not set or empty.

    Args:
        name: The variable.
        largest: The largest number.
        option: What the user wrote, for the message, where an option has set the variable.

    Raises:
        ValueError: It is something else.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > largest:
        cure = "use one" if option else "use one, or unset it"
        raise failures.BAD_SWITCH(f"{option or name}={text!r} is no number from 0 to {largest}; {cure}")
    return int(text)
