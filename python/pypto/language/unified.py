"""The operations of `pl` itself, which work on tensors and tiles alike. The names come from `pypto.language.ops`."""

from __future__ import annotations

from typing import Any

from pypto.language.ops import FORMS
from pypto.language.stubs import lookup

__all__ = sorted(FORMS["pl"])


def __getattr__(name: str) -> Any:
    return lookup("pl", name, globals())


def __dir__() -> list[str]:
    return list(__all__)
