"""`pypto_benchmark`: ratios against a peer, and their baselines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pypto.pytest_plugin.ratios import Measured, measure, regressed

TIMED = """
from pypto.pytest_plugin import ratios

now = 0.0

def waits(microseconds):
    def work():
        global now
        now += microseconds / 1e6
    return work

def test_speed(pypto_benchmark, monkeypatch):
    monkeypatch.setattr(ratios, "_clock", lambda: now)
    found = pypto_benchmark(waits({kernel}), against=waits(200))
    assert found.low <= found.ratio <= found.high
"""
KEY = "test_timed.py::test_speed"


def timed(kernel: int) -> str:
    """A test whose kernel takes `kernel` us and whose peer takes 200, on a clock that only they move."""
    return TIMED.replace("{kernel}", str(kernel))


@pytest.fixture
def suite(pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]) -> Any:
    """Runs a file of always the same name, as baselines know tests by their names."""

    def suite(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_timed=source)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options)

    return suite


def baseline(pytester: pytest.Pytester) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((pytester.path / "pypto_benchmarks.json").read_text())
    return found


def test_without_a_baseline_the_test_passes_and_says_how_to_write_one(suite: Any, pytester: pytest.Pytester) -> None:
    result = suite(timed(400))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [f"{KEY}: 2.000 [[]2.000..2.000] (400.0 us against 200.0 us); no baseline: --pypto-benchmark-update writes it"]
    )
    assert not (pytester.path / "pypto_benchmarks.json").exists()


def test_a_regression_fails_and_an_update_accepts_it(suite: Any, pytester: pytest.Pytester) -> None:
    suite(timed(200), "--pypto-benchmark-update").assert_outcomes(passed=1)
    written = baseline(pytester)
    assert written["ratios"][KEY]["ratio"] == pytest.approx(1)  # sums of seconds, rounded
    suite(timed(200)).assert_outcomes(passed=1)
    slower = suite(timed(400))
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(
        [
            f"{KEY} got slower against its peer: +100%, 10% are allowed",
            "  now       2.000 [[]2.000..2.000] (400.0 us against 200.0 us)",
            "  baseline  1.000 [[]1.000..1.000] (200.0 us against 200.0 us)",
            f"If that is meant, write the new baseline: pytest {KEY} --pypto-benchmark-update",
        ]
    )
    assert "another processor" not in slower.stdout.str()
    assert baseline(pytester) == written, "only an update writes"
    suite(timed(400), "--pypto-benchmark-update").assert_outcomes(passed=1)
    suite(timed(400)).assert_outcomes(passed=1)


def test_a_baseline_of_another_processor_is_called_one(suite: Any, pytester: pytest.Pytester) -> None:
    suite(timed(200), "--pypto-benchmark-update")
    record = baseline(pytester)
    record["ratios"][KEY]["processor"] = "Z80"
    (pytester.path / "pypto_benchmarks.json").write_text(json.dumps(record))
    suite(timed(400)).stdout.fnmatch_lines(
        ["The baseline in pypto_benchmarks.json is that of another processor: 'Z80'*"]
    )


def test_an_update_of_one_test_keeps_the_others(suite: Any, pytester: pytest.Pytester) -> None:
    two = timed(200).replace(
        "against=waits(200))", "against=waits(200), name='a')\n    pypto_benchmark(waits(9), waits(9), name='b')"
    )
    suite(two, "--pypto-benchmark-update").assert_outcomes(passed=1)
    assert list(baseline(pytester)["ratios"]) == [f"{KEY}[a]", f"{KEY}[b]"]
    suite(timed(200), "--pypto-benchmark-update")
    assert list(baseline(pytester)["ratios"]) == [KEY, f"{KEY}[a]", f"{KEY}[b]"]


def test_beside_other_tests_nothing_is_measured(suite: Any, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_configure(config): config.workerinput = {}")  # as pytest-xdist does
    result = suite(timed(200), "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*a benchmark needs the machine for itself: run it without -n"])


def test_the_file_s_place_is_a_setting(suite: Any, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npypto_benchmark_file = speed.json\n")
    suite(timed(200), "--pypto-benchmark-update").assert_outcomes(passed=1)
    assert KEY in (pytester.path / "speed.json").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "holds no baselines"),
        ('{"pypto_ratios": 1, "ratios": {"a": {}}}', "holds no baselines"),
        ('{"pypto_ratios": 99, "ratios": {}}', "was written by a newer version"),
    ],
)
def test_a_damaged_file_is_said_to_be_one(suite: Any, pytester: pytest.Pytester, text: str, message: str) -> None:
    Path(pytester.path / "pypto_benchmarks.json").write_text(text)
    result = suite(timed(200))
    result.assert_outcomes(failed=1)
    assert message in result.stdout.str()


@pytest.mark.parametrize(
    ("new", "tolerance", "worse"),
    [
        ((1.05, 1.04, 1.06), 0.1, False),
        ((1.20, 1.15, 1.25), 0.1, True),
        ((1.20, 1.01, 1.40), 0.1, False),
        ((1.20, 1.15, 1.25), 0.3, False),
        ((0.50, 0.45, 0.55), 0.0, False),
    ],
)
def test_a_regression_lies_beyond_the_tolerance_and_beyond_chance(
    new: tuple[float, float, float], tolerance: float, worse: bool
) -> None:
    old = Measured(1.0, 0.98, 1.02, 10.0, 10.0)
    assert regressed(Measured(*new, 10.0, 10.0), old, tolerance) is worse
    assert not regressed(Measured(*new, 10.0, 10.0), None, tolerance)


def test_real_time_is_measured_too() -> None:
    found = measure(lambda: sum(range(4000)), lambda: sum(range(1000)), rounds=100)
    assert 1 < found.low <= found.ratio <= found.high, "four times the work"
    assert found.kernel_us > found.peer_us > 0


def test_both_are_called_in_turn() -> None:
    calls: list[str] = []
    measure(lambda: calls.append("kernel"), lambda: calls.append("peer"), rounds=4)
    changes = "".join(name[0] for name, before in zip(calls, ["", *calls], strict=False) if name != before)
    # Settling the numbers of calls goes kernel, peer; then the rounds kp pk kp pk, equal neighbours being one.
    assert changes == "kpkpkpk"


@pytest.mark.parametrize(("words", "what"), [("3, print", "the kernel is 3:"), ("print, None", "the peer is None:")])
def test_what_cannot_be_called_is_refused_with_what_can(
    run: Callable[..., pytest.RunResult], words: str, what: str
) -> None:
    result = run(f"def test_it(pypto_benchmark):\n    pypto_benchmark({words})\n")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert f"TypeError: pypto_benchmark() measures callables without arguments; {what}" in text
    assert "pass a function, as in lambda: handle(x, out)" in text
