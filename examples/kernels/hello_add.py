"""The smallest kernel: c = a + b on one tile.

What it teaches: ``@pl.jit`` marks the entry, ``@pl.jit.incore`` the code that runs on a core. Python never executes
either; their source is compiled for the shapes and types of the first call. A kernel loads boxes of tensors into tiles,
computes on tiles, and stores tiles. Only a store writes memory, so the output is marked ``pl.Out``.
"""

import torch

import pypto.language as pl


@pl.jit.incore
def add_tile(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    """Adds one 128x128 tile."""
    tile_a = pl.load(a, [0, 0], [128, 128])
    tile_b = pl.load(b, [0, 0], [128, 128])
    c = pl.store(pl.add(tile_a, tile_b), [0, 0], c)
    return c


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    """The entry: it orchestrates and calls kernels."""
    c = add_tile(a, b, c)
    return c


def main() -> None:
    """Runs it once and checks the result: an addition rounds as torch's does, so it is equal bit for bit."""
    a = torch.randn(128, 128)
    b = torch.randn(128, 128)
    c = torch.empty(128, 128)
    add(a, b, c)
    assert torch.equal(c, a + b)
    print("c = a + b on one 128x128 tile: equal to torch, bit for bit")


if __name__ == "__main__":
    main()
