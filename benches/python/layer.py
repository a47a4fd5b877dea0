"""Attention, and the decoder layer of `examples/` with resident weights and cache, beside torch."""

from __future__ import annotations

import functools
import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import peers
import product_kernels
import torch
from device import Bench
from measure import Contest, Result, against

EXAMPLE = Path(__file__).parents[2] / "examples" / "models" / "llama_layer.py"
POSITION = 64


def results(threads: int, seconds: float) -> list[Result]:
    """One head, then the layer for 1 and 16 sequences."""
    contests = functools.partial(Contest, threads, seconds)
    with Bench(threads) as bench:
        rows = attention(bench, contests())
        for batch in (1, 16):
            bench.free()
            rows += decoder(bench, contests(), batch)
    return rows


def attention(bench: Bench, contest: Contest) -> list[Result]:
    q, k, v = (torch.randn(1024, 128) for _ in range(3))
    bench.add(contest, product_kernels.attention, q, k, v, torch.empty(1024, 128))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    batched = {name: tensor[None, None] for name, tensor in (("q", q), ("k", k), ("v", v))}
    contest.add("torch SDPA", "sdpa(q, k, v)", batched | {"sdpa": sdpa})
    target = 0.88 if contest.threads == 1 else None
    return [against("attention, 1 head, 1024x128", target, contest.times(), threads=contest.threads)]


def example(batch: int) -> ModuleType:
    """The example as a module of its own, for another number of sequences."""
    text = EXAMPLE.read_text()
    assert "\nBATCH = 8\n" in text, "the example says how many sequences it has"
    # The file stays until the process ends: kernels are compiled from their source when they are needed.
    directory = tempfile.mkdtemp()
    path = Path(directory) / f"llama_layer_{batch}.py"
    path.write_text(text.replace("\nBATCH = 8\n", f"\nBATCH = {batch}\n"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "a file can be imported"
    assert spec.loader is not None, "a file can be imported"
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def decoder(bench: Bench, contest: Contest, batch: int) -> list[Result]:
    """A step of every sequence at position `POSITION`: weights and cache stay, the token's rows are host tensors."""
    model: Any = example(batch)
    weights = dict(model.make_weights())
    frequencies = (10_000.0 ** (-torch.arange(model.HALF) / model.HALF)).reshape(1, model.HALF)
    caches = [torch.randn(batch, model.KV_HEADS, model.TOKENS, model.DIM).to(torch.bfloat16) for _ in range(2)]
    held = [bench.resident(tensor) for tensor in (frequencies, *weights.values(), *caches)]
    hidden, positions = torch.randn(batch, model.HIDDEN), torch.full((batch, 1), POSITION, dtype=torch.int32)
    out = torch.empty(batch, model.HIDDEN)
    compiled = model.decoder_layer.compile(hidden, positions, frequencies, *weights.values(), *caches, out)
    names = {"handle": bench.worker.register(compiled), "hidden": hidden, "positions": positions, "held": held}
    contest.add("pypto", "handle(hidden, positions, *held, out)", names | {"out": out})
    for label, dtype in (("torch BF16", torch.bfloat16), ("torch FP32", torch.float32)):
        step = Step(model, {name: weight.to(dtype) for name, weight in weights.items()}, frequencies, caches, dtype)
        contest.add(label, "step(hidden)", {"step": step, "hidden": hidden})
        step(hidden)
        if label == "torch BF16":
            peers.add_compiled(contest, step.forward, (hidden,))
    name = f"decoder layer, batch {batch}"
    return [against(name, 1.0, contest.times(), threads=contest.threads)]


class Step(torch.nn.Module):
    """The layer in torch eager: weights and cache in `dtype`, one position, nothing copied that need not be."""

    def __init__(
        self, model: Any, weights: dict[str, torch.Tensor], frequencies: torch.Tensor, caches: Any, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.model, self.weights, self.dtype = model, weights, dtype
        self.sine, self.cosine = (POSITION * frequencies).sin(), (POSITION * frequencies).cos()
        self.keys, self.values = (cache.to(dtype) for cache in caches)

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """RMS norm of FP32 rows."""
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.model.EPSILON)
        return (x * scale * self.weights[name]).to(self.dtype)

    def rotated(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        """Rotary embedding."""
        a, b = x.float().reshape(x.shape[0], heads, self.model.DIM).split(self.model.HALF, -1)
        turned = torch.cat([a * self.cosine - b * self.sine, b * self.cosine + a * self.sine], -1)
        return turned.to(self.dtype)

    @torch.no_grad()
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """One token of every sequence."""
        weights, model, linear = self.weights, self.model, torch.nn.functional.linear
        normed = self.norm(hidden, "attention_norm")
        queries = self.rotated(linear(normed, weights["wq"]), model.HEADS)
        self.keys[:, :, POSITION] = self.rotated(linear(normed, weights["wk"]), model.KV_HEADS)
        self.values[:, :, POSITION] = linear(normed, weights["wv"]).reshape(-1, model.KV_HEADS, model.DIM)
        grouped = queries.reshape(-1, model.KV_HEADS, model.GROUP, model.DIM)
        keys, values = self.keys[:, :, : POSITION + 1], self.values[:, :, : POSITION + 1]
        attended = torch.nn.functional.scaled_dot_product_attention(grouped, keys, values)
        residual = hidden + linear(attended.reshape(-1, model.HEADS * model.DIM), weights["wo"])
        inner = self.norm(residual, "ffn_norm")
        product = torch.nn.functional.silu(linear(inner, weights["gate"])) * linear(inner, weights["up"])
        return residual + linear(product, weights["down"])
