"""How much the runtime says, and whether launches print their spans.

Levels are those of PyPTO: `debug` 10, `info` 20, `timing` 25, `warn` 30, `error` 40, `null` 60. Where PyPTO starts at
`timing`, this runtime starts at `warn`: spans are kept in memory for `benchmark`, and printing them as `[STRACE]` lines
on standard error is an export that is asked for.
"""

from __future__ import annotations

import logging
import os

from pypto import _pypto, environment

LEVELS = {"debug": 10, "info": 20, "timing": 25, "warn": 30, "error": 40, "null": 60}
"""Names of levels."""

TIMING = LEVELS["timing"]
"""The highest threshold at which spans are printed."""

_DEFAULT = LEVELS["warn"]
_level = _DEFAULT

_PYPTO_LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40, "none": 60}
"""Levels of the logger of the whole package, which `PYPTO_LOG_LEVEL` names."""

logger = logging.getLogger("pypto.runtime")
"""Parent of the runtime's loggers."""


def configure_log(level: str | int, *, sync_pypto: bool = False) -> None:
    """Sets the level of the runtime.

    At `timing` and below, each launch prints its spans as `[STRACE]` lines on standard error.

    Args:
        level: A name of `LEVELS` (an unknown one counts as `timing`), or a number.
        sync_pypto: Set the level of the `pypto` logger too.
    """
    global _level
    _level = LEVELS.get(level.lower(), TIMING) if isinstance(level, str) else int(level)
    _pypto.mirror_trace(_level <= TIMING, device_spans=environment.flag("SIMPLER_DEVICE_STRACE_ENABLE", True))
    logger.setLevel(_level)
    if sync_pypto:
        logging.getLogger("pypto").setLevel(_level)


def current_level() -> int:
    """The level that is set."""
    return _level


def apply_environment() -> None:
    """Follows `PYPTO_RUNTIME_LOG`, `PYPTO_RUNTIME_LOG_SYNC` and `PYPTO_LOG_LEVEL`. Importing `pypto.runtime` calls it.

    Raises:
        ValueError: One of the last two has a value that it cannot have.
    """
    own = environment.choice("PYPTO_LOG_LEVEL", _PYPTO_LEVELS)
    if own is not None:
        logging.getLogger("pypto").setLevel(_PYPTO_LEVELS[own])
    value = os.environ.get("PYPTO_RUNTIME_LOG", "").strip()
    if value:
        level = int(value) if value.lstrip("-").isdigit() else value
        configure_log(level, sync_pypto=environment.flag("PYPTO_RUNTIME_LOG_SYNC", False))
