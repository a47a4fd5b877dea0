"""Elementwise chains and row operations on resident tensors, beside the peers with their results given."""

from __future__ import annotations

import functools
from typing import Any

import kernels
import numpy as np
import peers
import row_kernels
import torch
from device import Bench
from measure import Contest, Result, against

EPSILON = 1e-5

NUMBA_RMS = """
def rms(x, weight, out):
    for row in prange(x.shape[0]):
        total = x.dtype.type(0)
        for i in range(x.shape[1]):
            total += x[row, i] * x[row, i]
        scale = x.dtype.type(1) / math.sqrt(total / x.dtype.type(x.shape[1]) + x.dtype.type(1e-5))
        for i in range(x.shape[1]):
            out[row, i] = x[row, i] * scale * weight[i]
"""
NUMBA_LAYER = """
def layer(x, weight, bias, out):
    for row in prange(x.shape[0]):
        total, count = x.dtype.type(0), x.dtype.type(x.shape[1])
        for i in range(x.shape[1]):
            total += x[row, i]
        mean, squares = total / count, x.dtype.type(0)
        for i in range(x.shape[1]):
            squares += (x[row, i] - mean) * (x[row, i] - mean)
        scale = x.dtype.type(1) / math.sqrt(squares / count + x.dtype.type(1e-5))
        for i in range(x.shape[1]):
            out[row, i] = (x[row, i] - mean) * scale * weight[i] + bias[i]
"""


def results(threads: int, seconds: float) -> list[Result]:
    """All rows of this question; targets that are stated for one thread are compared at one thread."""
    rows: list[Result] = []
    with Bench(threads) as bench:
        for measure in (add, softmax, rms_norm, layer_norm, eight_in_place, eight_fresh):
            rows += measure(bench, Contest(threads, seconds))
            bench.free()
    return rows


def at_one(contest: Contest, target: float) -> float | None:
    """The target of a row that has one for one thread only."""
    return target if contest.threads == 1 else None


def add(bench: Bench, contest: Contest) -> list[Result]:
    a, b, out = torch.randn(128, 128), torch.randn(128, 128), torch.empty(128, 128)
    bench.add(contest, kernels.add, a, b, out)
    contest.add("torch", "add(a, b, out=out)", {"add": torch.add, "a": a, "b": b, "out": out})
    contest.add("numpy", "add(a, b, out)", {"add": np.add, "a": a.numpy(), "b": b.numpy(), "out": out.numpy()})
    return [against("add, 128x128", 0.75, contest.times(), ["torch"], threads=contest.threads)]


def softmax(bench: Bench, contest: Contest) -> list[Result]:
    x = torch.randn(4096, 1024)
    outs = [torch.empty_like(x) for _ in range(3)]
    bench.add(contest, row_kernels.softmax, x, outs[0])
    contest.add("torch", "softmax(x, -1, out=out)", {"softmax": torch.softmax, "x": x, "out": outs[0]})
    peers.add_onnxruntime(contest, [("Softmax", ["x"], {"axis": -1})], {"x": x}, outs[1])
    peers.add_openvino(contest, lambda opset, value: opset.softmax(value, 1), x, outs[2])
    times = contest.times()
    compare = functools.partial(against, times=times, threads=contest.threads)
    return [
        compare("softmax, 4096x1024", at_one(contest, 0.47), peers=["torch"]),
        compare("softmax, 4096x1024, beside ONNX Runtime", 1.0, peers=["ONNX Runtime"]),
    ]


def rms_norm(bench: Bench, contest: Contest) -> list[Result]:
    x, weight = torch.randn(4096, 4096), torch.randn(1, 4096)
    outs = [torch.empty_like(x) for _ in range(3)]
    bench.add(contest, row_kernels.rms_norm, x, weight, outs[0])

    def plain(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight)

    peers.add_compiled(contest, plain, (x, weight, outs[0]))
    peers.add_numba(contest, NUMBA_RMS, "rms", (x, weight[0], outs[1]))
    node = ("SimplifiedLayerNormalization", ["x", "weight"], {"axis": -1, "epsilon": EPSILON})
    peers.add_onnxruntime(contest, [node], {"x": x, "weight": weight[0]}, outs[2])
    times = contest.times()
    return [against("rms norm, 4096x4096", at_one(contest, 0.65), times, threads=contest.threads)]


def layer_norm(bench: Bench, contest: Contest) -> list[Result]:
    x, weight, bias = torch.randn(4096, 4096), torch.randn(1, 4096), torch.randn(1, 4096)
    outs = [torch.empty_like(x) for _ in range(3)]
    bench.add(contest, row_kernels.layer_norm, x, weight, bias, outs[0])

    def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(torch.nn.functional.layer_norm(x, (4096,), weight, bias, EPSILON))

    peers.add_compiled(contest, plain, (x, weight[0], bias[0], outs[0]))
    peers.add_numba(contest, NUMBA_LAYER, "layer", (x, weight[0], bias[0], outs[1]))
    node = ("LayerNormalization", ["x", "weight", "bias"], {"axis": -1, "epsilon": EPSILON})
    peers.add_onnxruntime(contest, [node], {"x": x, "weight": weight[0], "bias": bias[0]}, outs[2])
    times = contest.times()
    return [against("layer norm, 4096x4096", at_one(contest, 0.45), times, threads=contest.threads)]


def eight_in_place(bench: Bench, contest: Contest) -> list[Result]:
    x = torch.randn(4096, 4096)
    bench.add(contest, row_kernels.eight_in_place, x)
    peers.add_jax(contest, jax_eight, x, donate=True)
    # Shown beside it: a peer that rewrites the same memory needs no allocation either.
    names = {"x": x.clone(), "eight": torch_eight_in_place}
    contest.add("torch, in place", "eight(x)", names)
    times = contest.times()
    return [against("eight operations, 4096x4096, in place", 1.0, times, ["JAX"], threads=contest.threads)]


def eight_fresh(bench: Bench, contest: Contest) -> list[Result]:
    x = torch.randn(4096, 4096)
    handle = bench.worker.register(row_kernels.eight.compile(x, x))
    names: dict[str, Any] = {"w": bench.worker, "handle": handle, "x": bench.resident(x), "dtype": x.dtype}
    statement = "out = w.alloc_tensor((4096, 4096), dtype); handle(x, out); w.free_tensor(out)"
    contest.add("pypto", statement, names)
    contest.add("torch", "eight(x)", {"eight": torch_eight, "x": x})
    times = contest.times()
    return [against("eight operations, 4096x4096, into a new tensor", 0.02, times, threads=contest.threads)]


def torch_eight(x: torch.Tensor) -> torch.Tensor:
    """Eight operations, each a pass over memory that makes a tensor."""
    return torch.clamp(torch.clamp(x * 1.5 + 0.25, min=0.0) * 0.75 + 0.5, max=3.0).sub(0.125).mul(1.25)


def torch_eight_in_place(x: torch.Tensor) -> torch.Tensor:
    """The same within `x`."""
    return x.mul_(1.5).add_(0.25).clamp_(min=0.0).mul_(0.75).add_(0.5).clamp_(max=3.0).sub_(0.125).mul_(1.25)


def jax_eight(numpy: Any, x: Any) -> Any:
    """The same for JAX."""
    return (numpy.minimum(numpy.maximum(x * 1.5 + 0.25, 0.0) * 0.75 + 0.5, 3.0) - 0.125) * 1.25
