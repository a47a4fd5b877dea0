"""Passes: from the program that was written to one that the device's core can take."""

from __future__ import annotations

from pypto.ir.passes.outline import outline

__all__ = ["outline"]
