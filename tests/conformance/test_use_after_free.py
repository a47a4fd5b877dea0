"""A freed tensor is refused everywhere, even when newer tensors live where it lived."""

import pytest
import torch

from pypto import ir
from pypto.runtime import ChipWorker


@pytest.fixture
def host() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((128, 128), 5.0), torch.empty(128, 128)


@pytest.mark.parametrize("position", [0, 1, 2], ids=["in", "second-in", "out"])
def test_a_launch_with_a_freed_tensor_is_refused_and_says_which(
    worker: ChipWorker, K_add: ir.CompiledProgram, position: int
) -> None:
    args = [torch.ones(128, 128) for _ in range(3)]
    args[position] = stale = worker.alloc_tensor((128, 128), torch.float32, init=torch.ones(128, 128))
    worker.run(K_add, *args)
    worker.free_tensor(stale)
    with pytest.raises(ValueError, match=r"freed") as raised:
        worker.run(K_add, *args)
    assert "test_use_after_free.py" in str(raised.value), "the text names where the tensor was allocated"
    assert "128" in str(raised.value)


@pytest.mark.parametrize("shape", [(128, 128), (1, 64), (512, 512)], ids=str)
def test_no_address_is_given_out_twice(worker: ChipWorker, shape: tuple[int, int]) -> None:
    seen = set()
    for _ in range(500):
        tensor = worker.alloc_tensor(shape, torch.float32)
        seen.add(tensor.data_ptr)
        worker.free_tensor(tensor)
    assert len(seen) == 500


def test_a_newer_tensor_is_untouched_by_anything_done_with_a_stale_one(
    worker: ChipWorker, K_add: ir.CompiledProgram, host: tuple[torch.Tensor, torch.Tensor]
) -> None:
    b, c = host
    stale = worker.alloc_tensor((128, 128), torch.float32, init=torch.ones(128, 128))
    worker.free_tensor(stale)
    newer = worker.alloc_tensor((128, 128), torch.float32, init=torch.full((128, 128), 9.0))

    with pytest.raises(ValueError, match="freed"):
        worker.run(K_add, stale, b, c)
    with pytest.raises(ValueError, match="freed"):
        worker.copy_to(stale.data_ptr, b.data_ptr(), b.nbytes)
    with pytest.raises(ValueError, match="freed"):
        worker.copy_from(c.data_ptr(), stale.data_ptr, c.nbytes)
    worker.free_tensor(stale)  # the second free of one tensor is not an error

    worker.copy_from(c.data_ptr(), newer.data_ptr, newer.nbytes)
    assert torch.equal(c, torch.full((128, 128), 9.0))
    worker.free_tensor(newer)
    worker.free_tensor(newer)


def test_a_raw_second_free_is_an_error(worker: ChipWorker) -> None:
    pointer = worker.malloc(4096)
    worker.free(pointer)
    with pytest.raises(ValueError, match="freed"):
        worker.free(pointer)
