"""Errors of code generation, under their public path."""

from __future__ import annotations

from pypto.ir.diagnostics import PartialCodegenError

__all__ = ["PartialCodegenError"]
