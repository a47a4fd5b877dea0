"""`pld.tile`. The names come from the table in `pypto.language.ops`."""

from __future__ import annotations

from typing import Any

from pypto.language.ops import FORMS
from pypto.language.stubs import lookup

__all__ = sorted(FORMS["pld_tile"])


def __getattr__(name: str) -> Any:
    return lookup("pld_tile", name, globals())


def __dir__() -> list[str]:
    return list(__all__)
