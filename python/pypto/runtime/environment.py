"""Environment variables that the runtime reads."""

from __future__ import annotations

import os

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
