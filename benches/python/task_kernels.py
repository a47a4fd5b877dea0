"""A thousand dependent tasks of 16x16."""

import pypto.language as pl

STEPS = 1000


@pl.jit.incore
def step(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    """`a += b`."""
    total = pl.add(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16]))
    return pl.store(total, [0, 0], a)


@pl.jit
def tasks(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    """Each step a task."""
    for _ in pl.range(STEPS):
        a = step(a, b)
    return a


@pl.jit.incore
def tile_step(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    """`a += b` of a whole tile of 128x128."""
    total = pl.add(pl.load(a, [0, 0], [128, 128]), pl.load(b, [0, 0], [128, 128]))
    return pl.store(total, [0, 0], a)


@pl.jit
def tasks_of_tiles(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    """Each step a task that has something to do."""
    for _ in pl.range(STEPS):
        a = tile_step(a, b)
    return a
