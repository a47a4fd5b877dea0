"""The k largest of a row with their indices, by sorting blocks and merging them.

What it teaches: ``pl.sort32`` sorts each 32 elements and keeps the index beside each value, as bits in the next column;
``pl.mrgsort`` merges four sorted runs into one, so log4(n / 32) rounds sort a row; ``pl.gather`` with a mask pattern
takes the values (even columns) or the indices (odd ones, whose bits ``output_dtype`` reads as integers).
"""

import torch

import pypto.language as pl

ROWS, COLS, K = 16, 512, 32
PAIRS = 2 * COLS


@pl.jit
def top_k(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    values: pl.Out[pl.Tensor[[ROWS, K], pl.FP32]],
    indices: pl.Out[pl.Tensor[[ROWS, K], pl.INT32]],
):
    """One block sorts one row: 16 runs of 32, then 4 runs of 128, then the row."""
    for row in pl.spmd(ROWS, name_hint="top_k"):
        numbers = pl.arange(0, [1, COLS], dtype=pl.UINT32)
        runs = pl.sort32(x[row : row + 1, :], numbers)
        runs = pl.mrgsort(runs, block_len=64)
        runs = pl.mrgsort(runs, block_len=256)
        best = runs[:, 0 : 2 * K]
        values[row : row + 1, :] = pl.gather(best, mask_pattern=1)
        indices[row : row + 1, :] = pl.gather(best, mask_pattern=2, output_dtype=pl.INT32)
    return values, indices


def main() -> None:
    """Exactly torch's result: nothing is rounded, and equal elements come in the order of their indices."""
    torch.manual_seed(0)
    x = torch.randint(-1000, 1000, (ROWS, COLS)).float()
    values, indices = torch.empty(ROWS, K), torch.empty(ROWS, K, dtype=torch.int32)
    top_k(x, values, indices)
    want = torch.sort(x, dim=1, descending=True, stable=True)
    assert torch.equal(values, want.values[:, :K])
    assert torch.equal(indices.long(), want.indices[:, :K])
    print(f"the {K} largest of {COLS} in {ROWS} rows, with indices: exactly torch's")


if __name__ == "__main__":
    main()
