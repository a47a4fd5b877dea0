"""How much the runtime says, and whether launches print their spans.

Levels are those of PyPTO: `debug` 10, `info` 20, `timing` 25, `warn` 30, `error` 40, `null` 60. Where PyPTO starts at
`timing`, this runtime starts at `warn`: spans are kept in memory for `benchmark`, and printing them as `[STRACE]` lines
on standard error is an export that is asked for.

Everything is said by loggers below `pypto`. A program that configures `logging` decides where that goes; in one that
does not, a handler of this module prints it on standard error.
"""

from __future__ import annotations

import logging
import os
import sys

from pypto import _pypto, environment

LEVELS = {"debug": 10, "info": 20, "timing": 25, "warn": 30, "error": 40, "null": 60}
"""Names of levels."""

TIMING = LEVELS["timing"]
"""The highest threshold at which spans are printed."""

_DEFAULT = LEVELS["warn"]
_level = _DEFAULT

_SILENT = LEVELS["null"]
_PYPTO_LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40, "none": _SILENT}
"""Levels of the logger of the whole package, which `PYPTO_LOG_LEVEL` names."""

_PACKAGE = logging.getLogger("pypto")

logger = logging.getLogger("pypto.runtime")
"""Parent of the runtime's loggers."""


class _Fallback(logging.StreamHandler):  # type: ignore[type-arg]
    """Prints on standard error while the program itself has no handler for it.

    Python's own fallback (`logging.lastResort`) ignores everything below a warning, so that `configure_log("info")`
    would print nothing in a plain script.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Prints the record, unless another handler gets it too."""
        if sys.stderr is not None and not self._others(record.name):
            self.stream = sys.stderr  # what it is now: tests and notebooks replace it
            super().emit(record)

    def _others(self, name: str) -> bool:
        at: logging.Logger | None = logging.getLogger(name)
        while at is not None:
            if any(handler is not self for handler in at.handlers):
                return True
            at = at.parent if at.propagate else None
        return False


_PACKAGE.addHandler(_Fallback())


def configure_log(level: str | int, *, sync_pypto: bool = False) -> None:
    """Sets the level of the runtime.

    At `timing` and below, each launch prints its spans as `[STRACE]` lines on standard error.

    Args:
        level: A name of `LEVELS` (an unknown one counts as `timing`), or a number.
        sync_pypto: Set the level of the `pypto` logger too: the next of debug, info, warn and error that is not below,
            beyond those nothing is said.

    Raises:
        ValueError: The environment variable `SIMPLER_DEVICE_STRACE_ENABLE` is neither on nor off.
    """
    global _level
    _level = LEVELS.get(level.lower(), TIMING) if isinstance(level, str) else int(level)
    _pypto.mirror_trace(_level <= TIMING, device_spans=environment.flag("SIMPLER_DEVICE_STRACE_ENABLE", True))
    logger.setLevel(_level)
    if sync_pypto:
        _PACKAGE.setLevel(next(level for level in _PYPTO_LEVELS.values() if _level <= level or level == _SILENT))


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
        _PACKAGE.setLevel(_PYPTO_LEVELS[own])
    value = os.environ.get("PYPTO_RUNTIME_LOG", "").strip()
    if value:
        level = int(value) if value.lstrip("-").isdigit() else value
        configure_log(level, sync_pypto=environment.flag("PYPTO_RUNTIME_LOG_SYNC", False))
