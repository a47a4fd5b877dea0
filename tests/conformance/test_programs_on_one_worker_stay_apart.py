"""Several programs registered on one worker: each handle runs its own, in any order."""

import random

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker


def test_two_programs_called_in_turn_and_in_random_order_each_compute_their_own(
    worker: ChipWorker, K_add: ir.CompiledProgram, K_mul: ir.CompiledProgram
) -> None:
    add, mul = worker.register(K_add), worker.register(K_mul)
    a, b, c = torch.full((128, 128), 2.0), torch.full((128, 128), 3.0), torch.empty(128, 128)
    order = [add, mul] * 100 + random.Random(0).choices([add, mul], k=200)
    for handle in order:
        c.fill_(float("nan"))
        handle(a, b, c)
        assert torch.equal(c, torch.full((128, 128), 5.0 if handle is add else 6.0))


def test_each_program_has_its_own_id_and_the_same_program_keeps_its(
    worker: ChipWorker, K_add: ir.CompiledProgram, K_mul: ir.CompiledProgram
) -> None:
    add, mul, again = worker.register(K_add), worker.register(K_mul), worker.register(K_add)
    assert add.cid != mul.cid
    assert add.cid == again.cid
    again.unregister()
    a, b, c = torch.full((128, 128), 2.0), torch.full((128, 128), 3.0), torch.empty(128, 128)
    with pytest.raises(RuntimeError, match="has been unregistered"):
        again(a, b, c)
    add(a, b, c)
    assert torch.equal(c, torch.full((128, 128), 5.0))


def test_one_kernel_for_several_shapes_and_types_is_several_programs(worker: ChipWorker) -> None:
    kinds = [(rows, dtype) for rows in (1, 16, 128) for dtype in (torch.float32, torch.float16, torch.int32)]
    handles = [worker.register(sample_kernels.compile_add(rows, 64, dtype)) for rows, dtype in kinds]
    assert len({handle.cid for handle in handles}) == len(kinds)
    for _ in range(3):
        for handle, (rows, dtype) in zip(handles, kinds, strict=True):
            a, b = torch.full((rows, 64), 2, dtype=dtype), torch.full((rows, 64), 3, dtype=dtype)
            c = torch.zeros(rows, 64, dtype=dtype)
            handle(a, b, c)
            assert torch.equal(c, a + b)


def test_a_buffer_written_by_one_program_is_read_by_another(
    worker: ChipWorker, K_add: ir.CompiledProgram, K_mul: ir.CompiledProgram
) -> None:
    add, mul = worker.register(K_add), worker.register(K_mul)
    a, b, c = torch.full((128, 128), 2.0), torch.full((128, 128), 3.0), torch.empty(128, 128)
    between = worker.alloc_tensor((128, 128), torch.float32)
    add(a, b, between)
    mul(between, b, c)
    assert torch.equal(c, torch.full((128, 128), 15.0))
