"""Conversions between element types, along the pairs that the chip converts itself."""

from __future__ import annotations

import struct
from typing import Final

from pypto.language.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, INT64, UINT8, DataType

NATIVE: Final[dict[DataType, tuple[DataType, ...]]] = {
    BF16: (FP32, INT32),
    FP16: (FP32, INT32, INT16, INT8, UINT8),
    FP32: (INT32, BF16, FP16, INT16, INT64),
    INT16: (FP32, FP16),
    INT32: (FP32, FP16, INT16, INT64),
    INT64: (FP32, INT32),
    INT8: (FP16,),
    UINT8: (FP16,),
}
"""What the 910B converts in one step. FP32 and INT32 stand first: of two chains of equal length the one that loses less
wins."""


def chain(source: DataType, target: DataType) -> tuple[DataType, ...] | None:
    """The types that a conversion passes through, the target last; `None` where no chain leads there."""
    seen: dict[DataType, tuple[DataType, ...]] = {source: ()}
    front = [source]
    while front and target not in seen:
        reached = [(step, hop) for step in front for hop in NATIVE.get(step, ())]
        front = []
        for step, hop in reached:
            if hop not in seen:
                seen[hop] = (*seen[step], hop)
                front.append(hop)
    return seen.get(target)


def reachable(source: DataType) -> list[DataType]:
    """The types that `source` converts to, by name."""
    found = [target for target in NATIVE if target is not source and chain(source, target) is not None]
    return sorted(found, key=lambda target: target.name)


def element(value: float, dtype: DataType) -> float:
    """A literal as an element of a float type: rounded to FP32, as literals are, and then to the type."""
    value = _packed(value, "f")
    if dtype is FP16:
        return _packed(value, "e")
    if dtype is not BF16 or value != value:
        return value
    bits = int.from_bytes(struct.pack("<f", value), "little")
    bits += 0x7FFF + (bits >> 16 & 1)  # nearest, ties to even; infinities stay what they are
    rounded: float = struct.unpack("<f", (bits & 0xFFFF0000).to_bytes(4, "little"))[0]
    return rounded


def _packed(value: float, format: str) -> float:
    try:
        packed: float = struct.unpack(format, struct.pack(format, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return packed
