"""Matrix products with resident operands, beside the arithmetic peak and the read bandwidth of the same run."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import product_kernels as kernels
import torch
import yardsticks
from device import Bench
from measure import Contest, Result

DTYPES = {"FP32": torch.float32, "BF16": torch.bfloat16}
INT8 = ("INT8", torch.int8, torch.int32)
CUBE = 2.0 * 1024**3
# Rows, inner extent and columns.
ODD = {"1000^3": (1000, 1000, 1000), "1023x1025x1027": (1023, 1025, 1027), "17x4096x4096": (17, 4096, 4096)}


def results(threads: int, seconds: float) -> list[Result]:
    """Squares and odd shapes, few rows, one row, INT8."""
    team = yardsticks.Team(threads)
    rows: list[Result] = []
    for measure in (squares, few_rows, one_row, integers):
        with Bench(threads) as bench:
            rows += measure(bench, team, functools.partial(Contest, threads, seconds))
    return rows


def matrix(rows: int, cols: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers around 0."""
    return (torch.rand(rows, cols) - 0.5).to(dtype)


def squares(bench: Bench, team: yardsticks.Team, contests: Any) -> list[Result]:
    rows: list[Result] = []
    for name, dtype in DTYPES.items():
        contest = contests()
        peak = name.lower()
        contest.add("peak", "run(dtype)", {"run": team.run_peak, "dtype": peak})
        a, b, out = matrix(1024, 1024, dtype), matrix(1024, 1024, dtype), torch.empty(1024, 1024)
        bench.add(contest, kernels.product, a, b, out)
        if dtype == torch.float32:
            for label, (m, k, n) in ODD.items():
                bench.add(contest, kernels.product, matrix(m, k), matrix(k, n), torch.empty(m, n), name=label)
            bench.add(contest, kernels.product_a_trans, a, b, out, name="1024^3, a_trans")
            bench.add(contest, kernels.product_b_trans, a, b, out, name="1024^3, b_trans")
        names = {"mm": torch.mm, "a": a, "b": b, "out": out.to(dtype)}
        contest.add("torch", "mm(a, b, out=out)", names)
        if dtype == torch.float32:
            arrays = {"a": a.numpy(), "b": b.numpy(), "out": out.numpy()}
            contest.add("numpy", "matmul(a, b, out)", arrays | {"matmul": np.matmul})
        times = contest.times()
        target = 0.95 if contest.threads == 1 else 0.93
        rows.append(of_peak(f"matmul 1024^3, {name}", CUBE, team.peak(peak), target, times, contest.threads))
        for label in times.keys() - {"peak", "pypto", "torch", "numpy"}:
            m, k, n = ODD.get(label, (1024, 1024, 1024))
            share = (2.0 * m * k * n / times[label]) / (CUBE / times["pypto"])
            figures = {"pypto": times[label], "1024^3": times["pypto"]}
            more: dict[str, Any] = {"at_least": True, "threads": contest.threads, "figures": figures}
            rows.append(Result(f"matmul {label}", share, 0.88, "of 1024^3", **more))
        bench.free()
    return rows


def of_peak(
    name: str, operations: float, peak: float, target: float | None, times: dict[str, float], threads: int
) -> Result:
    """A product in relation to the peak: `peak` operations take the time of that name."""
    share = (operations / times["pypto"]) / (peak / times["peak"])
    note = f"{operations / times['pypto'] / 1e6:.0f} GFLOP/s, peak {peak / times['peak'] / 1e6:.0f}"
    more: dict[str, Any] = {"note": note, "at_least": True, "threads": threads, "figures": times}
    return Result(name, share, target, "of the peak", **more)


def few_rows(bench: Bench, team: yardsticks.Team, contests: Any) -> list[Result]:
    rows = []
    for name, dtype in DTYPES.items():
        contest = contests()
        contest.add("peak", "run(dtype)", {"run": team.run_peak, "dtype": name.lower()})
        x, weight, out = matrix(16, 1024, dtype), matrix(1024, 4096, dtype), torch.empty(16, 4096)
        bench.add(contest, kernels.product, x, weight, out)
        names = {"mm": torch.mm, "a": x, "b": weight, "out": out.to(dtype)}
        contest.add("torch", "mm(a, b, out=out)", names)
        target = 0.94 if contest.threads == 1 else None
        label = f"x[16,1024] @ W[1024,4096], {name}"
        operations = 2.0 * 16 * 1024 * 4096
        rows.append(of_peak(label, operations, team.peak(name.lower()), target, contest.times(), contest.threads))
        bench.free()
    return rows


def one_row(bench: Bench, team: yardsticks.Team, contests: Any) -> list[Result]:
    """Several weights in turn, 192 MiB together: six times what the caches hold."""
    rows = []
    read = 256 << 20
    held = yardsticks.buffer(read)
    for name, dtype, out_dtype in (*((n, d, torch.float32) for n, d in DTYPES.items()), INT8):
        contest = contests()
        contest.add("reading 256 MiB", "read(held)", {"read": team.read, "held": held})
        one = matrix(4096, 4096).mul(200 if dtype == torch.int8 else 1).to(dtype)
        weights = [one] * (12 // one.itemsize)
        x = one[:1].clone()
        bench.add_in_turn(contest, kernels.product, x, weights, torch.empty(1, 4096, dtype=out_dtype), "pypto")
        times = contest.times()
        share = (one.nbytes / times["pypto"]) / (read / times["reading 256 MiB"])
        note = f"{one.nbytes / times['pypto'] / 1e6:.1f} GB/s, reading {read / times['reading 256 MiB'] / 1e6:.1f}"
        more: dict[str, Any] = {"note": note, "at_least": True, "threads": contest.threads, "figures": times}
        rows.append(Result(f"x[1,4096] @ W[4096,4096], {name}", share, 0.9, "of the read bandwidth", **more))
        bench.free()
    return rows


def integers(bench: Bench, team: yardsticks.Team, contests: Any) -> list[Result]:
    contest = contests()
    a, b = (torch.randint(-128, 128, (1024, 1024), dtype=torch.int8) for _ in range(2))
    bench.add(contest, kernels.product, a, b, torch.empty(1024, 1024, dtype=torch.int32))
    floats = matrix(1024, 1024)
    bench.add(contest, kernels.product, floats, floats.clone(), torch.empty(1024, 1024), name="FP32")
    times = contest.times()
    more: dict[str, Any] = {"at_least": True, "threads": contest.threads, "figures": times}
    return [Result("matmul 1024^3, INT8", times["FP32"] / times["pypto"], 3.5, "of our FP32's speed", **more)]
