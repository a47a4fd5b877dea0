"""A decoder layer of the Llama family that generates token by token, with a cache of keys and values on the device.

What it teaches: a layer is one program of a few tasks, each a ``pl.at`` or ``pl.spmd`` scope over tensors; values that
one scope computes are used by the next under the same name; ``@pl.jit.inline`` functions keep the parts readable; and
the weights and the cache are allocated once with ``alloc_tensor``, so that a step copies one row for each sequence in
and out, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig

BATCH = 8
HIDDEN, INNER = 256, 512
HEADS, KV_HEADS, DIM = 8, 2, 32
GROUP, HALF, KV = HEADS // KV_HEADS, DIM // 2, KV_HEADS * DIM
TOKENS, BLOCK = 96, 32
EPSILON, SCALE = 1e-5, DIM**-0.5
LOWEST = -1e30


@pl.jit.inline
def rms_norm(x: pl.Tensor, weight: pl.Tensor):
    """`x / sqrt(mean(x * x)) * weight` of FP32 rows, as BF16."""
    mean = pl.mul(pl.row_sum(pl.mul(x, x)), 1.0 / HIDDEN)
    scaled = pl.row_expand_mul(x, pl.rsqrt(pl.add(mean, EPSILON)))
    return pl.cast(pl.col_expand_mul(scaled, pl.cast(weight, pl.FP32)), pl.BF16)


@pl.jit.inline
def rotate(x: pl.Tensor, sine: pl.Tensor, cosine: pl.Tensor, heads: pl.Scalar[pl.INDEX]):
    """Rotary embedding of the heads that lie side by side in each row."""
    turned = pl.mul(x, 1.0)
    for head in pl.unroll(heads):
        a = x[:, head * DIM : head * DIM + HALF]
        b = x[:, head * DIM + HALF : head * DIM + DIM]
        turned[:, head * DIM : head * DIM + HALF] = pl.sub(pl.mul(a, cosine), pl.mul(b, sine))
        turned[:, head * DIM + HALF : head * DIM + DIM] = pl.add(pl.mul(b, cosine), pl.mul(a, sine))
    return turned


@pl.jit
def decoder_layer(
    hidden: pl.Tensor[[BATCH, HIDDEN], pl.FP32],
    positions: pl.Tensor[[BATCH, 1], pl.INT32],
    frequencies: pl.Tensor[[1, HALF], pl.FP32],
    attention_norm: pl.Tensor[[1, HIDDEN], pl.BF16],
    wq: pl.Tensor[[HEADS * DIM, HIDDEN], pl.BF16],
    wk: pl.Tensor[[KV, HIDDEN], pl.BF16],
    wv: pl.Tensor[[KV, HIDDEN], pl.BF16],
    wo: pl.Tensor[[HIDDEN, HEADS * DIM], pl.BF16],
    ffn_norm: pl.Tensor[[1, HIDDEN], pl.BF16],
    gate: pl.Tensor[[INNER, HIDDEN], pl.BF16],
    up: pl.Tensor[[INNER, HIDDEN], pl.BF16],
    down: pl.Tensor[[HIDDEN, INNER], pl.BF16],
    k_cache: pl.InOut[pl.Tensor[[BATCH, KV_HEADS, TOKENS, DIM], pl.BF16]],
    v_cache: pl.InOut[pl.Tensor[[BATCH, KV_HEADS, TOKENS, DIM], pl.BF16]],
    out: pl.Out[pl.Tensor[[BATCH, HIDDEN], pl.FP32]],
):
    """One token of every sequence: `positions` says how many came before it."""
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="project"):
        normed = rms_norm(hidden, attention_norm)
        box = pl.create_tensor([BATCH, HALF], dtype=pl.FP32)
        angles = pl.row_expand_mul(pl.col_expand(box, frequencies), pl.cast(positions, pl.FP32))
        sine, cosine = pl.sin(angles), pl.cos(angles)
        queries = pl.cast(rotate(pl.matmul(normed, wq, b_trans=True), sine, cosine, HEADS), pl.BF16)
        keys = pl.cast(rotate(pl.matmul(normed, wk, b_trans=True), sine, cosine, KV_HEADS), pl.BF16)
        values = pl.cast(pl.matmul(normed, wv, b_trans=True), pl.BF16)
        for sequence in pl.range(BATCH):
            place = pl.read(positions, [sequence, 0])
            for head in pl.range(KV_HEADS):
                k_cache[sequence, head, place, :] = pl.slice(keys, [1, DIM], [sequence, head * DIM])
                v_cache[sequence, head, place, :] = pl.slice(values, [1, DIM], [sequence, head * DIM])

    attended = pl.create_tensor([BATCH, HEADS * DIM], dtype=pl.BF16)
    for sequence in pl.spmd(BATCH, name_hint="attend"):
        length = pl.read(positions, [sequence, 0]) + 1
        own = pl.reshape(pl.slice(queries, [1, HEADS * DIM], [sequence, 0]), [HEADS, DIM])
        for head in pl.unroll(KV_HEADS):
            group = own[head * GROUP : head * GROUP + GROUP, :]
            largest = pl.full([GROUP, 1], dtype=pl.FP32, value=LOWEST)
            total = pl.full([GROUP, 1], dtype=pl.FP32, value=0.0)
            result = pl.full([GROUP, DIM], dtype=pl.FP32, value=0.0)
            for start in pl.range(0, length, BLOCK):
                rows = pl.cast(pl.min(length - start, BLOCK), pl.INDEX)
                known = k_cache[sequence, head, start : start + BLOCK, :]
                scores = pl.mul(pl.matmul(group, known, b_trans=True), SCALE)
                scores = pl.fillpad(pl.set_validshape(scores, GROUP, rows), pl.PadValue.min)
                peak = pl.maximum(largest, pl.row_max(scores))
                powers = pl.row_expand_expdif(scores, peak)
                shrink = pl.exp(pl.sub(largest, peak))
                total = pl.add(pl.mul(total, shrink), pl.row_sum(powers))
                weighted = pl.matmul(pl.cast(powers, pl.BF16), v_cache[sequence, head, start : start + BLOCK, :])
                result = pl.add(pl.row_expand_mul(result, shrink), weighted)
                largest = peak
            final = pl.cast(pl.row_expand_div(result, total), pl.BF16)
            attended = pl.assemble(attended, pl.reshape(final, [1, GROUP * DIM]), [sequence, head * GROUP * DIM])

    with pl.at(level=pl.Level.CORE_GROUP, name_hint="feed_forward"):
        residual = pl.add(hidden, pl.matmul(attended, wo, b_trans=True))
        inner = rms_norm(residual, ffn_norm)
        opened = pl.matmul(inner, gate, b_trans=True)
        silu = pl.mul(opened, pl.recip(pl.add(pl.exp(pl.neg(opened)), 1.0)))
        product = pl.cast(pl.mul(silu, pl.matmul(inner, up, b_trans=True)), pl.BF16)
        out[:] = pl.add(residual, pl.matmul(product, down, b_trans=True))
    return out


class Reference:
    """The layer in torch, in FP32 with the same BF16 weights, on whole sequences so far."""

    def __init__(self, weights: dict[str, torch.Tensor], frequencies: torch.Tensor) -> None:
        self.weights = {name: weight.float() for name, weight in weights.items()}
        self.frequencies = frequencies
        self.past: list[tuple[torch.Tensor, torch.Tensor]] = []

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """RMS norm."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * self.weights[name]

    def rotated(self, x: torch.Tensor, position: int) -> torch.Tensor:
        """Rotary embedding of `[BATCH, heads, DIM]`."""
        angles = position * self.frequencies
        a, b = x.split(HALF, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def step(self, hidden: torch.Tensor) -> torch.Tensor:
        """The next token of every sequence."""
        weights, position = self.weights, len(self.past)
        normed = self.norm(hidden, "attention_norm")
        q = self.rotated((normed @ weights["wq"].T).reshape(BATCH, HEADS, DIM), position)
        k = self.rotated((normed @ weights["wk"].T).reshape(BATCH, KV_HEADS, DIM), position)
        self.past.append((k, (normed @ weights["wv"].T).reshape(BATCH, KV_HEADS, DIM)))
        keys, values = (torch.stack(part, 2).repeat_interleave(GROUP, 1) for part in zip(*self.past, strict=True))
        scores = torch.softmax((keys @ q.unsqueeze(-1)).squeeze(-1) * SCALE, -1)
        attended = (scores.unsqueeze(2) @ values).reshape(BATCH, HEADS * DIM)
        residual = hidden + attended @ weights["wo"].T
        inner = self.norm(residual, "ffn_norm")
        product = torch.nn.functional.silu(inner @ weights["gate"].T) * (inner @ weights["up"].T)
        return residual + product @ weights["down"].T


def make_weights() -> Iterator[tuple[str, torch.Tensor]]:
    """Random weights that keep magnitudes around 1."""
    shapes = {
        "attention_norm": (1, HIDDEN),
        "wq": (HEADS * DIM, HIDDEN),
        "wk": (KV, HIDDEN),
        "wv": (KV, HIDDEN),
        "wo": (HIDDEN, HEADS * DIM),
        "ffn_norm": (1, HIDDEN),
        "gate": (INNER, HIDDEN),
        "up": (INNER, HIDDEN),
        "down": (HIDDEN, INNER),
    }
    for name, shape in shapes.items():
        weight = torch.rand(shape) + 0.5 if "norm" in name else torch.randn(shape) / shape[1] ** 0.5
        yield name, weight.to(torch.bfloat16)


def main() -> None:
    """Generates tokens for eight sequences and compares each step with torch.

    On the device the inputs of the products and the weights of the attention are rounded to BF16, 2**-9 of each; a step
    has four products in a row with magnitudes around 1, so the results are within about 4 * 2**-9 of their size, and
    2e-2 leaves room for the tails of 256 sums.
    """
    torch.manual_seed(0)
    weights = dict(make_weights())
    frequencies = (10_000.0 ** (-torch.arange(HALF) / HALF)).reshape(1, HALF)
    reference = Reference(weights, frequencies)
    with ChipWorker(config=RunConfig(platform="a2a3sim")) as worker:
        empty = torch.zeros(BATCH, KV_HEADS, TOKENS, DIM, dtype=torch.bfloat16)
        held = [frequencies, *weights.values(), empty, empty]
        resident = [worker.alloc_tensor(tensor.shape, tensor.dtype, init=tensor) for tensor in held]
        hidden = torch.randn(BATCH, HIDDEN)
        worst = 0.0
        for position in range(TOKENS):
            positions = torch.full((BATCH, 1), position, dtype=torch.int32)
            out = torch.empty(BATCH, HIDDEN)
            decoder_layer(hidden, positions, *resident, out)
            want = reference.step(hidden)
            worst = max(worst, (out - want).abs().max().item())
            torch.testing.assert_close(out, want, rtol=2e-2, atol=2e-2)
            hidden = want / want.square().mean(-1, keepdim=True).sqrt()  # the next token, as far as a layer can tell
        for tensor in resident:
            worker.free_tensor(tensor)
    print(f"{TOKENS} tokens of {BATCH} sequences through one layer, cache on the device: within {worst:.1e} of torch")


if __name__ == "__main__":
    main()
