"""From the source of decorated functions to IR. The language reaches this package by name; see `language.frontdoor`."""

from __future__ import annotations

from pypto.frontend.programs import build_function, build_program
from pypto.frontend.specialise import lower, specialise
from pypto.frontend.text import parse_function, parse_program

__all__ = ["build_function", "build_program", "lower", "parse_function", "parse_program", "specialise"]
