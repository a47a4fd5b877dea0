"""What refusals advise to write for functions that are none of the language computes what torch's functions do."""

import importlib.util
from pathlib import Path

import pytest
import torch

from pypto.frontend.elsewhere import WRITTEN
from pypto.language import ops

TORCH = {
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "mean": lambda x: x.mean(dim=1, keepdim=True),
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "softmax": lambda x: torch.softmax(x, dim=1),
    "square": torch.square,
    "sum": lambda x: x.sum(dim=1, keepdim=True),
    "tanh": torch.tanh,
}


def test_each_is_missing_from_the_language() -> None:
    assert sorted(WRITTEN) == sorted(TORCH)
    assert [name for name in WRITTEN if ops.find("pl", name)] == []


@pytest.mark.parametrize("name", TORCH)
def test_it_computes_the_same(name: str, tmp_path: Path) -> None:
    x = torch.linspace(-30, 30, 16 * 64)[torch.randperm(16 * 64, generator=torch.Generator().manual_seed(0))]
    x = x.reshape(16, 64).contiguous()
    want = TORCH[name](x)
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pypto.language as pl\n\n\n@pl.jit\n"
        f"def kernel(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, {want.shape[1]}], pl.FP32]]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n"
        f"        out[:] = {WRITTEN[name]}\n"
        "    return out\n"
    )
    specification = importlib.util.spec_from_file_location("kernel", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    # FP32 functions are within 2 units each, and up to six follow each other; near 0 `tanh` loses what it subtracts,
    # and sums of 64 numbers up to 30 have one of the two orders.
    torch.testing.assert_close(module.kernel(x), want, rtol=2**-18, atol=2**-17 if name in ("mean", "sum") else 2**-22)
