"""Operations of the language as operations of the core. Those that map one to one need no entry here."""

from __future__ import annotations

from pypto.ir.lower.ops import element, elementwise, gather, matmul, memory, reduce, transfer
from pypto.ir.lower.ops.base import Lowering, generic

LOWERINGS: dict[str, Lowering] = {}
"""By the name of the operation."""

for _family in (element, elementwise, gather, matmul, memory, reduce, transfer):
    LOWERINGS.update(_family.LOWERINGS)

__all__ = ["LOWERINGS", "Lowering", "generic"]
