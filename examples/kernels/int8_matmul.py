"""A product in INT8 with scales for tokens and for outputs.

What it teaches: quantising in the kernel (the scale of a token is the largest magnitude of its row); the chip converts
FP32 to INT8 through FP16, so what is to be rounded to nearest even is rounded to integers first and then only passed
on; products of INT8 are exact in INT32; a scale for each row and one for each column put the numbers back.
"""

import torch

import pypto.language as pl

TOKENS, INNER, OUTER = 64, 512, 128
BLOCK = 32


@pl.jit
def quantised_linear(
    x: pl.Tensor[[TOKENS, INNER], pl.FP32],
    weight: pl.Tensor[[OUTER, INNER], pl.INT8],
    weight_scale: pl.Tensor[[1, OUTER], pl.FP32],
    out: pl.Out[pl.Tensor[[TOKENS, OUTER], pl.FP32]],
    quantised: pl.Out[pl.Tensor[[TOKENS, INNER], pl.INT8]],
):
    """`x @ (weight * weight_scale).T` with `x` quantised token by token."""
    for block in pl.spmd(TOKENS // BLOCK, name_hint="quantised_linear"):
        row = block * BLOCK
        tokens = x[row : row + BLOCK, :]
        scale = pl.mul(pl.maximum(pl.row_max(tokens), pl.neg(pl.row_min(tokens))), 1.0 / 127.0)
        whole = pl.cast(pl.row_expand_div(tokens, scale), pl.INT32, mode="rint")
        narrow = pl.cast(pl.cast(whole, pl.FP16), pl.INT8, mode="trunc")
        quantised[row : row + BLOCK, :] = narrow
        product = pl.matmul(narrow, weight, b_trans=True)
        scaled = pl.row_expand_mul(pl.cast(product, pl.FP32), scale)
        out[row : row + BLOCK, :] = pl.col_expand_mul(scaled, weight_scale)
    return out, quantised


def main() -> None:
    """The integers are exactly torch's; the result follows from them by three roundings of FP32."""
    torch.manual_seed(0)
    x = torch.randn(TOKENS, INNER) * 5
    weight = torch.randint(-127, 128, (OUTER, INNER), dtype=torch.int8)
    weight_scale = torch.rand(1, OUTER) / 100
    out, quantised = torch.empty(TOKENS, OUTER), torch.empty(TOKENS, INNER, dtype=torch.int8)
    quantised_linear(x, weight, weight_scale, out, quantised)
    scale = x.abs().amax(1, keepdim=True) * torch.tensor(1.0 / 127.0)
    assert torch.equal(quantised, torch.round(x / scale).to(torch.int8))
    product = quantised.double() @ weight.double().T
    want = product * scale.double() * weight_scale.double()
    torch.testing.assert_close(out.double(), want, rtol=4 * 2**-24, atol=0)
    print(f"INT8 product {TOKENS} x {INNER} x {OUTER} with scales: the integers are exact, the rest within 4 roundings")


if __name__ == "__main__":
    main()
