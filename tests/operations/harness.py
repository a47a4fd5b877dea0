"""Runs one case of the matrix on the simulated chip and compares it with its reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checking import worker
from interp.numbers import NUMPY, rounded
from operations.cases import CASES, Case

import pypto.language as pl

SIZES = (1, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 129)
"""Columns: around the widths of vectors. The rows are another of them."""

Shape = tuple[int, int]


def shapes(count: int, seed: int) -> Iterator[Shape]:
    """`count` different shapes; every size of columns occurs as soon as there are that many."""
    order = np.random.default_rng(seed)
    columns = itertools.cycle(order.permutation(SIZES).tolist())
    for _ in range(count):
        yield int(order.choice((1, 3, 8, 17))), next(columns)


def operand(case: Case, dtype: str, shape: Shape, seed: int) -> np.ndarray:
    """Elements that the dtype holds exactly, as it has them, for the domain of the case."""
    random = np.random.default_rng(seed)
    kind = getattr(pl, dtype)
    if case.domain == "small":
        values = random.integers(0 if dtype in ("UINT8", "UINT16", "UINT32") else -2, 3, shape).astype(np.float64)
    elif case.domain == "signs":
        values = random.choice([1.0, 1.0, 2.0] if dtype.startswith("UINT") else [1.0, -1.0], shape)
    elif case.domain == "ties":
        values = random.integers(0, 4, shape).astype(np.float64)
    elif case.domain == "count":
        values = random.integers(-2, 70, shape).astype(np.float64)
    elif dtype.startswith(("INT", "UINT")):
        info = np.iinfo(NUMPY[dtype])
        values = random.integers(info.min, info.max, shape, NUMPY[dtype], endpoint=True)
        small = random.integers(0, 10, shape).astype(NUMPY[dtype])
        return np.where(random.random(shape) < 0.5, values, small)
    elif case.domain == "angle":
        values = random.standard_normal(shape) * random.choice(
            [1.0, 100.0, 1e4, 3e8] if dtype == "FP32" else [1.0, 100.0], shape
        )
    else:
        values = random.standard_normal(shape) * random.choice([1e-3, 1.0, 30.0], shape)
        if case.domain == "positive":
            values = np.abs(values) + 1e-6
        elif case.domain == "any":
            values = np.where(random.random(shape) < 0.1, random.choice([0.0, 1.0, -1.0, 3.0], shape), values)
    return rounded(values, kind)


def extents(kind: str, shape: Shape) -> Shape:
    """The shape of an operand or a result."""
    return {"full": shape, "col": (shape[0], 1), "row": (1, shape[1])}[kind]


def to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    """What a launch takes; BF16 values live in FP32 arrays."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(torch.bfloat16) if dtype == "BF16" else tensor


def from_torch(tensor: torch.Tensor) -> np.ndarray:
    """The other way."""
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


def source_of(case: Case, dtype: str, shape: Shape, partial: bool) -> str:
    """A kernel of the case. Partly valid operands sit in a box that is larger by a few rows and columns."""
    box = (shape[0] + 2, shape[1] + 5) if partial else shape
    result = case.result or dtype
    names = [f"x{position}" for position in range(len(case.operands))]
    params = [
        f"{name}: pl.Tensor[[{', '.join(map(str, extents(kind, shape)))}], pl.{dtype}]"
        for name, kind in zip(names, case.operands, strict=True)
    ]
    params.append(f"out: pl.Out[pl.Tensor[[{', '.join(map(str, extents(case.out, shape)))}], pl.{result}]]")
    lines = ["import pypto.language as pl", "", "", "@pl.jit.incore", f"def kernel({', '.join(params)}):"]
    for name, kind in zip(names, case.operands, strict=True):
        valid = f", valid_shape={list(extents(kind, shape))}" if partial else ""
        lines.append(f"    t{name} = pl.load({name}, [0, 0], {list(extents(kind, box))}{valid})")
    call = case.call.format(*(f"t{name}" for name in names))
    return "\n".join([*lines, f"    out = pl.store({call}, [0, 0], out)", "    return out", ""])


def kernel_of(text: str, path: Path) -> Any:
    """The kernel of a file with this text."""
    path.write_text(text)
    scope: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), scope)
    return scope["kernel"]


def launch(kernel: Any, *args: torch.Tensor) -> None:
    """One run of a kernel on the simulated chip."""
    worker().run(kernel.compile(*args), *args)


def check(case: Case, dtype: str, shape: Shape, partial: bool, directory: Path) -> None:
    """Compares the device with the reference."""
    seeds = range(len(case.operands))
    operands = [
        operand(case, dtype, extents(kind, shape), seed) for kind, seed in zip(case.operands, seeds, strict=True)
    ]
    text = source_of(case, dtype, shape, partial)
    kernel = kernel_of(text, directory / f"kernel_{abs(hash((text, str(directory))))}.py")
    result = case.result or dtype
    out = to_torch(np.zeros(extents(case.out, shape), NUMPY[result]), result)
    launch(kernel, *(to_torch(array, dtype) for array in operands), out)
    exact = np.float64 if dtype in ("FP32", "FP16", "BF16") else np.int64
    with np.errstate(all="ignore"):
        expected = rounded(case.reference(*(array.astype(exact) for array in operands)), getattr(pl, result))
    compare(from_torch(out), expected, result, case.ulp, text)


def compare(have: np.ndarray, want: np.ndarray, dtype: str, ulp: int, text: str) -> None:
    """Equal bit by bit (zeros of both signs, and every NaN, are one), or within `ulp` units of the last place.

    A function within 2 ULP in FP32 is within 1 after rounding to 16 bits: the error can only move it to a neighbour.
    """
    if ulp and dtype != "FP32":
        ulp = 1
    distance = ulps(have, want, dtype)
    worst = int(np.argmax(distance)) if distance.size else 0
    if distance.size and distance.reshape(-1)[worst] > ulp:
        place = np.unravel_index(worst, have.shape)
        raise AssertionError(
            f"{int((distance > ulp).sum())} of {have.size} differ; at {place} {have[place]!r}, not {want[place]!r}\n"
            f"{text}"
        )


def ulps(have: np.ndarray, want: np.ndarray, dtype: str) -> np.ndarray:
    """Distance in units of the last place of the dtype."""
    if dtype not in ("FP32", "FP16", "BF16"):
        return (have != want).astype(np.int64)
    both_nan = np.isnan(have) & np.isnan(want)
    signed = [_ordered(array, dtype) for array in (have, want)]
    return np.where(both_nan, 0, np.where(np.isnan(have) | np.isnan(want), 1 << 40, np.abs(signed[0] - signed[1])))


def _ordered(array: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as integers in the same order, neighbours one apart."""
    if dtype == "FP16":
        bits, top = array.view(np.int16).astype(np.int64), 1 << 15
    else:
        bits, top = array.view(np.int32).astype(np.int64), 1 << 31
    ordered = np.where(bits < 0, -(bits + top), bits)
    return ordered >> 16 if dtype == "BF16" else ordered


__all__ = ["CASES", "check", "compare", "from_torch", "kernel_of", "launch", "shapes", "to_torch"]
