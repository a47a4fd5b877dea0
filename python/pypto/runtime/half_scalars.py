"""16-bit floats as arguments: ctypes has no class for them, so that their bits arrive as `c_uint16`."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram


def from_bits(compiled: CompiledProgram, args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments, with the bits of FP16 and BF16 scalars as the numbers that they mean."""
    if len(args) != len(compiled.params):
        return tuple(args)  # the launch says what is missing
    return tuple(
        _number(arg.value, param.dtype.name) if isinstance(arg, ctypes.c_uint16) and param.shape is None else arg
        for arg, param in zip(args, compiled.params, strict=True)
    )


def _number(bits: int, dtype: str) -> Any:
    if dtype == "FP16":
        return struct.unpack("<e", bits.to_bytes(2, "little"))[0]
    if dtype == "BF16":  # the upper half of the FP32 number
        return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]
    return ctypes.c_uint16(bits)
