"""Elements of every type as numpy arrays. BF16 values live in FP32 arrays, rounded."""

from __future__ import annotations

from typing import Any

import numpy as np

NUMPY = {
    "FP32": np.float32,
    "FP16": np.float16,
    "BF16": np.float32,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "BOOL": np.bool_,
}


def to_bf16(array: np.ndarray) -> np.ndarray:
    """Nearest BF16, ties to even, as FP32; rounded once."""
    array = np.asarray(array)
    with np.errstate(over="ignore", invalid="ignore"):
        single = array.astype(np.float32)
    bits = single.view(np.uint32)
    if array.dtype == np.float64:
        # What is the middle of two neighbours only after the first rounding goes to the side that it came from.
        middle = (bits & np.uint32(0xFFFF)) == 0x8000
        above = np.abs(array) > np.abs(single.astype(np.float64))
        below = np.abs(array) < np.abs(single.astype(np.float64))
        bits = (
            bits
            + np.where(middle & above, np.uint32(1), np.uint32(0))
            - np.where(middle & below, np.uint32(1), np.uint32(0))
        )
    nearest = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(single), single, nearest.view(np.float32))


def rounded(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array in an element type: floats to nearest even, integers wrap."""
    if dtype.name == "BF16":
        return to_bf16(array)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(array).astype(NUMPY[dtype.name])


def undefined(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Elements without a defined value."""
    if dtype.is_float:
        return np.full(shape, np.nan, NUMPY[dtype.name])
    return np.full(shape, True if dtype.is_bool else 77, NUMPY[dtype.name])


def wide(value: Any, dtype: Any) -> np.ndarray:
    """For exact or nearly exact arithmetic: FP64 or INT64."""
    return np.asarray(value, np.float64 if dtype.is_float else np.int64)


def to_bytes(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The bytes of a row-major array."""
    if dtype.name == "BF16":
        array = (np.ascontiguousarray(array).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def from_bytes(raw: np.ndarray, dtype: Any) -> np.ndarray:
    """The elements that bytes hold."""
    raw = np.ascontiguousarray(raw)
    if dtype.name == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw.view(NUMPY[dtype.name])


def to_int(value: np.ndarray, mode: str) -> np.ndarray:
    """Float to whole numbers in one of the rounding modes."""
    return {
        "none": np.trunc,
        "trunc": np.trunc,
        "rint": np.rint,
        "floor": np.floor,
        "ceil": np.ceil,
        "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
        "odd": _to_odd,
    }[mode](value.astype(np.float64))


def _to_odd(value: np.ndarray) -> np.ndarray:
    down = np.trunc(value)
    return np.where((down != value) & (down % 2 == 0), down + np.copysign(1, value), down)


def saturated(value: np.ndarray, dtype: Any) -> np.ndarray:
    """Whole numbers in FP64 as integers: out of range gives the nearest limit, NaN gives 0."""
    info = np.iinfo(NUMPY[dtype.name])
    value = np.where(np.isnan(value), 0, value)
    inside = (value > info.min) & (value < float(info.max))
    whole = np.where(inside, value, 0).astype(NUMPY[dtype.name])
    limit = np.where(value < 0, info.min, info.max).astype(NUMPY[dtype.name])
    return np.where(inside, whole, np.where((value == 0), 0, limit)).astype(NUMPY[dtype.name])
