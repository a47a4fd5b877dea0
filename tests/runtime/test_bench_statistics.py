"""What `benchmark` makes of its samples: statistics, comparisons, verdicts, records and tables."""

import io
import json
import random
import re
import statistics

import numpy as np
import pytest
import torch
from rich.console import Console

from pypto import ir
from pypto.runtime import Advice, BenchmarkStats, ChipWorker, TraceInvocation, TraceSpan, benchmark
from pypto.runtime.bench import Summary, Transfer
from pypto.runtime.bench.comparison import ratio_of_medians

NBYTES = 128 * 128 * 4


def tensors() -> list[torch.Tensor]:
    return [torch.randn(128, 128), torch.randn(128, 128), torch.empty(128, 128)]


def stats_of(host: list[float], device: list[float]) -> BenchmarkStats:
    return BenchmarkStats(device, host, rounds=len(host))


def launch(**us: int) -> TraceInvocation:
    """A launch whose spans last as long as `us` says, by their names with `__` for the dots."""
    spans = [
        TraceSpan(
            1, 1, 0, "0", name.count("__"), "chip.run" + name.replace("run", "", 1).replace("__", "."), 0, 1000 * t
        )
        for name, t in us.items()
    ]
    return TraceInvocation(1, 0, "0", spans, "f")


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 100, 1001])
def test_a_summary_agrees_with_numpy(count: int) -> None:
    values = list(np.random.default_rng(count).lognormal(3, 1, count))
    summary = Summary.of(values)
    assert summary.count == count
    for name, percent in (("min", 0), ("p5", 5), ("median", 50), ("p95", 95), ("p99", 99), ("max", 100)):
        assert getattr(summary, name) == pytest.approx(np.percentile(values, percent), rel=1e-12)
    assert summary.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert summary.stdev == pytest.approx(np.std(values, ddof=1) if count > 1 else 0.0, rel=1e-12)
    low, high = np.percentile(values, [25, 75])
    outside = [v for v in values if v < low - 1.5 * (high - low) or v > high + 1.5 * (high - low)]
    assert summary.outliers == len(outside)


def test_a_summary_of_nothing_is_all_zero() -> None:
    assert Summary.of([]) == Summary()
    assert Summary.of([]).spread == 0.0


@pytest.mark.parametrize("count", [10, 25, 101])
def test_the_interval_of_the_median_holds_it_in_95_of_100_series(count: int) -> None:
    draw = random.Random(count)
    held = 0
    for _ in range(2000):
        summary = Summary.of([draw.expovariate(1.0) for _ in range(count)])
        held += summary.median_low <= np.log(2) <= summary.median_high
    # 2000 series: the share has a standard deviation of half a percent.
    assert held / 2000 > 0.94


def test_the_interval_of_few_values_is_their_range() -> None:
    summary = Summary.of([5.0, 1.0, 3.0])
    assert (summary.median_low, summary.median_high) == (1.0, 5.0)
    assert summary.spread == pytest.approx(2 / 3)


def test_statistics_of_both_clocks_are_there_under_both_spellings() -> None:
    stats = stats_of([10.0, 20.0, 60.0], [1.0, 2.0, 6.0])
    for name, function in (("min", min), ("median", statistics.median), ("mean", statistics.fmean), ("max", max)):
        assert getattr(stats, f"host_wall_us_{name}") == getattr(stats.host, name) == function([10.0, 20.0, 60.0])
        assert getattr(stats, f"device_wall_us_{name}") == getattr(stats, f"device_us_{name}") == function([1, 2, 6])


def test_a_benchmark_says_what_each_parameter_copied(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b, c = tensors()
    weight = worker.alloc_tensor((128, 128), torch.float32, init=b)
    stats = benchmark(K_add, [a, weight, c], rounds=5, worker=worker)
    first, _, output = K_add.param_names
    assert [(one.parameter, one.direction, one.nbytes) for one in stats.transfers] == [
        (first, "h2d", NBYTES),
        (output, "d2h", NBYTES),
    ]
    assert all(one.us > 0 for one in stats.transfers)
    worker.free_tensor(weight)


def test_the_first_launch_is_kept_apart(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    stats = benchmark(K_add, tensors(), rounds=2, warmup=2, worker=worker)
    assert stats.cold is not None
    assert stats.cold.inv < stats.invocations[0].inv
    assert stats.register_us > 0
    assert stats.stable is None


def test_a_stable_benchmark_ends_with_narrow_intervals_or_says_that_it_did_not(
    K_add: ir.CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pypto.runtime.bench.loop._STABLE_SECONDS", 0.5)
    stats = benchmark(K_add, tensors(), rounds=20, until="stable")
    assert stats.rounds == len(stats.host_wall_us) >= 20
    assert stats.stable == (stats.host.spread <= 0.01 and stats.device.spread <= 0.01)
    with pytest.raises(ValueError, match="until must be \"stable\" or None, got 'bored'"):
        benchmark(K_add, tensors(), until="bored")


def test_an_unsteady_benchmark_gives_up_at_its_deadline(
    K_add: ir.CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pypto.runtime.bench.loop._STABLE_SECONDS", 0.05)
    monkeypatch.setattr("pypto.runtime.bench.loop._STABLE_SPREAD", -1.0)
    assert benchmark(K_add, tensors(), rounds=5, until="stable").stable is False


def test_a_comparison_finds_a_difference_and_invents_none() -> None:
    draw = np.random.default_rng(1)
    base = stats_of(list(draw.normal(100, 5, 200)), list(draw.normal(50, 5, 200)))
    other = stats_of(list(draw.normal(80, 5, 200)), list(draw.normal(50, 5, 200)))
    comparison = other.compare(base)
    assert comparison.host.value == pytest.approx(0.8, abs=0.03)
    assert comparison.host.low < comparison.host.value < comparison.host.high < 1
    assert (comparison.host.word, comparison.device.word) == ("faster", "same")
    assert base.compare(other).host.word == "slower"
    assert str(comparison).startswith(f"host wall {comparison.host} of the baseline: faster\n")
    assert other.compare(base) == comparison, "the same samples give the same interval"


def test_a_machine_that_is_slow_for_a_while_makes_no_difference_between_two_runs_of_the_same() -> None:
    def run(seed: int) -> list[float]:
        # Each sample keeps 0.8 of the deviation of the one before it.
        steps = np.random.default_rng(seed).normal(size=400)
        deviations = np.convolve(steps, 0.8 ** np.arange(50))[300:400]
        return list(100 + 2 * deviations)

    words = [ratio_of_medians(run(2 * pair), run(2 * pair + 1)).word for pair in range(60)]
    # Resampled one by one, samples say "same" in about half of the pairs. An exact interval would in 57 of 60.
    assert words.count("same") >= 48


def test_a_comparison_needs_samples_and_a_benchmark() -> None:
    nothing = BenchmarkStats()
    assert nothing.compare(nothing).host.word == "unknown"
    assert ratio_of_medians([1.0], [0.0]).word == "unknown"
    with pytest.raises(TypeError, match="baseline must be a BenchmarkStats, got dict"):
        nothing.compare({})  # type: ignore[arg-type]


def test_the_verdict_names_what_bounds_a_launch() -> None:
    bound = stats_of([100.0] * 3, [95.0] * 3)
    assert bound.verdict().bound == "device"
    assert str(bound.verdict()).startswith("device-bound: the device works for 95% of a launch")
    hosted = stats_of([100.0] * 3, [10.0] * 3)
    copying = {"run": 100, "run__bind": 5, "run__h2d": 70, "run__h2d__w": 60, "run__h2d__x": 10}
    hosted.invocations = [launch(**copying, run__runner_run__device_wall=10)]
    verdict = hosted.verdict()
    assert (verdict.bound, verdict.device_share) == ("host", pytest.approx(0.1))
    assert verdict.host_costs == {
        "copying arguments to the device": 70.0,
        "entering and leaving the launch": 15.0,
        "binding the arguments": 5.0,
    }
    assert "the host wall is 10.0 times the device's" in str(verdict)
    assert verdict.advice == "", "one launch is no habit"
    hosted.advice = [Advice("unchanged_input", "f", "w", 3, 300, 0.6, "w = worker.from_host(w)")]
    assert hosted.verdict().advice == str(hosted.advice[0])
    assert str(hosted.verdict()).endswith("70.0 us. " + str(hosted.advice[0]))
    bound.advice = hosted.advice
    assert bound.verdict().advice == "", "copies are not what it waits for"
    assert BenchmarkStats().verdict().bound == "unknown"
    assert str(BenchmarkStats().verdict()) == "nothing was measured"


def test_an_interrupted_launch_changes_no_cost() -> None:
    stats = stats_of([100.0] * 3, [10.0] * 3)
    usual = {"run__h2d": 70, "run__h2d__w": 70, "run__runner_run__device_wall": 10}
    stats.invocations = [launch(run=100, **usual), launch(run=9000, **usual), launch(run=101, **usual)]
    assert stats.verdict().host_costs == {
        "copying arguments to the device": 70.0,
        "entering and leaving the launch": 21.0,
    }
    stats.invocations[1] = launch(run=9000, run__h2d=8000, run__h2d__w=8000, run__runner_run__device_wall=10)
    (transfer,) = stats.transfers
    assert transfer.us == 70.0


@pytest.mark.parametrize(("down", "largest"), [(33, "arguments to the device"), (34, "results to the host")])
def test_costs_that_are_nearly_alike_are_named_in_the_order_of_a_launch(down: int, largest: str) -> None:
    stats = stats_of([100.0] * 3, [10.0] * 3)
    copies = {"run__h2d": 30, "run__h2d__x": 30, "run__d2h": down, "run__d2h__y": down}
    stats.invocations = [launch(run=100, **copies, run__runner_run__device_wall=10)]
    assert next(iter(stats.verdict().host_costs)) == f"copying {largest}"
    assert f"the largest host cost is copying {largest}" in str(stats.verdict())


def test_the_verdict_names_results_that_come_back() -> None:
    stats = stats_of([100.0] * 3, [60.0] * 3)
    stats.invocations = [launch(run=100, run__d2h=30, run__d2h__y=30, run__runner_run__device_wall=60)]
    assert stats.verdict().bound == "balanced"
    stats.advice = [Advice("unchanged_input", "f", "w", 3, 300, 0.1, "w = worker.from_host(w)")]
    assert stats.verdict().advice == (
        "'y' of 'f' was downloaded 3 times: 0 bytes, 30% of the host wall. Where the host does not read it, leave it "
        "there:\n    y = worker.from_host(y)  # once; pass it every time, and read it with y.to_host()"
    )
    stats.advice.append(Advice("round_trip", "f", "y", 3, 300, 0.3, "y = worker.from_host(y)"))
    assert stats.verdict().advice == str(stats.advice[1])


def test_a_benchmark_survives_its_json(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    stats = benchmark(K_add, tensors(), rounds=4, worker=worker)
    text = stats.to_json(indent=2)
    again = BenchmarkStats.from_json(text)
    assert again == stats
    assert again.advice
    assert BenchmarkStats.from_dict(json.loads(text)) == stats
    summary = json.loads(text)["summary"]
    assert summary["host_wall_us"]["median"] == stats.host.median
    assert [Transfer(**one) for one in summary["transfers"]] == stats.transfers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the benchmark record is no JSON"),
        ("[]", "this is no benchmark: the key 'pypto_benchmark' is missing"),
        ('{"pypto_benchmark": 99}', "was written in format 99, this version reads up to 1"),
        ('{"pypto_benchmark": 1}', "the benchmark record is damaged: KeyError"),
    ],
)
def test_a_damaged_record_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        BenchmarkStats.from_json(text)
    assert raised.value.code == "bad_benchmark_record"


def test_the_table_shows_times_bytes_and_the_verdict(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    stats = benchmark(K_add, tensors(), rounds=4, worker=worker)
    console = Console(file=io.StringIO(), width=160)
    console.print(stats)
    text = console.file.getvalue()
    for expected in ("host wall", "device wall", "p95", "host to device", f"{NBYTES:,}", f"{stats.host.median:,.1f}"):
        assert expected in text
    assert re.search(rf"register, once +│ +{stats.register_us:,.1f} │", text), "what was paid before the first launch"
    assert stats.verdict().bound in text
    for advice in stats.advice:
        assert text.count(advice.fix) == 1
    html = stats._repr_html_()
    assert html.startswith("<pre")
    assert f"{NBYTES:,}" in html


def test_no_number_of_the_table_is_cut_off_in_a_narrow_terminal() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(BenchmarkStats(device_wall_us=[1234567.8] * 6, host_wall_us=[98765432.1] * 6, rounds=6, warmup=3))
    text = console.file.getvalue()
    assert "…" not in text
    for expected in ("95 % of median", "98,765,432.1..98,765,432.1", "1,234,567.8..1,234,567.8", "outliers"):
        assert expected in text
