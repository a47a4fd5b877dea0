"""Notices that a process gives once, by the logger of the part that gives them, at level `info`."""

from __future__ import annotations

import logging
import threading

SIMULATED = "its times are those of this machine's CPU, not of an Ascend chip."
"""What the times of a simulated device are."""

_given: set[str] = set()
_lock = threading.Lock()

logger = logging.getLogger("pypto.runtime.notices")
"""Says what a reader of times has to know."""


def simulated_device(platform: str) -> None:
    """Times of a simulated device are about to be shown."""
    if not platform.endswith("sim"):
        return
    with _lock:
        if platform in _given or not logger.isEnabledFor(logging.INFO):
            return
        _given.add(platform)
    logger.info("%s is a simulated device: %s", platform, SIMULATED)
