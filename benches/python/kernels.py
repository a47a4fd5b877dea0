"""The kernel that the benches run: c = a + b on one tile of whatever shape the arguments have."""

import pypto.language as pl


@pl.jit.incore
def add_tile(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    """Loads two tiles, adds, stores."""
    tile_a = pl.load(a, [0, 0], [a.shape[0], a.shape[1]])
    tile_b = pl.load(b, [0, 0], [a.shape[0], a.shape[1]])
    c = pl.store(pl.add(tile_a, tile_b), [0, 0], c)
    return c


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    """One kernel call."""
    c = add_tile(a, b, c)
    return c
