"""The residency advisor: what it notices, what it says, and that it is off unless it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, RunConfig, benchmark
from pypto.runtime.advice import of_worker

SHAPE = (128, 128)
BYTES = 128 * 128 * 4


@pl.jit
def step(x: pl.Tensor[[128, 128], pl.FP32], cache: pl.InOut[pl.Tensor[[128, 128], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        cache[:] = pl.add(cache, x)
    return cache


@pytest.fixture(autouse=True)
def cheap_things_are_mentioned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine a copy may be less than a hundredth of a launch that was interrupted.
    monkeypatch.setattr("pypto.runtime.advice._LEAST_SHARE", 0.0)


@pytest.fixture
def advised():
    worker = ChipWorker(RunConfig(residency="advise"))
    yield worker
    worker.close()


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_an_argument_that_does_not_change_is_named_with_its_cost_and_cure(
    advised: ChipWorker, K_add: ir.CompiledProgram, kind: str
) -> None:
    weight, out = torch.ones(SHAPE), torch.empty(SHAPE)
    given = weight if kind == "torch" else weight.numpy()
    for _ in range(11):
        advised.run(K_add, torch.randn(SHAPE), given, out)
    (advice,) = advised.advice()
    assert (advice.kind, advice.program, advice.parameter) == ("unchanged_input", "add", "b")
    assert (advice.times, advice.nbytes) == (10, 10 * BYTES), "the first upload had to be"
    assert 0 < advice.host_share < 1
    assert str(advice) == (
        f"'b' of 'add' was uploaded 10 times without a change: 640.0 KiB, {advice.host_share:.0%} of the host wall. "
        f"Upload it once:\n    b = worker.from_host(b)  # once; then pass it every time"
    )


def test_bound_and_queued_launches_count_too(advised: ChipWorker, K_add: ir.CompiledProgram) -> None:
    x, weight, out = torch.randn(SHAPE), torch.ones(SHAPE), torch.empty(SHAPE)
    handle = advised.register(K_add)
    bound = handle.bind(x, weight, out)
    for step in range(12):
        x.normal_()
        launch = [bound, lambda: bound.submit().result(60), lambda: handle.submit(x, weight, out).result(60)][step % 3]
        launch()
    (advice,) = advised.advice()
    assert (advice.kind, advice.parameter, advice.times) == ("unchanged_input", "b", 11)
    out.zero_()
    assert bound() is None
    assert torch.equal(out, x + weight)


def test_the_version_of_a_bound_tensor_is_that_of_each_launch(advised: ChipWorker, K_add: ir.CompiledProgram) -> None:
    x, weight, out = torch.randn(SHAPE), torch.ones(SHAPE), torch.empty(SHAPE)
    bound = advised.register(K_add).bind(x, weight, out)
    for _ in range(11):
        x.normal_()
        weight.fill_(1)  # the same bytes: only the version counter tells
        bound()
    assert advised.advice() == []


def test_the_cure_works(advised: ChipWorker, K_add: ir.CompiledProgram) -> None:
    b, out = advised.from_host(torch.ones(SHAPE)), torch.empty(SHAPE)
    for _ in range(11):
        advised.run(K_add, torch.randn(SHAPE), b, out)
    assert advised.advice() == []


@pytest.mark.parametrize("write", [
    lambda b: b.add_(1),
    lambda b: b.fill_(1),  # the same bytes: the version counter tells, and what is written often cannot stay
    lambda b: b.numpy().__setitem__((0, 0), b[0, 0].item() + 1),
])  # fmt: skip
def test_an_argument_that_is_written_is_not_named(advised: ChipWorker, K_add: ir.CompiledProgram, write) -> None:
    b, out = torch.ones(SHAPE), torch.empty(SHAPE)
    for _ in range(11):
        write(b)
        advised.run(K_add, torch.randn(SHAPE), b, out)
    assert advised.advice() == []


def test_the_weights_of_all_layers_are_one_advice(advised: ChipWorker, K_add: ir.CompiledProgram) -> None:
    layers, out = [torch.randn(SHAPE) for _ in range(4)], torch.empty(SHAPE)
    for _ in range(6):
        x = torch.randn(SHAPE)
        for layer in layers:
            advised.run(K_add, x.clone(), layer, out)
    named = {advice.parameter: advice for advice in advised.advice()}
    assert named["b"].times == 4 * 5
    assert named["b"].nbytes == 20 * BYTES


def test_a_cache_in_disguise_is_told_from_a_weight(advised: ChipWorker) -> None:
    cache, compiled = torch.zeros(SHAPE), step.compile()
    for number in range(9):
        advised.run(compiled, torch.full(SHAPE, float(number)), cache)
    (advice,) = advised.advice()
    assert (advice.kind, advice.parameter, advice.times, advice.nbytes) == ("round_trip", "cache", 8, 16 * BYTES)
    assert "was downloaded and passed back in as it was 8 times: 1.0 MiB" in str(advice)
    assert advice.fix.startswith("cache = worker.from_host(cache)")


def test_a_cache_that_the_host_changes_in_between_is_none(advised: ChipWorker) -> None:
    cache, compiled = torch.zeros(SHAPE), step.compile()
    for _ in range(9):
        cache[0, 0] += 1
        advised.run(compiled, torch.randn(SHAPE), cache)
    assert [advice for advice in advised.advice() if advice.kind == "round_trip"] == []


def test_registering_again_and_again_is_noticed(advised: ChipWorker, K_add: ir.CompiledProgram) -> None:
    for _ in range(3):
        advised.register(K_add)
    assert advised.advice() == []
    for _ in range(7):
        advised.register(K_add)
    (advice,) = advised.advice()
    assert (advice.kind, advice.program, advice.times) == ("registered_again", "add", 9)
    assert "was registered 9 times more than it had to be" in str(advice)


def test_what_costs_little_or_happened_twice_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto.runtime.advice._LEAST_SHARE", 0.01)
    argument = {"program": 0, "param": 0, "bytes": 8, "round_trips": 0, "round_trip_ns": 0}
    program = {"name": "f", "params": ["x"], "registered": 1, "wall_ns": 10_000}

    def found(unchanged: int, unchanged_ns: int) -> list[tuple[str, float]]:
        counted = {**argument, "unchanged": unchanged, "unchanged_ns": unchanged_ns}
        report = {"arguments": [counted], "programs": [program]}
        return [(advice.parameter, advice.host_share) for advice in of_worker(report)]

    assert found(3, 100) == [("x", 0.01)]
    assert found(3, 99) == []
    assert found(2, 5000) == []


def test_it_is_off_by_default_and_says_how_to_turn_it_on(worker: ChipWorker) -> None:
    with pytest.raises(RuntimeError, match=r'RunConfig\(residency="advise"\)'):
        worker.advice()
    with pytest.raises(ValueError, match="residency must be one of off, advise, auto, got 'on'"):
        RunConfig(residency="on")


def test_advising_changes_no_copy(advised: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b, out = torch.ones(SHAPE), np.ones(SHAPE, np.float32), torch.empty(SHAPE)
    for _ in range(5):
        advised.run(K_add, a, b, out)
    assert advised.counters()["h2d_bytes"] == 10 * BYTES


def test_what_is_remembered_is_bounded(advised: ChipWorker) -> None:
    compiled = step.compile()
    memory = torch.zeros(5000, 128 * 128 // 64)  # thousands of addresses, 1 KiB apart, of overlapping tensors
    flat = memory.view(-1)
    cache = advised.zeros(SHAPE, torch.float32)
    for start in range(4200):
        advised.run(compiled, flat[start * 256 : start * 256 + 128 * 128].view(SHAPE), cache)
    assert advised._impl is not None
    report = advised._impl.residency()
    assert report is not None
    assert len(report["arguments"]) == 4096


def test_a_benchmark_says_what_could_be_resident(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b, c = worker.from_host(torch.ones(SHAPE)), torch.ones(SHAPE), worker.empty(SHAPE, torch.float32)
    stats = benchmark(K_add, [a, b, c], rounds=10, worker=worker)
    (advice,) = stats.advice
    assert (advice.kind, advice.parameter, advice.times, advice.nbytes) == ("unchanged_input", "b", 10, 10 * BYTES)
    assert 0 < advice.host_share < 1
    resident = benchmark(K_add, [a, worker.from_host(b), c], rounds=10, worker=worker)
    assert resident.advice == []
    stats = benchmark(step.compile(), [a, torch.zeros(SHAPE)], rounds=10, worker=worker)
    assert [(advice.kind, advice.parameter) for advice in stats.advice] == [("round_trip", "cache")]


def test_a_result_that_only_comes_back_is_no_advice(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b = (worker.from_host(torch.ones(SHAPE)) for _ in range(2))
    assert benchmark(K_add, [a, b, torch.empty(SHAPE)], rounds=10, worker=worker).advice == []
