"""Softmax over rows, for any number of rows.

What it teaches: a dynamic dimension (``pl.dynamic``) lets one compiled program serve every batch; blocks of rows keep
tiles small, and ``valid_shape`` makes the last block short instead of reading past the end; reductions give one column
that ``row_expand_*`` spreads over the rows again.
"""

import torch

import pypto.language as pl

M = pl.dynamic("M")
COLS = 1000
ROWS = 16


@pl.jit.incore
def softmax_block(
    x: pl.Tensor[[M, COLS], pl.FP32],
    out: pl.Out[pl.Tensor[[M, COLS], pl.FP32]],
    row: pl.Scalar[pl.INDEX],
    rows: pl.Scalar[pl.INDEX],
):
    """Softmax of `rows` rows from `row` on. Subtracting the maximum first keeps exp from overflowing."""
    tile = pl.load(x, [row, 0], [ROWS, COLS], valid_shape=[rows, COLS])
    scratch = pl.create_tile([ROWS, COLS], dtype=pl.FP32, target_memory=pl.Mem.Vec)
    shifted = pl.row_expand_sub(tile, pl.row_max(tile, scratch))
    powers = pl.exp(shifted)
    result = pl.row_expand_div(powers, pl.row_sum(powers, scratch))
    out = pl.store(result, [row, 0], out)
    return out


@pl.jit
def softmax(x: pl.Tensor[[M, COLS], pl.FP32], out: pl.Out[pl.Tensor[[M, COLS], pl.FP32]]):
    """Walks over the blocks of rows."""
    for row in pl.range(0, M, ROWS):
        rows = pl.min(M - row, ROWS)
        out = softmax_block(x, out, row, rows)
    return out


def main() -> None:
    """Runs three batch sizes through the one program and compares with torch.

    The tolerance is 8 units of FP32: exp and the division are each within 2, and the sum of 1,000 positive terms runs
    in another order than torch's.
    """
    for rows in (1, 32, 77):
        x = torch.randn(rows, COLS) * 4
        out = torch.empty(rows, COLS)
        softmax(x, out)
        torch.testing.assert_close(out, torch.softmax(x, dim=-1), rtol=8 * 2**-23, atol=1e-12)
    print(f"softmax over {COLS} columns for 1, 32 and 77 rows: equal to torch within 8 units of FP32")


if __name__ == "__main__":
    main()
