"""A matrix product with tensors, and what surrounds it in a network: bias, activation, a narrow result.

What it teaches: ``pl.matmul`` of slices needs no tiles; ``b_trans`` reads a weight that is stored with a row for each
output; the product is FP32 whatever ``out_dtype`` says, and is narrowed where it is written; one ``pl.at`` scope is one
task, and what follows the product in it works on the value that never left the chip.
"""

import torch

import pypto.language as pl

TOKENS = pl.dynamic("TOKENS")
INNER, OUTER = 256, 192
BLOCK = 64


@pl.jit
def linear(
    x: pl.Tensor[[TOKENS, INNER], pl.BF16],
    weight: pl.Tensor[[OUTER, INNER], pl.BF16],
    bias: pl.Tensor[[1, OUTER], pl.FP32],
    out: pl.Out[pl.Tensor[[TOKENS, OUTER], pl.BF16]],
):
    """`silu(x @ weight.T + bias)`, block by block of tokens."""
    for row in pl.parallel(0, TOKENS, BLOCK):
        rows = pl.min(TOKENS - row, BLOCK)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="linear"):
            tokens = pl.slice(x, [BLOCK, INNER], [row, 0], valid_shape=[rows, INNER])
            acc = pl.matmul(tokens, weight, b_trans=True, out_dtype=pl.FP32)
            biased = pl.col_expand_add(acc, bias)
            gate = pl.recip(pl.add(pl.exp(pl.neg(biased)), 1.0))
            out = pl.assemble(out, pl.mul(biased, gate), [row, 0])
    return out


def main() -> None:
    """Compares with torch in FP32, for batches that fill the blocks and that do not.

    The result is rounded to BF16 once: within one unit of BF16, which is 2**-7.
    """
    torch.manual_seed(0)
    weight = (torch.randn(OUTER, INNER) / INNER**0.5).to(torch.bfloat16)
    bias = torch.randn(1, OUTER)
    for tokens in (1, 64, 100):
        x = torch.randn(tokens, INNER).to(torch.bfloat16)
        out = torch.empty(tokens, OUTER, dtype=torch.bfloat16)
        linear(x, weight, bias, out)
        want = torch.nn.functional.silu(x.float() @ weight.float().T + bias)
        torch.testing.assert_close(out.float(), want, rtol=2**-7, atol=1e-4)
    print(f"linear layer {INNER} to {OUTER} for 1, 64 and 100 tokens: equal to torch within one unit of BF16")


if __name__ == "__main__":
    main()
