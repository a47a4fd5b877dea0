"""Names of PyPTO's debugging helpers."""

from __future__ import annotations

from pypto.debug.torch_codegen import torch_codegen

__all__ = ["torch_codegen"]
