"""Fixtures that all Python tests share."""

from collections.abc import Iterator

import pytest

import sample_kernels
from pypto import ir
from pypto.runtime import ChipWorker, RunConfig


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--heavy", action="store_true", help="also run the tests that take gigabytes or many seconds")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--heavy"):
        return
    skip = pytest.mark.skip(reason="heavy; runs with --heavy")
    for item in items:
        if item.get_closest_marker("heavy"):
            item.add_marker(skip)


@pytest.fixture
def worker() -> Iterator[ChipWorker]:
    """An open worker of the simulated chip, found by nobody but the test; closed afterwards."""
    worker = ChipWorker(config=RunConfig(platform="a2a3sim"))
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def K_add() -> ir.CompiledProgram:
    """c = a + b on one 128x128 FP32 tile."""
    return sample_kernels.compile_add()


@pytest.fixture(scope="session")
def K_mul() -> ir.CompiledProgram:
    """c = a * b on one 128x128 FP32 tile."""
    return sample_kernels.compile_mul()
