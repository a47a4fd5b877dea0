"""Fixtures that all Python tests share. They import what they need, so that tests of a part need only that part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pypto import ir
    from pypto.runtime import ChipWorker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--heavy", action="store_true", help="also run the tests that take gigabytes or many seconds")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--heavy"):
        return
    skip = pytest.mark.skip(reason="heavy; runs with --heavy")
    for item in items:
        if item.get_closest_marker("heavy"):
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def _build_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests compile and measure, child processes included, lands neither in the source tree nor in a home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path_factory.mktemp("build_output")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def worker() -> Iterator[ChipWorker]:
    """An open worker of the simulated chip, found by nobody but the test; closed afterwards."""
    from pypto.runtime import ChipWorker, RunConfig

    worker = ChipWorker(config=RunConfig(platform="a2a3sim"))
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def K_add() -> ir.CompiledProgram:
    """c = a + b on one 128x128 FP32 tile."""
    import sample_kernels

    return sample_kernels.compile_add()


@pytest.fixture(scope="session")
def K_mul() -> ir.CompiledProgram:
    """c = a * b on one 128x128 FP32 tile."""
    import sample_kernels

    return sample_kernels.compile_mul()
