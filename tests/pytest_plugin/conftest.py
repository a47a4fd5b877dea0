"""Runs of pytest inside pytest: the plugin under test is the installed one."""

import os
from collections.abc import Callable

import pytest

from pypto import ir

KERNEL = """
import pytest
import torch
import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig

@pl.jit
def double(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)
    return out
"""


@pytest.fixture
def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, K_add: ir.CompiledProgram
) -> Callable[..., pytest.RunResult]:
    """Runs tests, given as source, below the kernel `double`.

    In this process, as importing torch takes seconds; what an inner run imports it forgets afterwards, so everything
    that compiling and launching needs (`K_add`) is imported before.
    """
    for name in ("PYPTO_POISON", "PYPTO_SANITIZE", "PYPTO_SCHEDULE_SEED", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", os.fspath(pytester.path / "build"))

    def run(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(KERNEL + source)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options)

    return run
