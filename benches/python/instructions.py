"""The instruction set that `PYPTO_ISA` names, on one thread, beside the quickest plain C for this processor."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import product_kernels
import row_kernels
import torch
import yardsticks
from device import Bench
from measure import Contest, Result

SHARES = {"avx2": 0.8, "generic": 0.25}


def results(threads: int, seconds: float) -> list[Result]:
    """Softmax, the chain and a product."""
    isa = os.environ["PYPTO_ISA"]
    x = torch.randn(4096, 1024)
    large = torch.randn(4096, 4096)
    a, b = torch.rand(1024, 1024) - 0.5, torch.rand(1024, 1024) - 0.5
    out = torch.empty(1024, 1024)
    soft = torch.empty_like(x)
    cases: list[tuple[str, Any, tuple[torch.Tensor, ...], str, tuple[int, ...]]] = [
        ("softmax, 4096x1024", row_kernels.softmax, (x, soft), "plain_softmax", (4096, 1024)),
        ("eight operations, 4096x4096, in place", row_kernels.eight_in_place, (large,), "plain_eight", (4096 * 4096,)),
        ("matmul 1024^3", product_kernels.product, (a, b, out), "plain_matmul", (1024,)),
    ]
    rows = []
    for name, kernel, tensors, function, sizes in cases:
        contest = Contest(threads, seconds)
        arguments = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
        arguments += [ctypes.c_size_t(size) for size in sizes]
        with Bench(threads) as bench:
            bench.add(contest, kernel, *tensors)
            for compiler, flags in yardsticks.PLAIN.items():
                run = getattr(yardsticks.library(flags), function)
                contest.add(compiler, "run(*arguments)", {"run": run, "arguments": arguments})
            times = contest.times()
        share = min(times[compiler] for compiler in yardsticks.PLAIN) / times["pypto"]
        more: dict[str, Any] = {"at_least": True, "threads": threads, "figures": times}
        rows.append(Result(f"{isa}: {name}", share, SHARES[isa], "of plain C's speed", **more))
    return rows
