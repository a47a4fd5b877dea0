"""Elementwise chains and row operations on resident tensors, beside torch with its results given, all on one thread."""

from __future__ import annotations

from typing import Any

import chain_kernels as kernels
import torch
from measure import Paired, Result, quickest

from pypto.runtime import ChipWorker, RunConfig


def results() -> list[Result]:
    """One core beside torch on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return beside_torch()
    finally:
        torch.set_num_threads(threads)


def beside_torch() -> list[Result]:
    """Each kernel in turn with the same arithmetic in torch."""
    a, b, c = torch.randn(128, 128), torch.randn(128, 128), torch.empty(128, 128)
    x = torch.randn(4096, 1024)
    y = torch.empty_like(x)
    large, weight, bias = torch.randn(4096, 4096), torch.randn(1, 4096), torch.randn(1, 4096)
    normed, mean, scale = torch.empty_like(large), torch.empty(4096, 1), torch.empty(4096, 1)
    names: dict[str, Any] = {"a": a, "b": b, "c": c, "x": x, "y": y, "large": large, "add": torch.add}
    names |= {
        "softmax": torch.softmax,
        "layer": torch.ops.aten.native_layer_norm.out,
        "eight": eight,
        "weight": weight[0],
    }
    names |= {"bias": bias[0], "normed": normed, "mean": mean, "scale": scale}
    layer = "layer(large, [4096], weight, bias, 1e-5, out0=normed, out1=mean, out2=scale)"
    rows = [
        ("add, 128x128", 0.75, kernels.add, (a, b, c), "add(a, b, out=c)", 500),
        ("softmax, 4096x1024", 0.47, kernels.softmax, (x, y), "softmax(x, -1, out=y)", 1),
        ("layer norm, 4096x4096", 0.45, kernels.layer_norm, (large, weight, bias, normed), layer, 1),
        ("eight operations, 4096x4096", 0.02, kernels.eight, (large, normed), "eight(large)", 1),
    ]
    with ChipWorker(config=RunConfig(cores=1)) as w:
        return [
            row(name, target, on_device(w, kernel, args, torch_call, names, calls))
            for name, target, kernel, args, torch_call, calls in rows
        ]


def on_device(
    w: ChipWorker, kernel: Any, args: tuple[torch.Tensor, ...], torch_call: str, names: dict[str, Any], calls: int
) -> Paired:
    """The kernel on resident copies of `args`, in turn with a statement of torch."""
    resident = [w.alloc_tensor(tensor.shape, tensor.dtype, init=tensor) for tensor in args]
    own = {f"resident{i}": tensor for i, tensor in enumerate(resident)}
    handle = w.register(kernel.compile(*args))
    times = quickest(f"handle({', '.join(own)})", torch_call, names | own | {"handle": handle}, calls=calls)
    for tensor in resident:
        w.free_tensor(tensor)
    return times


def eight(x: torch.Tensor) -> torch.Tensor:
    """Eight operations, each a pass over memory."""
    return torch.clamp(torch.clamp(x * 1.5 + 0.25, min=0.0) * 0.75 + 0.5, max=3.0).sub(0.125).mul(1.25)


def row(name: str, target: float, times: Paired) -> Result:
    """A ratio to torch's time as a result."""
    note = f"{times.first_ns / 1e6:.4g} ms, torch {times.second_ns / 1e6:.4g} ms"
    return Result(name, times.ratio, target, "of torch", note=note)
