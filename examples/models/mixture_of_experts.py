"""A mixture-of-experts layer: a router picks experts for each token, and each expert multiplies its own tokens only.

What it teaches: how much there is to do may be data. A scope counts the tokens of each expert with ``pl.read`` and
``pl.write`` on single elements; the code that launches reads those counts, which waits for that scope, and loops over
as many tiles as they ask for, none for an expert that nobody chose. Rows are gathered by number, the last tile of an
expert is partly valid (``set_validshape``), and a token's results meet again by their slots, so that the sum does not
depend on the order of experts.
"""

from __future__ import annotations

import torch

import pypto.language as pl

TOKENS, HIDDEN, INNER = 48, 128, 64
EXPERTS, CHOSEN, KEPT = 32, 4, 8
TILE = 16


@pl.jit.inline
def sigmoid(x: pl.Tensor):
    """`1 / (1 + exp(-x))`."""
    return pl.recip(pl.add(pl.exp(pl.neg(x)), 1.0))


@pl.jit.inline
def route(x: pl.Tensor, router: pl.Tensor, bias: pl.Tensor, chosen: pl.Tensor, weights: pl.Tensor):
    """The experts of each token, best first, by score and bias; their scores over the sum of those, without the bias.

    Sorting gives `KEPT` of them, more than are used: rows of memory are multiples of 32 bytes.
    """
    scores = pl.create_tensor([TOKENS, EXPERTS], dtype=pl.FP32)
    for first in pl.parallel(0, TOKENS, TILE):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="scores"):
            logits = pl.matmul(x[first : first + TILE, :], router, b_trans=True, out_dtype=pl.FP32)
            scores[first : first + TILE, :] = sigmoid(logits)
    for token in pl.spmd(TOKENS, name_hint="choose"):
        row = scores[token : token + 1, :]
        pairs = pl.sort32(pl.add(row, bias[:, :]), pl.arange(0, [1, EXPERTS], dtype=pl.UINT32))
        best = pl.gather(pairs[:, 0 : 2 * KEPT], mask_pattern=2, output_dtype=pl.INT32)
        picked = pl.gather(row, dim=-1, index=best)
        total = pl.row_sum(picked[:, 0:CHOSEN])
        chosen[token : token + 1, :] = best
        weights[token : token + 1, :] = pl.row_expand_div(picked, total)
    return chosen, weights


@pl.jit.inline
def dispatch(chosen: pl.Tensor, counts: pl.Tensor, slots: pl.Tensor):
    """The slots of each expert: `token * CHOSEN + choice`, in the order of tokens, and how many there are."""
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="dispatch"):
        for expert in pl.range(EXPERTS):
            pl.write(counts, [expert], pl.const(0, pl.INT32))
        for token in pl.range(TOKENS):
            for choice in pl.range(CHOSEN):
                expert = pl.read(chosen, [token, choice])
                count = pl.read(counts, [expert])
                pl.write(slots, [expert, count], pl.cast(token * CHOSEN + choice, pl.INT32))
                pl.write(counts, [expert], pl.cast(count + 1, pl.INT32))
    return counts, slots


@pl.jit
def mixture_of_experts(
    x: pl.Tensor[[TOKENS, HIDDEN], pl.BF16],
    router: pl.Tensor[[EXPERTS, HIDDEN], pl.BF16],
    bias: pl.Tensor[[1, EXPERTS], pl.FP32],
    up: pl.Tensor[[EXPERTS, HIDDEN, INNER], pl.BF16],
    down: pl.Tensor[[EXPERTS, INNER, HIDDEN], pl.BF16],
    y: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]],
    chosen: pl.Out[pl.Tensor[[TOKENS, KEPT], pl.INT32]],
    counts: pl.Out[pl.Tensor[[EXPERTS], pl.INT32]],
):
    """Each token's `CHOSEN` experts, weighted: `silu(x @ up) @ down`."""
    weights = pl.create_tensor([TOKENS, KEPT], dtype=pl.FP32)
    slots = pl.create_tensor([EXPERTS, TOKENS], dtype=pl.INT32)
    chosen, weights = route(x, router, bias, chosen, weights)
    counts, slots = dispatch(chosen, counts, slots)
    results = pl.create_tensor([TOKENS * CHOSEN, HIDDEN], dtype=pl.FP32)
    for expert in pl.parallel(EXPERTS):
        count = pl.read(counts, [expert])
        for tile in pl.range((count + TILE - 1) // TILE):
            first = tile * TILE
            rows = pl.min(TILE, count - first)
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="expert"):
                own = pl.create_tensor([TILE, HIDDEN], dtype=pl.BF16)
                for row in pl.range(rows):
                    token = pl.read(slots, [expert, first + row]) // CHOSEN
                    own[row : row + 1, :] = x[token : token + 1, :]
                inner = pl.matmul(pl.set_validshape(own, rows, HIDDEN), up[expert, :, :])
                active = pl.cast(pl.mul(inner, sigmoid(inner)), pl.BF16)
                outcome = pl.matmul(active, down[expert, :, :])
                for row in pl.range(rows):
                    slot = pl.read(slots, [expert, first + row])
                    results[slot : slot + 1, :] = outcome[row : row + 1, :]
    for token in pl.spmd(TOKENS, name_hint="combine"):
        total = pl.full([1, HIDDEN], dtype=pl.FP32, value=0.0)
        for choice in pl.range(CHOSEN):
            slot = token * CHOSEN + choice
            total = pl.add(total, pl.mul(results[slot : slot + 1, :], pl.read(weights, [token, choice])))
        y[token : token + 1, :] = total
    return y, chosen, counts


def reference(
    x: torch.Tensor, chosen: torch.Tensor, router: torch.Tensor, up: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    """The layer in FP64 for experts that are chosen already; the inner values are rounded to BF16 as in the kernel."""
    rows = x.double()
    weights = torch.sigmoid(rows @ router.double().T).gather(1, chosen)
    weights = weights / weights.sum(1, keepdim=True)
    inner = torch.einsum("th,tchi->tci", rows, up.double()[chosen])
    inner = torch.nn.functional.silu(inner).bfloat16().double()
    return torch.einsum("tc,tci,tcih->th", weights, inner, down.double()[chosen])


def main() -> None:
    """The experts are exactly those that FP64 chooses; the largest error of the results is a part of their largest.

    A value in BF16 is off by up to 2**-9 of itself, and a rounding may fall to the other side than the reference's.
    """
    torch.manual_seed(0)
    x = torch.randn(TOKENS, HIDDEN).bfloat16()
    router = (torch.randn(EXPERTS, HIDDEN) * 0.1).bfloat16()
    bias = torch.randn(1, EXPERTS) * 0.3
    up = (torch.randn(EXPERTS, HIDDEN, INNER) * 0.1).bfloat16()
    down = (torch.randn(EXPERTS, INNER, HIDDEN) * 0.1).bfloat16()

    y, chosen, counts = mixture_of_experts(x, router, bias, up, down)

    want = (torch.sigmoid(x.double() @ router.double().T) + bias.double()).topk(CHOSEN, dim=1).indices
    assert torch.equal(chosen[:, :CHOSEN].long(), want)
    assert torch.equal(counts.long(), torch.bincount(want.flatten(), minlength=EXPERTS))
    exact = reference(x, want, router, up, down)
    error = ((y.double() - exact).abs().max() / exact.abs().max()).item()
    assert error < 2**-9, error
    print(
        f"{TOKENS} tokens, {CHOSEN} of {EXPERTS} experts each: {int((counts == 0).sum())} idle, the busiest has "
        f"{int(counts.max())} rows; largest error {error:.1e} of the largest value"
    )


if __name__ == "__main__":
    main()
