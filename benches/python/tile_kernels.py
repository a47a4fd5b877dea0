"""Sorts and transposes, tile by tile."""

import pypto.language as pl

SORTED_ROWS, SORTED_COLS = 64, 256
SIDE, TILE = 1024, 64


@pl.jit
def sort_rows(
    x: pl.Tensor[[SORTED_ROWS, SORTED_COLS], pl.FP32],
    index: pl.Tensor[[1, SORTED_COLS], pl.UINT32],
    out: pl.Out[pl.Tensor[[SORTED_ROWS, 2 * SORTED_COLS], pl.FP32]],
):
    """Each row by itself, the largest first, with indices: eight runs of 32, two of 128, one."""
    half = SORTED_COLS
    for block in pl.spmd(8):
        numbers = pl.load(index, [0, 0], [1, SORTED_COLS])
        for i in pl.range(SORTED_ROWS // 8):
            row = block * (SORTED_ROWS // 8) + i
            runs = pl.sort32(pl.load(x, [row, 0], [1, SORTED_COLS]), numbers)
            runs = pl.mrgsort(runs, block_len=64)
            merged = pl.mrgsort(pl.slice(runs, [1, half], [0, 0]), pl.slice(runs, [1, half], [0, half]))
            out = pl.store(merged, [row, 0], out)
    return out


@pl.jit
def transpose(x: pl.Tensor[[SIDE, SIDE], pl.FP32], out: pl.Out[pl.Tensor[[SIDE, SIDE], pl.FP32]]):
    """Rows of tiles become columns of tiles, each a block."""
    for block in pl.spmd(SIDE // TILE):
        row = block * TILE
        for col in pl.range(0, SIDE, TILE):
            turned = pl.transpose(pl.load(x, [row, col], [TILE, TILE]), 0, 1)
            out = pl.store(turned, [col, row], out)
    return out
