"""The life of a worker: close frees and says so, twice is fine, and nothing old is valid on the next device."""

import logging

import pytest
import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig


def test_close_names_each_forgotten_tensor_and_its_line(caplog: pytest.LogCaptureFixture) -> None:
    worker = ChipWorker(config=RunConfig())
    kept = [worker.alloc_tensor((512, 512), torch.float32) for _ in range(8)]
    freed = worker.alloc_tensor((3, 7), torch.float16)
    worker.free_tensor(freed)
    with caplog.at_level(logging.WARNING):
        worker.close()
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    text = warnings[0].getMessage()
    assert text.count("test_close_frees_what_was_forgotten.py") == len(kept)
    assert "512" in text
    assert "(3, 7)" not in text


def test_close_names_the_first_twenty_of_many(caplog: pytest.LogCaptureFixture) -> None:
    worker = ChipWorker(config=RunConfig())
    for _ in range(50):
        worker.alloc_tensor((16, 16), torch.float32)
    with caplog.at_level(logging.WARNING):
        worker.close()
    (record,) = caplog.records
    lines = record.getMessage().splitlines()
    assert "freed 50 tensors" in lines[0]
    assert len(lines) == 1 + 20 + 1
    assert lines[-1] == "  ... and 30 more"


def test_close_without_forgotten_tensors_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    worker = ChipWorker(config=RunConfig())
    worker.free_tensor(worker.alloc_tensor((512, 512), torch.float32))
    with caplog.at_level(logging.WARNING):
        worker.close()
    assert not caplog.records


@pytest.mark.filterwarnings("ignore")
def test_after_close_a_handle_is_refused_and_freeing_does_nothing(K_add: ir.CompiledProgram) -> None:
    worker = ChipWorker(config=RunConfig())
    tensor = worker.alloc_tensor((128, 128), torch.float32, init=torch.ones(128, 128))
    handle = worker.register(K_add)
    worker.close()
    worker.close()
    with pytest.raises(RuntimeError, match="closed"):
        handle(tensor, tensor, torch.empty(128, 128))
    with pytest.raises(RuntimeError, match="requires an initialized ChipWorker"):
        worker.alloc_tensor((128, 128), torch.float32)
    with pytest.raises(RuntimeError, match="requires an initialized ChipWorker"):
        worker.run(K_add, *(torch.ones(128, 128) for _ in range(3)))
    worker.free_tensor(tensor)
    assert handle.closed


def test_init_after_close_opens_a_new_device_on_which_nothing_old_is_valid(K_add: ir.CompiledProgram) -> None:
    worker = ChipWorker(config=RunConfig())
    old = worker.alloc_tensor((128, 128), torch.float32, init=torch.ones(128, 128))
    old_handle = worker.register(K_add)
    worker.close()
    worker.init()
    try:
        assert worker.memory_stats()["live"] == 0
        a, b, c = torch.full((128, 128), 2.0), torch.full((128, 128), 3.0), torch.empty(128, 128)
        worker.run(K_add, a, b, c)
        assert torch.equal(c, torch.full((128, 128), 5.0))
        with pytest.raises(ValueError, match="closed"):
            worker.run(K_add, old, b, c)
        with pytest.raises(RuntimeError, match="Re-register"):
            old_handle(a, b, c)
        with pytest.raises(ValueError, match="allocation base"):
            worker.copy_from(c.data_ptr(), old.data_ptr, old.nbytes)
        worker.free_tensor(old)
        assert torch.equal(c, torch.full((128, 128), 5.0))
    finally:
        worker.close()


def test_leaving_the_with_block_closes_even_when_the_body_raises() -> None:
    worker = ChipWorker(config=RunConfig())
    with pytest.raises(ValueError, match="init must have"), worker:
        worker.alloc_tensor((16, 16), torch.float32, init=torch.zeros(1, 1))
    assert not worker.initialized
    assert ChipWorker.current(level=2, platform="a2a3sim", device_id=0, runtime=worker.runtime) is None
