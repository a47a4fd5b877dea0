"""Code generation backends, by the chip family that they serve."""

from __future__ import annotations

from pypto.ir.platforms import BackendType


def set_backend_type(backend_type: BackendType) -> None:
    """Accepted for compatibility. One process may compile for any platform, in any order: nothing is locked."""
    if not isinstance(backend_type, BackendType):
        raise TypeError(f"set_backend_type takes a BackendType, got {backend_type!r}")


def reset_for_testing() -> None:
    """Accepted for compatibility: there is no process-wide backend to reset."""


__all__ = ["BackendType", "reset_for_testing", "set_backend_type"]
