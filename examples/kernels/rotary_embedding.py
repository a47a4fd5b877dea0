"""Rotary position embedding: pairs of elements are turned by an angle that grows with the position.

What it teaches: parts of an on-chip value are read by subscript and written by subscript, so the halves of a head are
put together without leaving the chip; angles are computed on chip from positions, with sine and cosine that are right
for angles of any size.
"""

import torch

import pypto.language as pl

TOKENS, HEADS, DIM = 128, 8, 64
HALF = DIM // 2
BLOCK = 32


@pl.jit
def rotate(
    x: pl.Tensor[[TOKENS, HEADS * DIM], pl.FP32],
    positions: pl.Tensor[[TOKENS, 1], pl.INT32],
    frequencies: pl.Tensor[[1, HALF], pl.FP32],
    out: pl.Out[pl.Tensor[[TOKENS, HEADS * DIM], pl.FP32]],
):
    """`(a cos - b sin, b cos + a sin)` for the halves `a` and `b` of each head."""
    for block in pl.spmd(TOKENS // BLOCK, name_hint="rotate"):
        row = block * BLOCK
        rows = x[row : row + BLOCK, :]
        place = pl.cast(positions[row : row + BLOCK, :], pl.FP32)
        box = pl.create_tensor([BLOCK, HALF], dtype=pl.FP32)
        angles = pl.row_expand_mul(pl.col_expand(box, frequencies), place)
        sine, cosine = pl.sin(angles), pl.cos(angles)
        turned = pl.create_tensor([BLOCK, HEADS * DIM], dtype=pl.FP32)
        for head in pl.unroll(HEADS):
            a = rows[:, head * DIM : head * DIM + HALF]
            b = rows[:, head * DIM + HALF : head * DIM + DIM]
            turned[:, head * DIM : head * DIM + HALF] = pl.sub(pl.mul(a, cosine), pl.mul(b, sine))
            turned[:, head * DIM + HALF : head * DIM + DIM] = pl.add(pl.mul(b, cosine), pl.mul(a, sine))
        out[row : row + BLOCK, :] = turned
    return out


def main() -> None:
    """Compares with torch, which gets the same FP32 angles: position times frequency, rounded once.

    Sine and cosine are within 2 units, each of the products and the sum rounds once: 1e-6 of numbers around 1.
    """
    torch.manual_seed(0)
    x = torch.randn(TOKENS, HEADS * DIM)
    positions = torch.randint(0, 100_000, (TOKENS, 1), dtype=torch.int32)
    frequencies = (10_000.0 ** (-torch.arange(HALF) / HALF)).reshape(1, HALF)
    out = torch.empty_like(x)
    rotate(x, positions, frequencies, out)
    angles = (positions.float() * frequencies).double().unsqueeze(1)
    a, b = x.double().reshape(TOKENS, HEADS, 2, HALF).unbind(2)
    want = torch.stack([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], 2)
    torch.testing.assert_close(out.double(), want.reshape(TOKENS, -1), rtol=1e-6, atol=1e-6)
    print(f"rotary embedding of {TOKENS} tokens, positions up to 100,000: equal to torch within 1e-6")


if __name__ == "__main__":
    main()
