"""The chip's test modes: options of pytest that become environment variables for the time of the run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pypto import environment
from pypto.runtime import sanitizers, settings


def apply(config: pytest.Config, wanted: Mapping[str, str]) -> None:
    """Sets the variables until pytest ends.

    Raises:
        pytest.UsageError: A value is none that the variable can have.
    """
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for name, value in wanted.items():
        patch.setenv(name, value)
    try:
        environment.number("PYPTO_SCHEDULE_SEED", settings.LARGEST_SEED, "--pypto-schedule-seed")
        sanitizers.parse("--pypto-sanitize", wanted.get("PYPTO_SANITIZE", ""))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
