"""Programs run by their directory: scalars arrive as ctypes, 16-bit floats as their bits."""

import ctypes
import subprocess
import sys

import pytest
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import execute_compiled


@pl.jit
def scaled(
    x: pl.Tensor[[4, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
    half: pl.Scalar[pl.FP16],
    brain: pl.Scalar[pl.BF16],
    single: pl.Scalar[pl.FP32],
    count: pl.Scalar[pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.mul(x, pl.cast(half, pl.FP32))
        y = pl.add(y, pl.cast(brain, pl.FP32))
        y = pl.mul(y, single)
        out[:] = pl.add(y, pl.cast(count, pl.FP32))
    return out


def bits(value: float, dtype: torch.dtype) -> ctypes.c_uint16:
    return ctypes.c_uint16(torch.tensor(value, dtype=dtype).view(torch.int16).item() & 0xFFFF)


@pytest.fixture
def directory(tmp_path):
    runtime = dict.fromkeys(("half", "brain", "single", "count"), pl.RUNTIME)
    ir.compile(scaled.lower(**runtime), tmp_path, platform="a2a3sim")
    return tmp_path


@pytest.mark.parametrize(("half", "brain"), [(1.5, -3.0), (2**-14, 2.0**100), (-65504.0, 0.0)])
def test_27_halves_arrive_as_bit_patterns(directory, half: float, brain: float) -> None:
    x, out = torch.randn(4, 8), torch.full((4, 8), float("nan"))
    scalars = [bits(half, torch.float16), bits(brain, torch.bfloat16), ctypes.c_float(0.5), ctypes.c_int32(-7)]
    execute_compiled(directory, [x, out, *scalars], platform="a2a3sim", device_id=0)
    # Each operation rounds to FP32, as the kernel's do.
    want = (x * half + torch.tensor(brain)) * 0.5 + -7.0
    assert torch.equal(out, want)


def test_27_the_directory_is_all_that_another_process_needs(directory) -> None:
    command = (
        "import ctypes, sys, torch; from pypto.runtime import execute_compiled\n"
        "x, out = torch.ones(4, 8), torch.empty(4, 8)\n"
        "scalars = [ctypes.c_uint16(0x3E00), ctypes.c_uint16(0x4040), ctypes.c_float(2), ctypes.c_int32(1)]\n"
        "execute_compiled(sys.argv[1], [x, out, *scalars], platform='a2a3sim', device_id=0)\n"
        "print(out.unique().tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", command, str(directory)], capture_output=True, text=True, check=True)
    assert done.stdout == "[10.0]\n"  # (1 * 1.5 + 3) * 2 + 1
