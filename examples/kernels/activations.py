"""Activation functions on BF16 tensors of any number of rows.

What it teaches: operations of tensors inside ``pl.at`` need no loads and stores; BF16 values are widened with
``pl.cast`` so that intermediate results are not rounded after each step, and narrowed once at the end; comparing
tensors gives 0 or 1 in their dtype, which multiplies like any number.
"""

import torch

import pypto.language as pl

ROWS = pl.dynamic("ROWS")
COLS = 512
BLOCK = 32


@pl.jit
def activations(
    x: pl.Tensor[[ROWS, COLS], pl.BF16],
    relu: pl.Out[pl.Tensor[[ROWS, COLS], pl.BF16]],
    silu: pl.Out[pl.Tensor[[ROWS, COLS], pl.BF16]],
    gelu: pl.Out[pl.Tensor[[ROWS, COLS], pl.BF16]],
):
    """Walks over blocks of rows; the last one is short, which `valid_shape` says."""
    for row in pl.range(0, ROWS, BLOCK):
        rows = pl.min(ROWS - row, BLOCK)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="activations"):
            wide = pl.cast(pl.slice(x, [BLOCK, COLS], [row, 0], valid_shape=[rows, COLS]), pl.FP32)

            positive = pl.cmp(wide, 0.0, cmp_type=4)
            relu = pl.assemble(relu, pl.cast(pl.mul(wide, positive), pl.BF16), [row, 0])

            # x * sigmoid(x); exp(-x) may be infinite, and 1 / inf is 0, which is right.
            sigmoid = pl.recip(pl.add(pl.exp(pl.neg(wide)), 1.0))
            silu = pl.assemble(silu, pl.cast(pl.mul(wide, sigmoid), pl.BF16), [row, 0])

            # The tanh form of GELU, 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)).
            cubic = pl.mul(pl.mul(pl.mul(wide, wide), wide), 0.044715)
            inner = pl.mul(pl.add(wide, cubic), -1.5957691216057308)
            gate = pl.recip(pl.add(pl.exp(inner), 1.0))
            gelu = pl.assemble(gelu, pl.cast(pl.mul(wide, gate), pl.BF16), [row, 0])
    return relu, silu, gelu


def main() -> None:
    """Runs batches of 1 and 77 rows and compares with torch in FP32.

    The results are rounded to BF16 once, from FP32 values that are within a few units: at most one BF16 unit apart.
    """
    torch.manual_seed(0)
    for rows in (1, 77):
        x = (torch.randn(rows, COLS) * 4).to(torch.bfloat16)
        results = [torch.empty_like(x) for _ in range(3)]
        activations(x, *results)
        wide = x.float()
        gelu = torch.nn.functional.gelu(wide, approximate="tanh")
        for have, want in zip(results, (wide.relu(), torch.nn.functional.silu(wide), gelu), strict=True):
            torch.testing.assert_close(have.float(), want, rtol=2**-7, atol=1e-6)
    print(f"relu, silu and gelu of {COLS} columns for 1 and 77 rows: equal to torch within one unit of BF16")


if __name__ == "__main__":
    main()
