"""`pl.tile`. Operations on tiles: explicit on-chip values. The names come from the table in `pypto.language.ops`."""

from __future__ import annotations

from typing import Any

from pypto.language.enums import MaskPattern
from pypto.language.ops import FORMS
from pypto.language.stubs import lookup

__all__ = ["MaskPattern", *sorted(FORMS["tile"])]


def __getattr__(name: str) -> Any:
    return lookup("tile", name, globals())


def __dir__() -> list[str]:
    return list(__all__)
