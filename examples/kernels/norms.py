"""Layer norm and RMS norm over rows.

What it teaches: a reduction of a tensor gives one column, ``[M, 1]``; arithmetic with a column broadcasts it along the
rows, and a weight of one row, ``[1, N]``, needs ``pl.col_expand_*``; blocks of ``pl.spmd`` share the rows among cores.
"""

import torch

import pypto.language as pl

ROWS = 256
COLS = 768
BLOCK = 32
EPSILON = 1e-5


@pl.jit
def layer_norm(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    weight: pl.Tensor[[1, COLS], pl.FP32],
    bias: pl.Tensor[[1, COLS], pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias` for each row."""
    for block in pl.spmd(ROWS // BLOCK, name_hint="layer_norm"):
        row = block * BLOCK
        tile = x[row : row + BLOCK, :]
        mean = pl.mul(pl.row_sum(tile), 1.0 / COLS)
        centred = pl.sub(tile, mean)
        variance = pl.mul(pl.row_sum(pl.mul(centred, centred)), 1.0 / COLS)
        scaled = pl.mul(centred, pl.rsqrt(pl.add(variance, EPSILON)))
        out[row : row + BLOCK, :] = pl.col_expand_add(pl.col_expand_mul(scaled, weight), bias)
    return out


@pl.jit
def rms_norm(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    weight: pl.Tensor[[1, COLS], pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    """`x / sqrt(mean(x * x) + epsilon) * weight` for each row."""
    for block in pl.spmd(ROWS // BLOCK, name_hint="rms_norm"):
        row = block * BLOCK
        tile = x[row : row + BLOCK, :]
        mean = pl.mul(pl.row_sum(pl.mul(tile, tile)), 1.0 / COLS)
        scaled = pl.row_expand_mul(tile, pl.rsqrt(pl.add(mean, EPSILON)))
        out[row : row + BLOCK, :] = pl.col_expand_mul(scaled, weight)
    return out


def main() -> None:
    """Compares both with torch in FP64.

    A sum of 768 terms in FP32 is off by at most 768 half units of its size, in practice by a few; 1e-5 is 84 units.
    """
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLS) * 3 + 1
    weight, bias = torch.rand(1, COLS) + 0.5, torch.randn(1, COLS)
    out = torch.empty_like(x)

    layer_norm(x, weight, bias, out)
    wide = x.double()
    parameters = weight.double().flatten(), bias.double().flatten()
    want = torch.nn.functional.layer_norm(wide, (COLS,), *parameters, eps=EPSILON)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)

    rms_norm(x, weight, out)
    want = wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON) * weight.double()
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)
    print(f"layer norm and RMS norm of {ROWS} rows of {COLS}: equal to torch within 1e-5")


if __name__ == "__main__":
    main()
