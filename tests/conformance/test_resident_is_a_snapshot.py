"""A resident tensor holds what the host tensor held when it was allocated."""

import gc

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker, benchmark


def read(worker: ChipWorker, tensor) -> torch.Tensor:
    out = torch.empty(tensor.shape, dtype=tensor.dtype)
    worker.copy_from(out.data_ptr(), tensor.data_ptr, tensor.nbytes)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_later_edits_and_the_end_of_the_host_tensor_do_not_reach_the_device(
    worker: ChipWorker, dtype: torch.dtype
) -> None:
    compiled = sample_kernels.compile_add(dtype=dtype)
    host = torch.full((128, 128), 3, dtype=dtype)
    before = worker.counters()["h2d_bytes"]
    weight = worker.alloc_tensor((128, 128), dtype, init=host)
    assert worker.counters()["h2d_bytes"] - before == host.nbytes
    host.fill_(99)
    del host
    gc.collect()

    out = torch.empty(128, 128, dtype=dtype)
    for k in range(5):
        batch = torch.full((128, 128), k, dtype=dtype)
        before = worker.counters()["h2d_bytes"]
        worker.run(compiled, batch, weight, out)
        assert worker.counters()["h2d_bytes"] - before == batch.nbytes
        assert torch.equal(out, torch.full((128, 128), k + 3, dtype=dtype))
    assert torch.equal(read(worker, weight), torch.full((128, 128), 3, dtype=dtype))


def test_an_init_that_is_a_view_is_taken_in_its_logical_order(worker: ChipWorker) -> None:
    base = torch.arange(64 * 32, dtype=torch.float32).reshape(64, 32)
    for view in (base.t(), base[:, ::2], base[5:37], base[3:4].expand(16, 32)):
        resident = worker.alloc_tensor(tuple(view.shape), torch.float32, init=view)
        assert torch.equal(read(worker, resident), view)


def test_benchmark_counts_the_weight_once_not_in_every_launch(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b, c = torch.ones(128, 128), torch.ones(128, 128), torch.empty(128, 128)
    host = benchmark(K_add, [a, b, c], rounds=5, warmup=1, worker=worker)
    weight = worker.alloc_tensor((128, 128), torch.float32, init=b)
    resident = benchmark(K_add, [a, weight, c], rounds=5, warmup=1, worker=worker)
    assert (host.h2d_bytes, host.d2h_bytes) == (a.nbytes + b.nbytes, c.nbytes)
    assert (resident.h2d_bytes, resident.d2h_bytes) == (a.nbytes, c.nbytes)
