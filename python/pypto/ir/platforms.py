"""Platforms and code generation backends."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pypto import failures


class BackendType(Enum):
    """The chip family that a program is compiled for."""

    Ascend910B = "Ascend910B"
    Ascend950 = "Ascend950"


PLATFORMS: Final = {
    "a2a3": BackendType.Ascend910B,
    "a2a3sim": BackendType.Ascend910B,
    "a5": BackendType.Ascend950,
    "a5sim": BackendType.Ascend950,
}
"""Platforms by name; those that end in `sim` are simulated."""


def backend_of(platform: str) -> BackendType:
    """The backend of a platform; `ValueError` for an unknown one."""
    backend = PLATFORMS.get(platform)
    if backend is None:
        raise failures.UNKNOWN_PLATFORM(
            f"unknown platform {platform!r}; known are {', '.join(PLATFORMS)} (the simulated chip is 'a2a3sim')"
        )
    return backend


def simulator_of(backend: BackendType) -> str:
    """The simulated platform of a backend."""
    return "a2a3sim" if backend is BackendType.Ascend910B else "a5sim"
