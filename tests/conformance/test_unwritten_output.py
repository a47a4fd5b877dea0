"""What a kernel does not write shows no other tensor's bytes; under poison it shows NaN."""

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig


@pytest.fixture(scope="module")
def half_writer() -> ir.CompiledProgram:
    """Writes 1.0 to rows 0 to 63 of a (128, 128) output, and nothing else."""
    return sample_kernels.fill_upper_half.compile(torch.empty(128, 128))


@pytest.fixture(params=[False, True], ids=["plain", "poison"])
def poison(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def haunted(poison: bool):
    """A worker whose free memory held sevens a moment ago."""
    worker = ChipWorker(config=RunConfig(poison=poison))
    for _ in range(4):
        worker.free_tensor(worker.alloc_tensor((128, 128), torch.float32, init=torch.full((128, 128), 7.0)))
    yield worker
    worker.close()


def check(out: torch.Tensor, poison: bool) -> None:
    assert torch.equal(out[:64], torch.ones(64, 128))
    assert not (out[64:] == 7.0).any()
    if poison:
        assert torch.isnan(out[64:]).all()


def test_an_output_given_by_the_caller(haunted: ChipWorker, half_writer: ir.CompiledProgram, poison: bool) -> None:
    # Several times: later launches do less, because they know what the first ones wrote.
    for _ in range(4):
        out = torch.full((128, 128), 7.0)
        haunted.run(half_writer, out)
        check(out, poison)


def test_an_output_that_the_runtime_returns(haunted: ChipWorker, half_writer: ir.CompiledProgram, poison: bool) -> None:
    check(haunted.run(half_writer), poison)


def test_a_resident_output(haunted: ChipWorker, half_writer: ir.CompiledProgram, poison: bool) -> None:
    resident = haunted.alloc_tensor((128, 128), torch.float32)
    haunted.run(half_writer, resident)
    out = torch.zeros(128, 128)
    haunted.copy_from(out.data_ptr(), resident.data_ptr, resident.nbytes)
    check(out, poison)


def test_a_new_tensor_without_init(haunted: ChipWorker, poison: bool) -> None:
    resident = haunted.alloc_tensor((128, 128), torch.float32)
    out = torch.zeros(128, 128)
    haunted.copy_from(out.data_ptr(), resident.data_ptr, resident.nbytes)
    assert not (out == 7.0).any()
    if poison:
        assert torch.isnan(out).all()


def test_the_environment_switches_poison_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_POISON", "1")
    worker = ChipWorker(config=RunConfig())
    try:
        resident = worker.alloc_tensor((128, 128), torch.float16)
        out = torch.zeros(128, 128, dtype=torch.float16)
        worker.copy_from(out.data_ptr(), resident.data_ptr, resident.nbytes)
        assert torch.isnan(out).all()
    finally:
        worker.close()
