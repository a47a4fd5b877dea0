"""`pl.tensor`. Operations on tensors: device memory, or on-chip values in kernels. Names: `pypto.language.ops`."""

from __future__ import annotations

from typing import Any

from pypto.language.enums import MaskPattern
from pypto.language.ops import FORMS
from pypto.language.stubs import lookup

__all__ = ["MaskPattern", *sorted(FORMS["tensor"])]


def __getattr__(name: str) -> Any:
    return lookup("tensor", name, globals())


def __dir__() -> list[str]:
    return list(__all__)
