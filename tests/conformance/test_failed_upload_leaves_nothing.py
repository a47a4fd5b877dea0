"""An `init=` that does not fit is refused, and the memory is as it was before."""

import re

import pytest
import torch

from pypto.runtime import ChipWorker, RunConfig

MIB = 1 << 20

WRONG = {
    "fewer rows": torch.zeros(64, 128),
    "more columns": torch.zeros(128, 129),
    "other rank": torch.zeros(128 * 128),
    "transposed extents": torch.zeros(64, 256),
    "fp16": torch.zeros(128, 128, dtype=torch.float16),
    "int32 of equal size": torch.zeros(128, 128, dtype=torch.int32),
}


@pytest.mark.parametrize("init", WRONG.values(), ids=WRONG.keys())
def test_a_thousand_refused_uploads_leak_no_byte(init: torch.Tensor) -> None:
    worker = ChipWorker(config=RunConfig(device_memory=4 * MIB))
    try:
        keep = worker.alloc_tensor((16, 16), torch.float32)
        before = worker.memory_stats()
        for _ in range(1000):
            with pytest.raises(ValueError, match=r"init must have") as raised:
                worker.alloc_tensor((128, 128), torch.float32, init=init)
        text = str(raised.value)
        assert re.search(r"128,\s*128", text)
        assert "float32" in text
        assert str(tuple(init.shape)) in text
        assert str(init.dtype).removeprefix("torch.") in text
        after = worker.memory_stats()
        assert after["live"] == before["live"]
        assert after["count"] == before["count"]
        rest = after["largest_free"]
        worker.free(worker.malloc(rest))
        worker.free_tensor(keep)
    finally:
        worker.close()


def test_a_tensor_that_does_not_fit_leaves_no_trace_either() -> None:
    worker = ChipWorker(config=RunConfig(device_memory=MIB))
    try:
        for _ in range(1000):
            with pytest.raises(MemoryError):
                worker.alloc_tensor((1024, 1024), torch.float32, init=torch.zeros(1, 1).expand(1024, 1024))
        assert worker.memory_stats()["live"] == 0
        worker.free(worker.malloc(MIB))
    finally:
        worker.close()
