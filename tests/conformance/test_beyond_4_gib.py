"""A tensor of more than 2**32 bytes: sizes, offsets, addresses are 64 bits wide. Only pages that are used exist."""

from collections.abc import Iterator

import pytest
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig

ROWS = (1 << 23) + 64
NBYTES = (1 << 32) + 32768

M = pl.dynamic("M")


@pl.program
class DoubleLastRows:
    """out = 2 * x[row : row + 64]."""

    @pl.function(type=pl.FunctionType.InCore)
    def double(
        self,
        x: pl.Tensor[[M, 128], pl.FP32],
        out: pl.Out[pl.Tensor[[64, 128], pl.FP32]],
        row: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[64, 128], pl.FP32]:
        tile = pl.load(x, [row, 0], [64, 128])
        out = pl.store(pl.mul(tile, 2.0), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[M, 128], pl.FP32],
        out: pl.Out[pl.Tensor[[64, 128], pl.FP32]],
        row: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[64, 128], pl.FP32]:
        out = self.double(x, out, row)
        return out


@pytest.fixture
def worker() -> Iterator[ChipWorker]:
    worker = ChipWorker(config=RunConfig(device_memory=NBYTES + (1 << 20)))
    yield worker
    worker.close()


@pytest.fixture
def big(worker: ChipWorker) -> Iterator[DeviceTensor]:
    tensor = worker.alloc_tensor((ROWS, 128), torch.float32)
    yield tensor
    worker.free_tensor(tensor)


def test_its_size_is_exact_and_fits_once(worker: ChipWorker, big: DeviceTensor) -> None:
    assert big.nbytes == NBYTES
    assert worker.memory_stats()["live"] == NBYTES
    with pytest.raises(MemoryError, match="4295000064 bytes"):
        worker.alloc_tensor((ROWS, 128), torch.float32)


@pytest.mark.parametrize("row", [0, (1 << 23) - 32, (1 << 23), ROWS - 64], ids=["first", "across", "behind", "last"])
def test_copies_and_kernels_reach_every_part_of_it(worker: ChipWorker, big: DeviceTensor, row: int) -> None:
    part = torch.arange(64 * 128, dtype=torch.float32).reshape(64, 128) + row % 97
    address = big.data_ptr + row * 128 * 4
    worker.copy_to(address, part.data_ptr(), part.nbytes)

    back = torch.empty(64, 128)
    worker.copy_from(back.data_ptr(), address, back.nbytes)
    assert torch.equal(back, part)

    out = torch.empty(64, 128)
    worker.run(ir.compile(DoubleLastRows, platform="a2a3sim"), big, out, row)
    assert torch.equal(out, 2 * part)


def test_an_access_behind_its_end_is_refused(worker: ChipWorker, big: DeviceTensor) -> None:
    part = torch.empty(64, 128)
    with pytest.raises(ValueError, match="exceeds the 4295000064-byte backing"):
        worker.copy_to(big.data_ptr + NBYTES - part.nbytes + 4, part.data_ptr(), part.nbytes)
