"""Calls of a compiled program that name no worker."""

import logging
from pathlib import Path

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig, benchmark, dispatch


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(128, 128), torch.randn(128, 128), torch.full((128, 128), float("nan"))


@pytest.fixture(autouse=True)
def _without_implicit_workers(monkeypatch: pytest.MonkeyPatch):
    made: dict = {}
    monkeypatch.setattr(dispatch, "_implicit", made)
    yield
    for worker in made.values():
        worker.close()


def implicit() -> dict:
    return dispatch._implicit


def test_the_active_worker_runs_it(K_add: ir.CompiledProgram) -> None:
    with ChipWorker() as worker:
        a, b, c = tensors()
        assert K_add(a, b, c) is None
        assert torch.equal(c, a + b)
        resident = worker.alloc_tensor((128, 128), torch.float32, init=a)
        assert torch.equal(K_add(resident, b), c)
        assert worker.counters()["launches"] == 2
        worker.free_tensor(resident)
    assert not implicit()


def test_a_jit_function_takes_resident_tensors_and_finds_the_program_of_host_samples() -> None:
    host = torch.full((16, 16), 2.0)
    with ChipWorker() as worker:
        a, b, out = worker.from_host(host), worker.from_host(host), worker.zeros((16, 16), torch.float32)
        compiled = sample_kernels.add.compile(host, host, host)
        assert sample_kernels.add.compile(a, b, out) is compiled
        assert sample_kernels.add(a, b, out) is None
        assert torch.equal(out.to_host(), host + host)
        worker.free_tensor(b)
        with pytest.raises(ValueError, match=r"At position 1: .*not a live allocation owned by this ChipWorker"):
            sample_kernels.add(a, b, out)
        for tensor in (a, out):
            worker.free_tensor(tensor)


def test_without_one_a_device_is_opened_once_and_said_once(
    K_add: ir.CompiledProgram, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="pypto.runtime.dispatch"):
        for _ in range(5):
            a, b, c = tensors()
            K_add(a, b, c)
            assert torch.equal(c, a + b)
    (worker,) = implicit().values()
    assert worker.counters()["launches"] == 5
    assert worker.counters()["registrations"] == 1
    (record,) = caplog.records
    assert "no ChipWorker for a2a3sim device 0 is active" in record.getMessage()


def test_the_config_of_a_call_chooses_the_device(K_add: ir.CompiledProgram) -> None:
    a, b, c = tensors()
    with ChipWorker() as zero, ChipWorker(RunConfig(device_id=1)) as one:
        K_add(a, b, c, config=RunConfig(device_id=1))
        K_add(a, b, c, config=RunConfig())
        assert (zero.counters()["launches"], one.counters()["launches"]) == (1, 1)
    K_add(a, b, c, config=RunConfig(device_id=2))
    assert [(binding.platform, binding.device_id) for binding, _ in implicit()] == [("a2a3sim", 2)]


def test_a_worker_of_another_device_is_not_used(K_add: ir.CompiledProgram) -> None:
    with ChipWorker(RunConfig(device_id=1)) as other:
        K_add(*tensors())
        assert other.counters()["launches"] == 0
    assert len(implicit()) == 1


def test_a_resident_tensor_of_a_worker_that_is_not_active_is_refused(
    worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    _, b, c = tensors()
    resident = worker.alloc_tensor((128, 128), torch.float32)
    with pytest.raises(ValueError, match="not a live allocation owned by this ChipWorker"):
        K_add(resident, b, c)


def test_a_real_chip_is_not_replaced_by_the_simulator(K_add: ir.CompiledProgram) -> None:
    with pytest.raises(RuntimeError, match="a2a3sim"):
        K_add(*tensors(), config=RunConfig(platform="a2a3"))


def test_config_is_a_run_config(K_add: ir.CompiledProgram) -> None:
    with pytest.raises(TypeError, match="config must be a RunConfig, got str"):
        K_add(*tensors(), config="a2a3sim")


def test_an_implicit_worker_that_was_closed_is_replaced(K_add: ir.CompiledProgram) -> None:
    K_add(*tensors())
    (first,) = implicit().values()
    first.close()
    K_add(*tensors())
    (second,) = implicit().values()
    assert second.initialized


def test_a_program_that_needs_sdma_runs_on_workers_that_have_it(K_add: ir.CompiledProgram, tmp_path: Path) -> None:
    ir.compile(K_add.program, tmp_path)
    settings = tmp_path / "kernel_config.py"
    settings.write_text(settings.read_text().replace("'runtime':", "'enable_sdma': True, 'runtime':"))
    needy = ir.CompiledProgram.from_dir(tmp_path)
    a, b, c = tensors()
    with ChipWorker() as worker:
        for call in (
            worker.run,
            lambda compiled, *_: worker.register(compiled),
            lambda compiled, *args: compiled(*args),
        ):
            for _ in range(2):
                with pytest.raises(RuntimeError, match="created without enable_sdma=True"):
                    call(needy, a, b, c)
    with ChipWorker(enable_sdma=True) as worker:
        worker.run(needy, a, b, c)
        needy(a, b, c)
        assert worker.counters()["launches"] == 2
        benchmark(needy, [a, b, c], rounds=1, warmup=0)
        assert worker.counters()["launches"] == 3
    benchmark(needy, [a, b, c], rounds=1, warmup=0)
    K_add(a, b, c)
    needy(a, b, c)
    assert len(implicit()) == 2
