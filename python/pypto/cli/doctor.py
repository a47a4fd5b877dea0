"""`pypto doctor`: this machine, this installation, and what is slow here."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, RunConfig, machine

_COPY_BYTES = 64 << 20
_SLOW_LAUNCH_US = 5.0
_SLOW_COPY_GB_S = 3.0


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        facts: What is what, by name.
        self_test: Empty where the simulated chip computes what torch computes; else what was wrong.
        findings: What is slow or missing here, each with what to do about it.
    """

    facts: dict[str, str]
    self_test: str
    findings: list[str]

    @property
    def healthy(self) -> bool:
        """Whether the self-test passed."""
        return not self.self_test

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "facts": self.facts,
            "self_test": self.self_test or "passed",
            "findings": self.findings,
            "healthy": self.healthy,
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The facts, the self-test, and what to do."""
        table = Table(show_header=False)
        for name, value in self.facts.items():
            table.add_row(name, value)
        yield table
        yield f"self-test: {self.self_test or 'passed'}"
        for finding in self.findings:
            yield f"- {finding}"
        if not self.findings:
            yield "nothing here slows the simulated chip down"


_ADD = """
@pl.program
class Add:
    @pl.function(type=pl.FunctionType.InCore)
    def add(
        self,
        a: pl.Tensor[[16, 64], pl.FP32],
        b: pl.Tensor[[16, 64], pl.FP32],
        out: pl.Out[pl.Tensor[[16, 64], pl.FP32]],
    ) -> pl.Tensor[[16, 64], pl.FP32]:
        total = pl.add(pl.load(a, [0, 0], [16, 64]), pl.load(b, [0, 0], [16, 64]))
        return pl.store(total, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        a: pl.Tensor[[16, 64], pl.FP32],
        b: pl.Tensor[[16, 64], pl.FP32],
        out: pl.Out[pl.Tensor[[16, 64], pl.FP32]],
    ) -> pl.Tensor[[16, 64], pl.FP32]:
        return self.add(a, b, out)
"""


def examine() -> Report:
    """Looks at everything; takes about a second."""
    facts = machine.facts()
    findings: list[str] = []
    self_test = ""
    try:
        measured = _self_test()
    except Exception as error:  # Whatever goes wrong here is the answer that the user asked for.
        self_test = f"{type(error).__name__}: {error}"
    else:
        facts.update(measured.facts)
        findings += measured.findings
        self_test = measured.wrong
    return Report(facts, self_test, findings + _advice(facts))


@dataclass(frozen=True)
class _Measured:
    facts: dict[str, str]
    findings: list[str]
    wrong: str


def _self_test() -> _Measured:
    a, b = torch.randn(16, 64), torch.randn(16, 64)
    out = torch.empty(16, 64)
    with tempfile.TemporaryDirectory() as directory, ChipWorker(RunConfig()) as worker:
        begin = time.perf_counter()
        compiled = ir.compile(pl.parse_program(_ADD), output_dir=directory, dump_passes=False)
        compile_ms = (time.perf_counter() - begin) * 1e3
        handle = worker.register(compiled)
        resident = [worker.alloc_tensor((16, 64), torch.float32, init=one) for one in (a, b, out)]
        handle(a, b, out)
        wrong = "" if torch.equal(out, a + b) else "the simulated chip adds two tensors differently from torch"
        launch_us = _best(lambda: handle(*resident), 2000) * 1e6
        host = torch.zeros(_COPY_BYTES, dtype=torch.uint8)
        big = worker.alloc_tensor((_COPY_BYTES,), torch.uint8, init=host)
        upload = _COPY_BYTES / _best(lambda: worker.copy_to(big.data_ptr, host.data_ptr(), _COPY_BYTES), 5) / 1e9
        for tensor in (*resident, big):
            worker.free_tensor(tensor)
    facts = {
        "compile of a small kernel": f"{compile_ms:.1f} ms",
        "launch of a small kernel": f"{launch_us:.2f} us",
        "upload of 64 MiB": f"{upload:.1f} GB/s",
    }
    findings = []
    if launch_us > _SLOW_LAUNCH_US:
        findings.append(
            f"a launch takes {launch_us:.1f} us where 0.3 us are usual: is this a debug build? "
            f"Build with `maturin develop --release`, and look at the load of the machine"
        )
    if upload < _SLOW_COPY_GB_S:
        findings.append(f"copies reach {upload:.1f} GB/s: keep weights on the device, w.alloc_tensor(..., init=weight)")
    return _Measured(facts, findings, wrong)


def _best(work: Callable[[], object], times: int) -> float:
    """Seconds of the quickest of `times` runs."""
    found = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - begin)
    return found


def _advice(facts: dict[str, str]) -> list[str]:
    found = []
    if facts["huge pages"] == "never":
        found.append(
            "huge pages are off, so fresh device memory costs five times as much to touch: "
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
        )
    if "avx2" not in facts["vector instructions"]:
        found.append("this processor has no AVX2: kernels run in portable code, at about a quarter of its speed")
    if facts["PYPTO_ISA"] != "not set":
        found.append(f"PYPTO_ISA={facts['PYPTO_ISA']} holds kernels to that instruction set: unset it for full speed")
    cpus = len(os.sched_getaffinity(0))
    if os.getloadavg()[0] > cpus + 1:
        found.append(f"the load is {facts['load']} on {cpus} CPUs: others slow this process down, and times vary")
    if cpus == 1:
        found.append("this process may use one CPU: independent tasks run one after the other")
    return found
