"""Runs one case of the matrix on the simulated chip and compares it with its reference."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checking import schedules, worker
from interp.numbers import NUMPY, rounded
from operations import cases, cases_movement, cases_picking, cases_products
from operations.case import FLOATS, KINDS, UNSIGNED, Case, Shape, Sizes

import pypto.language as pl

CASES = [*cases.CASES, *cases_movement.CASES, *cases_picking.CASES, *cases_products.CASES]

SIZES = (1, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 129)
"""Columns: around the widths of vectors. The rows are another of them."""


def shapes(count: int, seed: int) -> Iterator[Shape]:
    """`count` different shapes; every size of columns occurs as soon as there are that many."""
    order = np.random.default_rng(seed)
    columns = itertools.cycle(order.permutation(SIZES).tolist())
    for _ in range(count):
        yield int(order.choice((1, 3, 8, 17))), next(columns)


def operand(case: Case, position: int, dtype: str, sizes: Sizes) -> tuple[np.ndarray, str]:
    """Elements that the dtype holds exactly, as it has them, and the dtype."""
    random = np.random.default_rng(position)
    kind = KINDS[case.operands[position]]
    own = kind.dtype or dtype
    if kind.make is not None:
        return kind.make(random, sizes, dtype), own
    return elements(random, case.domain, own, sizes.valid(case.operands[position])), own


def elements(random: np.random.Generator, domain: str, dtype: str, shape: Shape) -> np.ndarray:
    """Random elements of a domain."""
    unsigned = dtype in UNSIGNED
    if domain == "small":
        values = random.integers(0 if unsigned else -2, 3, shape).astype(np.float64)
    elif domain == "signs":
        values = random.choice([1.0, 1.0, 2.0] if unsigned else [1.0, -1.0], shape)
    elif domain == "ties":
        values = random.integers(0, 4, shape).astype(np.float64)
    elif domain == "count":
        values = random.integers(-2, 70, shape).astype(np.float64)
    elif dtype not in FLOATS:
        info = np.iinfo(NUMPY[dtype])
        values = random.integers(info.min, info.max, shape, NUMPY[dtype], endpoint=True)
        small = random.integers(0, 10, shape).astype(NUMPY[dtype])
        return np.where(random.random(shape) < 0.5, values, small)
    elif domain == "angle":
        values = random.standard_normal(shape) * random.choice(
            [1.0, 100.0, 1e4, 3e8] if dtype == "FP32" else [1.0, 100.0], shape
        )
    else:
        values = random.standard_normal(shape) * random.choice([1e-3, 1.0, 30.0], shape)
        if domain == "positive":
            values = np.abs(values) + 1e-6
        elif domain == "any":
            values = np.where(random.random(shape) < 0.1, random.choice([0.0, 1.0, -1.0, 3.0], shape), values)
    return rounded(values, getattr(pl, dtype))


def to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    """What a launch takes; BF16 values live in FP32 arrays."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(torch.bfloat16) if dtype == "BF16" else tensor


def from_torch(tensor: torch.Tensor) -> np.ndarray:
    """The other way."""
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


def source_of(case: Case, dtype: str, sizes: Sizes) -> str:
    """A kernel of the case."""
    params, lines, names = [], [], []
    for position, kind in enumerate(case.operands):
        names.append(f"t{position}")
        valid, box = list(sizes.valid(kind)), list(sizes.box(kind))
        params.append(f"x{position}: pl.Tensor[{valid}, pl.{KINDS[kind].dtype or dtype}]")
        inside = "" if valid == box else f", valid_shape={valid}"
        lines.append(f"    t{position} = pl.load(x{position}, [0, 0], {box}{inside})")
    params.append(f"out: pl.Out[pl.Tensor[{list(out_shape(case, sizes))}, pl.{case.result or dtype}]]")
    words = {f"x{position}": f"x{position}" for position in range(len(names))}
    words |= {"R": sizes.box_rows, "C": sizes.box_cols, "r": sizes.rows, "c": sizes.cols, "dtype": dtype}
    *statements, value = case.call.format(*names, **words).split("\n")
    lines += [f"    {statement}" for statement in statements]
    if value != "None":
        lines.append(f"    out = pl.store({value}, [0, 0], out)")
    head = ["import pypto.language as pl", "", "", "@pl.jit.incore", f"def kernel({', '.join(params)}):"]
    return "\n".join([*head, *lines, "    return out", ""])


def out_shape(case: Case, sizes: Sizes) -> Shape:
    """The shape of what a kernel of the case writes."""
    return sizes.box(case.out) if case.whole_box else sizes.valid(case.out)


def kernel_of(text: str, path: Path) -> Any:
    """The kernel of a file with this text."""
    path.write_text(text)
    scope: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), scope)
    return scope["kernel"]


def launch(kernel: Any, *args: torch.Tensor, schedule: int = 0) -> None:
    """Runs a kernel on the simulated chip, and again under one of the random schedules, which writes the same bits."""
    compiled = kernel.compile(*args)
    again = [arg.clone() for arg in args]
    worker().run(compiled, *args)
    others = schedules()
    others[schedule % len(others)].run(compiled, *again)
    for have, want in zip(again, args, strict=True):
        assert torch.equal(have.view(torch.uint8), want.view(torch.uint8)), f"another result under schedule {schedule}"


def check(case: Case, dtype: str, shape: Shape, partial: bool, directory: Path) -> None:
    """Compares the device with the reference. Partly valid operands sit in a box that is larger by rows and columns."""
    sizes = Sizes(*shape, shape[0] + 2, shape[1] + 5) if partial else Sizes(*shape, *shape)
    operands = [operand(case, position, dtype, sizes) for position in range(len(case.operands))]
    text = source_of(case, dtype, sizes)
    kernel = kernel_of(text, directory / f"kernel_{abs(hash((text, str(directory))))}.py")
    result = case.result or dtype
    out = to_torch(np.zeros(out_shape(case, sizes), NUMPY[result]), result)
    launch(kernel, *(to_torch(array, own) for array, own in operands), out, schedule=zlib.crc32(text.encode()))
    with np.errstate(all="ignore"):
        exact = [array.astype(np.float64 if own in FLOATS else np.int64) for array, own in operands]
        expected = rounded(case.expected(sizes, exact), getattr(pl, result))
    compare(from_torch(out), expected, result, case.ulp, text)


def compare(have: np.ndarray, want: np.ndarray, dtype: str, ulp: int, text: str) -> None:
    """Equal bit by bit (zeros of both signs, and every NaN, are one), or FP32 within `ulp` units of the last place.

    Functions of 16-bit floats are rounded once, which makes them exact here.
    """
    assert have.shape == want.shape, f"{have.shape}, not {want.shape}\n{text}"
    distance = ulps(have, want, dtype)
    ulp = ulp if dtype == "FP32" else 0
    if distance.size and distance.max() > ulp:
        place = np.unravel_index(int(np.argmax(distance)), have.shape)
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
