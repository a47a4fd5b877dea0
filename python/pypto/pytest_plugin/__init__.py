"""The pytest plugin: workers, leak checks, ratios that must not get worse, and the chip's test modes as options.

pytest loads it in every run on a machine where `pypto` is installed, so this file imports pytest alone; everything else
is imported by the first test or option that needs it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pypto.pytest_plugin.ratios import Ratios
    from pypto.runtime import ChipWorker, RunConfig

__all__ = ["pypto_benchmark", "pypto_config", "pypto_leak_check", "pypto_worker"]

_FAILED = pytest.StashKey[bool]()
_WATCHING = {"pypto_worker", "pypto_leak_check"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options and settings."""
    group = parser.getgroup("pypto", "pypto: tile kernels")
    group.addoption(
        "--pypto-poison", action="store_true", help="Fill new device memory with NaN patterns and guard its ends."
    )
    group.addoption(
        "--pypto-schedule-seed", metavar="N", help="Run independent tasks in a random order that follows from N."
    )
    group.addoption(
        "--pypto-sanitize", metavar="NAMES", help="Check each launch: race, uninit, bounds, separated by commas."
    )
    group.addoption(
        "--pypto-benchmark-update", action="store_true", help="Write the measured ratios into the file of baselines."
    )
    parser.addini(
        "pypto_benchmark_file",
        "File of the baselines, relative to the root directory.",
        default="pypto_benchmarks.json",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Turns the options into the environment variables of the chip, so that every worker follows, in children too."""
    wanted = {
        "PYPTO_POISON": "1" if config.getoption("--pypto-poison") else None,
        "PYPTO_SCHEDULE_SEED": config.getoption("--pypto-schedule-seed"),
        "PYPTO_SANITIZE": config.getoption("--pypto-sanitize"),
    }
    if any(value is not None for value in wanted.values()):
        from pypto.pytest_plugin.modes import apply

        apply(config, {name: value for name, value in wanted.items() if value is not None})


@pytest.hookimpl(hookwrapper=True)  # pytest 7 knows no other kind, and must not stumble here
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Remembers which tests failed: what they leave behind is no second fault."""
    outcome = yield
    if _WATCHING.intersection(getattr(item, "fixturenames", ())) and outcome.get_result().failed:
        item.stash[_FAILED] = True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Shows the ratios that were measured, if any were."""
    import sys

    if "pypto.pytest_plugin.ratios" in sys.modules:
        sys.modules["pypto.pytest_plugin.ratios"].summarise(terminalreporter, config)


@pytest.fixture
def pypto_config() -> RunConfig:
    """How `pypto_worker` is opened: `RunConfig()`. Override it, or parametrize a test with it."""
    from pypto.runtime import RunConfig

    return RunConfig()


@pytest.fixture
def pypto_worker(request: pytest.FixtureRequest, pypto_config: RunConfig) -> Iterator[ChipWorker]:
    """An open worker that compiled programs find while the test runs.

    A test that passes and leaves device memory behind gets an error that names each tensor and the line that
    allocated it.
    """
    from pypto.pytest_plugin import leaks
    from pypto.runtime import ChipWorker

    with ChipWorker(pypto_config) as worker:
        yield worker
        left = leaks.take(worker)
    leaks.refuse(left, failed=request.node.stash.get(_FAILED, False))


@pytest.fixture
def pypto_leak_check(request: pytest.FixtureRequest) -> Iterator[None]:
    """The same check for all other workers: those of fixtures with a wider scope, and implicit ones."""
    from pypto.pytest_plugin import leaks

    before = leaks.snapshot()
    yield
    leaks.refuse(leaks.since(before), failed=request.node.stash.get(_FAILED, False))


@pytest.fixture
def pypto_benchmark(request: pytest.FixtureRequest) -> Ratios:
    """Measures a callable against another one, and fails the test where the ratio of their times got worse."""
    from pypto.pytest_plugin.ratios import Ratios

    return Ratios(request.config, request.node.nodeid)
