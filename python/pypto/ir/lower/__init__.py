"""Lowering: from IR to the plain data that the device's core takes (dicts, lists, numbers, strings)."""

from __future__ import annotations

from pypto.ir.lower.program import lower

__all__ = ["lower"]
