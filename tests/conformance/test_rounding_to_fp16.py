"""Casts between FP32 and the 16-bit floats: every value, every midpoint, bit for bit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig

ISAS = ("generic", "avx2", "avx512")


@pl.jit.incore
def to_fp16_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tile = pl.load(x, [0, 0], [x.shape[0], x.shape[1]])
    out = pl.store(pl.cast(tile, pl.FP16, mode="rint"), [0, 0], out)
    return out


@pl.jit
def to_fp16(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = to_fp16_tile(x, out)
    return out


@pl.jit.incore
def to_bf16_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tile = pl.load(x, [0, 0], [x.shape[0], x.shape[1]])
    out = pl.store(pl.cast(tile, pl.BF16, mode="rint"), [0, 0], out)
    return out


@pl.jit
def to_bf16(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = to_bf16_tile(x, out)
    return out


@pl.jit.incore
def to_fp32_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tile = pl.load(x, [0, 0], [x.shape[0], x.shape[1]])
    out = pl.store(pl.cast(tile, pl.FP32), [0, 0], out)
    return out


@pl.jit
def to_fp32(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = to_fp32_tile(x, out)
    return out


def every_16_bit_pattern() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def finite_values_of(dtype: torch.dtype) -> np.ndarray:
    """All finite values of a 16-bit float type, ascending, exact in FP32."""
    patterns = torch.from_numpy(every_16_bit_pattern().view(np.int16)).view(dtype).to(torch.float32).numpy()
    return np.unique(patterns[np.isfinite(patterns)])


def values_where_rounding_decides(dtype: torch.dtype) -> np.ndarray:
    """The values of `dtype`, the midpoints between neighbours, and the FP32 numbers right below and above each."""
    values = finite_values_of(dtype)
    midpoints = ((values[:-1].astype(np.float64) + values[1:]) / 2).astype(np.float32)
    overflow = np.float32(values[-1]) + (np.float32(values[-1]) - values[-2]) / 2  # halfway to what would be next
    centres = np.concatenate([values, midpoints, [overflow, -overflow]]).astype(np.float32)
    infinity = np.float32(np.inf)
    return np.concatenate([centres, np.nextafter(centres, -infinity), np.nextafter(centres, infinity)])


def in_rows_of(columns: int, values: np.ndarray) -> torch.Tensor:
    padded = np.zeros(-(-len(values) // columns) * columns, dtype=values.dtype)
    padded[: len(values)] = values
    return torch.from_numpy(padded.reshape(-1, columns))


def run_in_blocks(worker: ChipWorker, kernel, x: torch.Tensor, dtype: torch.dtype, rows: int) -> torch.Tensor:
    """Runs `kernel` on blocks of `rows` rows, so that one tile shape serves any number of values."""
    full = torch.zeros(-(-x.shape[0] // rows) * rows, x.shape[1], dtype=x.dtype)
    full[: x.shape[0]] = x
    out = torch.empty(full.shape, dtype=dtype)
    compiled = kernel.compile(full[:rows], out[:rows])
    for row in range(0, full.shape[0], rows):
        worker.run(compiled, full[row : row + rows], out[row : row + rows])
    return out[: x.shape[0]]


def bits(tensor: torch.Tensor) -> list[str]:
    return [f"{value & 0xFFFF:04x}" for value in tensor.view(torch.int16).flatten().tolist()]


@pytest.fixture(params=ISAS)
def worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChipWorker]:
    """A worker for each instruction set that this processor has."""
    needed = {"generic": "", "avx2": "avx2", "avx512": "avx512bw"}[request.param]
    if needed not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"this processor has no {request.param}")
    monkeypatch.setenv("PYPTO_ISA", request.param)
    worker = ChipWorker(config=RunConfig())
    yield worker
    worker.close()


def test_a_carry_out_of_the_mantissa_reaches_the_exponent(worker: ChipWorker) -> None:
    x = torch.zeros(1, 16)
    x[0, :10] = torch.tensor(
        [-0.031243186, 0.124992706, -0.124975391, 0.9998, 0.99976, 1.9995118, 0.49987793, 65519, 5.96e-8, 2.98e-8]
    )
    out = run_in_blocks(worker, to_fp16, x, torch.float16, rows=1)
    assert bits(out[0, :10]) == ["a800", "3000", "b000", "3c00", "3c00", "4000", "3800", "7bff", "0001", "0000"]
    assert bits(out[0, 10:]) == ["0000"] * 6


@pytest.mark.parametrize("columns", [16, 250, 1024], ids=lambda columns: f"{columns}-columns")
def test_fp32_rounds_to_the_nearest_even_fp16_at_every_midpoint(worker: ChipWorker, columns: int) -> None:
    x = in_rows_of(columns, values_where_rounding_decides(torch.float16))
    out = run_in_blocks(worker, to_fp16, x, torch.float16, rows=8000 // columns)
    with np.errstate(over="ignore"):
        wanted = x.numpy().astype(np.float16)
    np.testing.assert_array_equal(out.numpy().view(np.uint16), wanted.view(np.uint16))


def test_fp32_rounds_to_the_nearest_even_bf16_at_every_midpoint(worker: ChipWorker) -> None:
    x = in_rows_of(256, values_where_rounding_decides(torch.bfloat16))
    out = run_in_blocks(worker, to_bf16, x, torch.bfloat16, rows=32)
    assert torch.equal(out.view(torch.int16), x.to(torch.bfloat16).view(torch.int16))


@pytest.mark.parametrize(
    ("dtype", "narrow"), [(torch.float16, to_fp16), (torch.bfloat16, to_bf16)], ids=["fp16", "bf16"]
)
def test_every_16_bit_value_survives_the_way_through_fp32(worker: ChipWorker, dtype: torch.dtype, narrow) -> None:
    x = torch.from_numpy(every_16_bit_pattern().view(np.int16)).view(dtype).reshape(256, 256)
    wide = run_in_blocks(worker, to_fp32, x, torch.float32, rows=64)
    nan = torch.isnan(x)
    assert torch.equal(torch.isnan(wide), nan)
    assert torch.equal(wide[~nan].view(torch.int32), x.to(torch.float32)[~nan].view(torch.int32))
    back = run_in_blocks(worker, narrow, wide, dtype, rows=64)
    assert torch.equal(torch.isnan(back), nan)
    assert torch.equal(back[~nan].view(torch.int16), x[~nan].view(torch.int16))


def test_what_is_too_large_for_fp16_becomes_infinity_and_nan_stays_nan(worker: ChipWorker) -> None:
    x = torch.tensor([[65520.0, -65520.0, 1e30, -1e30, float("inf"), -float("inf"), float("nan"), 65519.996]])
    out = run_in_blocks(worker, to_fp16, x, torch.float16, rows=1)
    assert bits(out)[:6] == ["7c00", "fc00", "7c00", "fc00", "7c00", "fc00"]
    assert torch.isnan(out[0, 6])
    assert bits(out)[7] == "7bff"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("dtype", "narrow"), [(torch.float16, to_fp16), (torch.bfloat16, to_bf16)], ids=["fp16", "bf16"]
)
def test_each_of_the_2_to_the_32_fp32_values_rounds_as_torch_does(
    worker: ChipWorker, dtype: torch.dtype, narrow
) -> None:
    count, out = 1 << 22, torch.empty(256, 1 << 14, dtype=dtype)
    compiled = narrow.compile(out.float(), out)
    for first in range(-(1 << 31), 1 << 31, count):
        x = torch.arange(first, first + count, dtype=torch.int64).to(torch.int32).view(torch.float32).reshape(out.shape)
        worker.run(compiled, x, out)
        wanted = x.to(dtype)
        same = (out.view(torch.int16) == wanted.view(torch.int16)) | (torch.isnan(out) & torch.isnan(wanted))
        assert same.all()
