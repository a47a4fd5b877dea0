"""Conversions between element types: every pair that the chip has, in every mode, on every value that matters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from checking import empty, run
from interp.numbers import NUMPY, rounded
from operations.cases_movement import converted
from operations.harness import compare, from_torch, kernel_of, launch, to_torch
from operations.test_matrix import AVAILABLE

import pypto.language as pl
from pypto.frontend.rules.convert import NATIVE, chain
from pypto.ir import KernelTypeError

MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
DTYPES = [dtype.name for dtype in NATIVE]


CHUNK = 8192
"""Elements that a kernel converts at a time: the chip has no room for more of them in two types."""


def source(have: str, want: str, mode: str, count: int) -> str:
    """A kernel that converts one row."""
    chunk = min(count, CHUNK)
    return f"""import pypto.language as pl

@pl.jit.incore
def kernel(x: pl.Tensor[[1, {count}], pl.{have}], out: pl.Out[pl.Tensor[[1, {count}], pl.{want}]]):
    for i in pl.range(0, {count}, {chunk}):
        part = pl.load(x, [0, i], [1, {chunk}], valid_shape=[1, pl.min({count} - i, {chunk})])
        out = pl.store(pl.cast(part, pl.{want}, mode="{mode}"), [0, i], out)
    return out
"""


def convert(values: np.ndarray, have: str, want: str, mode: str, path) -> np.ndarray:
    """What the device makes of a row of values."""
    text = source(have, want, mode, values.size)
    out = to_torch(np.zeros((1, values.size), NUMPY[want]), want)
    launch(kernel_of(text, path / f"{have}_{want}_{mode}.py"), to_torch(values.reshape(1, -1), have), out)
    return from_torch(out)[0]


def interesting(dtype: str) -> np.ndarray:
    """All values of up to 16 bits; of others those around every edge: zeros, halves, limits of narrower types."""
    kind = getattr(pl, dtype)
    if kind.bits <= 16:
        patterns = np.arange(1 << kind.bits, dtype=np.uint32).astype(f"uint{kind.bits}")
        return patterns.view(NUMPY[dtype]) if dtype != "BF16" else (patterns.astype(np.uint32) << 16).view(np.float32)
    random = np.random.default_rng(0)
    edges = [0, 0.5, 1, 1.5, 2.5, 3.5, 100.25, 126.5, 127, 127.5, 128, 254.5, 255, 255.5, 256, 2047, 2049, 32767]
    edges += [32767.5, 32768, 65504, 65519, 65520, 8388609, 16777217, 2147483520, 2147483648, 9e18, 1e-8, 6e-8, 1e30]
    if dtype.startswith(("INT", "UINT")):
        info = np.iinfo(NUMPY[dtype])
        spread = random.integers(info.min, info.max, 200, NUMPY[dtype], endpoint=True)
        inside = [int(edge) for edge in edges if info.min <= int(edge) <= info.max]
        return np.array(
            [*inside, *(-edge for edge in inside if -edge >= info.min), *spread, info.min, info.max], NUMPY[dtype]
        )
    spread = random.standard_normal(200) * random.choice([1, 30, 1e4, 1e9], 200)
    return rounded(np.array([*edges, *(-edge for edge in edges), *spread, np.inf, -np.inf, np.nan, -0.0]), kind)


PAIRS = [(have, want) for have in DTYPES for want in DTYPES if have != want]


@pytest.mark.parametrize(("have", "want"), PAIRS)
def test_every_reachable_pair_converts_hop_by_hop_in_every_mode(have: str, want: str, tmp_path, monkeypatch) -> None:
    values = interesting(have)
    first = DTYPES.index(have) + DTYPES.index(want)
    for turn, mode in enumerate(MODES if getattr(pl, have).is_float else ("round",), first):
        # All instruction sets take their turns: that each of them rounds right in each mode is tested in Rust.
        monkeypatch.setenv("PYPTO_ISA", AVAILABLE[turn % len(AVAILABLE)])
        result = convert(values, have, want, mode, tmp_path)
        compare(result, converted(values, have, want, mode), want, 0, f"{have} to {want}, {mode}")


@pytest.mark.parametrize("want", ["INT8", "UINT8", "INT16", "INT32", "INT64"])
def test_floats_beyond_an_integer_type_give_its_nearest_limit_and_nan_gives_0(want: str, tmp_path) -> None:
    values = np.array([-1e9, -70000, -300, 300, 70000, 1e9, np.inf, -np.inf, np.nan], np.float32)
    result = convert(values, "FP32", want, "rint", tmp_path)
    compare(result, converted(values, "FP32", want, "rint"), want, 0, want)


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_all_halves_become_fp32_unchanged(dtype: str, tmp_path) -> None:
    bits = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16)
    halves = bits.view(torch.float16 if dtype == "FP16" else torch.bfloat16).reshape(1, -1)
    out = torch.zeros(1, 65536)
    launch(kernel_of(source(dtype, "FP32", "rint", 65536), tmp_path / "k.py"), halves, out)
    wanted = halves.float()
    assert torch.equal(out.view(torch.int32)[~wanted.isnan()], wanted.view(torch.int32)[~wanted.isnan()])
    assert torch.equal(out.isnan(), wanted.isnan())


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_every_half_and_every_midpoint_between_two_rounds_to_nearest_even(dtype: str, tmp_path) -> None:
    """The midpoint of two neighbours, and the FP32 numbers just below and above it; modes change nothing."""
    kind = torch.float16 if dtype == "FP16" else torch.bfloat16
    bits = torch.arange(0, 0x7C00 if dtype == "FP16" else 0x7F80, dtype=torch.int32).to(torch.int16)
    lower = bits.view(kind).float()
    upper = torch.cat([lower[1:], torch.tensor([2.0**16 if dtype == "FP16" else float("inf")])])
    middle = ((lower.double() + upper.double()) / 2).float()
    if dtype == "BF16":
        middle[-1] = torch.tensor(0x7F7F8000, dtype=torch.int32).view(torch.float32)
    around = [lower, middle, torch.nextafter(middle, lower), torch.nextafter(middle, upper)]
    values = torch.cat([*around, *(-value for value in around)]).reshape(1, -1)
    for mode in ("round", "rint", "trunc"):
        text = source("FP32", dtype, mode, values.numel())
        out = torch.zeros(values.shape, dtype=kind)
        launch(kernel_of(text, tmp_path / f"{mode}.py"), values, out)
        assert torch.equal(out.view(torch.int16), values.to(kind).view(torch.int16))


@pl.jit.incore
def default_cast(x: pl.Tensor, out: pl.Out[pl.Tensor], narrow: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [1, 8])
    out = pl.store(pl.cast(t, pl.INT32), [0, 0], out)
    narrow = pl.store(pl.cast(t, pl.FP16), [0, 0], narrow)


def test_03_the_mode_acts_on_float_to_integer_only() -> None:
    x = np.array([[2.5, -2.5, 0.5, 1.4, 2049.0, 2051.0, -1.6, 3.5]], np.float32)
    _, out, narrow = run(default_cast, x, empty(1, 8, dtype=np.int32), empty(1, 8, dtype=np.float16))
    np.testing.assert_array_equal(out[0], [3, -3, 1, 1, 2049, 2051, -2, 4])
    np.testing.assert_array_equal(
        narrow[0], [2.5, -2.5, 0.5, x[0, 3].astype(np.float16), 2048, 2052, np.float16(-1.6), 3.5]
    )


@pl.jit.incore
def through_halves(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.cast(pl.load(x, [0, 0], [1, 4]), pl.INT8, mode="round"), [0, 0], out)


def test_04_fp32_to_int8_passes_through_fp16_and_rounds_twice() -> None:
    # 2.4999 is 2.5 in FP16, which rounds to 3, and -0.49999 is -0.5.
    x = np.array([[2.4999, 100.49, 126.98, -0.49999]], np.float32)
    _, out = run(through_halves, x, empty(1, 4, dtype=np.int8))
    np.testing.assert_array_equal(out, [[3, 101, 127, -1]])
    assert [dtype.name for dtype in chain(pl.BF16, pl.INT8)] == ["FP32", "FP16", "INT8"]
    assert [dtype.name for dtype in chain(pl.INT32, pl.BF16)] == ["FP32", "BF16"]
    assert [dtype.name for dtype in chain(pl.INT16, pl.INT32)] == ["FP32", "INT32"]


@pl.jit.incore
def unreachable(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.cast(pl.load(x, [0, 0], [1, 8]), pl.UINT32), [0, 0], out)


def test_a_pair_that_no_chain_connects_is_refused_with_what_there_is() -> None:
    with pytest.raises(KernelTypeError, match="no conversion from INT32 to UINT32, in any number of steps") as caught:
        unreachable.lower(empty(1, 8, dtype=np.int32), empty(1, 8, dtype=np.uint32))
    assert "INT32 converts to BF16, FP16, FP32, INT16, INT64, INT8, UINT8" in str(caught.value)
    assert "pl.reinterpret_view(x, pl.UINT32)" in str(caught.value)


@pl.jit.incore
def scalars(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    value = pl.read(x, [0, 0])
    pl.write(out, [0, 0], pl.cast(value, pl.INT32))
    pl.write(out, [0, 1], pl.cast(pl.cast(value, pl.UINT8), pl.INT32))


def test_a_cast_of_a_scalar_is_that_of_c() -> None:
    _, out = run(scalars, np.array([[-2.7]], np.float32), empty(1, 2, dtype=np.int32))
    np.testing.assert_array_equal(out, [[-2, 254]])
