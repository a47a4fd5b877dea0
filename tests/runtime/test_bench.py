"""`benchmark`: how often it launches, where, and what it reports."""

import io
import statistics
import threading

import numpy as np
import pytest
import torch

from pypto import ir
from pypto.runtime import BenchmarkStats, ChipWorker, RunConfig, TraceInvocation, TraceSpan, benchmark
from pypto.runtime.spans import Recorder

NBYTES = 128 * 128 * 4


def tensors() -> list[torch.Tensor]:
    return [torch.randn(128, 128), torch.randn(128, 128), torch.full((128, 128), float("nan"))]


def stats_of(device: list[float], host: list[float]) -> BenchmarkStats:
    return BenchmarkStats(device, host, rounds=len(device), warmup=1)


@pytest.mark.parametrize(("rounds", "warmup"), [(1, 0), (20, 3), (5, 7)])
def test_one_sample_of_each_kind_for_each_round(K_add: ir.CompiledProgram, rounds: int, warmup: int) -> None:
    args = tensors()
    stats = benchmark(K_add, args, rounds=rounds, warmup=warmup)
    assert (stats.rounds, stats.warmup) == (rounds, warmup)
    assert len(stats.device_wall_us) == len(stats.host_wall_us) == len(stats.invocations) == rounds
    for device, host in zip(stats.device_wall_us, stats.host_wall_us, strict=True):
        assert 0 < device <= host
    assert stats.dropped_spans == 0
    assert torch.equal(args[2], args[0] + args[1]), "outputs hold what the last launch wrote"


def test_samples_are_the_device_times(K_add: ir.CompiledProgram) -> None:
    stats = benchmark(K_add, tensors(), rounds=3)
    assert stats.samples is stats.device_wall_us
    assert not stats.all_zero_device


def test_resident_tensors_of_the_active_worker_are_welcome(K_add: ir.CompiledProgram) -> None:
    a, b, c = tensors()
    with ChipWorker() as worker:
        host = benchmark(K_add, [a, b, c], rounds=5)
        assert (host.h2d_bytes, host.d2h_bytes) == (2 * NBYTES, NBYTES)
        weight = worker.alloc_tensor((128, 128), torch.float32, init=b)
        resident = benchmark(K_add, [a, weight, c], rounds=5)
        assert (resident.h2d_bytes, resident.d2h_bytes) == (NBYTES, NBYTES)
        out = worker.alloc_tensor((128, 128), torch.float32)
        nothing = benchmark(K_add, [weight, weight, out], rounds=5)
        assert (nothing.h2d_bytes, nothing.d2h_bytes) == (0, 0)
        assert worker.counters()["registrations"] == 1
        assert worker.counters()["launches"] == 3 * (5 + 3)
        worker.free_tensor(weight)
        worker.free_tensor(out)


def test_a_given_worker_is_used(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    resident = worker.alloc_tensor((128, 128), torch.float32, init=torch.ones(128, 128))
    with ChipWorker() as other:
        benchmark(K_add, [resident, resident, torch.empty(128, 128)], rounds=2, warmup=0, worker=worker)
        assert other.counters()["launches"] == 0
    assert worker.counters()["launches"] == 2
    worker.free_tensor(resident)


def test_launches_of_other_threads_are_not_counted(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    handle, stop = worker.register(K_add), threading.Event()

    def disturb() -> None:
        args = tensors()
        while not stop.is_set():
            handle(*args)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        stats = benchmark(K_add, tensors(), rounds=50, worker=worker)
    finally:
        stop.set()
        thread.join()
    assert len(stats.host_wall_us) == 50
    assert stats.h2d_bytes == 2 * NBYTES


def test_wrong_settings_are_refused(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    args = tensors()
    for rounds in (0, -1):
        with pytest.raises(ValueError, match="rounds must be positive"):
            benchmark(K_add, args, rounds=rounds)
    with pytest.raises(ValueError, match="warmup must be non-negative"):
        benchmark(K_add, args, warmup=-1)
    for setting in ({"persistent": True}, {"reset_persistent_windows": False}):
        with pytest.raises(ValueError, match="apply only to an L3"):
            benchmark(K_add, args, **setting)
    for setting in ({"platform": "a2a3sim"}, {"device_id": 0}):
        with pytest.raises(ValueError, match="not both"):
            benchmark(K_add, args, config=RunConfig(), **setting)
        with pytest.raises(ValueError, match="not both"):
            benchmark(K_add, args, worker=worker, **setting)
    with pytest.raises(ValueError, match="Invalid platform"):
        benchmark(K_add, args, platform="gpu")
    with pytest.raises(TypeError, match="expected a CompiledProgram"):
        benchmark(lambda: None, args)


def test_a_failing_launch_fails_the_benchmark(K_add: ir.CompiledProgram) -> None:
    with pytest.raises(TypeError, match="'b'"):
        benchmark(K_add, [torch.zeros(128, 128), torch.zeros(1), torch.zeros(128, 128)])


def test_a_benchmark_leaves_no_worker_active(K_add: ir.CompiledProgram) -> None:
    benchmark(K_add, tensors(), rounds=1)
    binding = {"level": 2, "platform": "a2a3sim", "device_id": 0, "runtime": "tensormap_and_ringbuffer"}
    assert ChipWorker.current(**binding) is None


def test_aggregates_are_those_of_the_samples() -> None:
    device, host = [3.0, 1.0, 2.0, 10.0], [30.0, 10.0, 20.0, 100.0]
    stats = stats_of(device, host)
    for name, samples in (("device_wall_us", device), ("device_us", device), ("host_wall_us", host)):
        assert getattr(stats, f"{name}_min") == min(samples)
        assert getattr(stats, f"{name}_max") == max(samples)
        assert getattr(stats, f"{name}_mean") == np.mean(samples)
        assert getattr(stats, f"{name}_median") == np.median(samples)
        assert getattr(stats, f"{name}_stdev") == pytest.approx(statistics.stdev(samples))


@pytest.mark.parametrize("name", ["device_wall_us", "host_wall_us"])
def test_aggregates_without_samples_are_zero(name: str) -> None:
    for aggregate in ("min", "median", "mean", "max", "stdev"):
        assert getattr(BenchmarkStats(), f"{name}_{aggregate}") == 0.0
    assert getattr(stats_of([1.0], [1.0]), f"{name}_stdev") == 0.0


def test_the_summary_is_one_line() -> None:
    assert str(BenchmarkStats(rounds=4)) == "BenchmarkStats(rounds=4: no samples)"
    text = str(stats_of([1.0, 3.0], [10.0, 30.0]))
    assert text == (
        "BenchmarkStats(rounds=2, warmup=1): device_wall_us min=1.0 median=2.0 mean=2.0 max=3.0 stdev=1.4; "
        "host_wall_us min=10.0 median=20.0 mean=20.0 max=30.0 stdev=14.1"
    )
    zero = stats_of([0.0, 0.0], [10.0, 30.0])
    assert zero.all_zero_device
    assert "device_wall_us all 0" in str(zero)
    assert "use host_wall_us" in str(zero)


def test_per_round_gives_copies_by_metric(K_add: ir.CompiledProgram) -> None:
    stats = benchmark(K_add, tensors(), rounds=4)
    assert stats.per_round() == stats.device_wall_us
    assert stats.per_round() is not stats.device_wall_us
    assert stats.per_round("host") == stats.host_wall_us
    assert len(stats.per_round("effective")) == 4
    assert stats.per_round("union") == []
    with pytest.raises(ValueError, match="unknown metric 'wall'"):
        stats.per_round("wall")


def test_trees_show_the_spans_of_a_launch_and_of_the_mean(K_add: ir.CompiledProgram) -> None:
    stats = benchmark(K_add, tensors(), rounds=3)
    lines = stats.format_tree(1).splitlines()
    assert lines[0].startswith("launch[1] (pid=")
    assert lines[0].endswith("task=add):")
    assert lines[1].startswith("chip.run ")
    assert any("device_wall [dev]" in line for line in lines)
    with pytest.raises(IndexError, match="launch 3 is out of range"):
        stats.format_tree(3)
    out = io.StringIO()
    stats.print_tree(file=out)
    assert out.getvalue() == stats.format_tree(2) + "\n"
    mean = stats.format_mean_tree()
    assert mean.startswith("mean of 3 launches (warmup 3 excluded); each node: mean ±stdev:\nchip.run ")
    assert "[" in stats.format_mean_tree(spread="both").splitlines()[1]
    assert "±" not in stats.format_mean_tree(spread="none")
    assert BenchmarkStats().format_tree() == BenchmarkStats().format_mean_tree() == "no span tree captured"


def test_the_mean_invocation_averages_each_span() -> None:
    def launch(inv: int, dur: int) -> TraceInvocation:
        return TraceInvocation(1, inv, "ab", [TraceSpan(1, 2, inv, "ab", 0, "chip.run", 100 * inv, dur)], "add")

    stats = BenchmarkStats(invocations=[launch(1, 1000), launch(2, 3000)])
    mean = stats.mean_invocation()
    assert mean is not None
    assert (mean.inv, mean.host_wall_us, mean.spans[0].ts, mean.task_name) == (-1, 2.0, 150, "add")
    assert stats.mean_invocation(pid=1) is None
    assert BenchmarkStats().mean_invocation() is None


def test_what_concerns_several_devices_is_empty_on_one(K_add: ir.CompiledProgram) -> None:
    stats = benchmark(K_add, tensors(), rounds=2, warmup=0)
    assert stats.dispatch_groups() == stats.dispatch_tasks() == {}
    for metric in ("device", "host", "effective"):
        assert stats.per_dispatch(metric) == stats.per_rank(metric) == {}
    for method in (stats.per_dispatch, stats.per_rank):
        with pytest.raises(ValueError, match="unknown metric 'union'; expected device, host or effective"):
            method("union")


def test_launches_that_the_trace_lost_are_no_samples(
    K_add: ir.CompiledProgram, worker: ChipWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Recorder.take
    monkeypatch.setattr(Recorder, "take", lambda recorder: take(recorder)[1:])
    with pytest.raises(RuntimeError, match=r"captured \d of \d launches; 0 spans were lost") as raised:
        benchmark(K_add, tensors(), rounds=5, warmup=1, worker=worker)
    assert raised.value.code == "lost_spans"
