"""A thousand dependent tasks."""

import pypto.language as pl

STEPS = 1000


@pl.jit.incore
def step(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    """`a += b` of a whole tensor."""
    rows, cols = a.shape
    total = pl.add(pl.load(a, [0, 0], [rows, cols]), pl.load(b, [0, 0], [rows, cols]))
    return pl.store(total, [0, 0], a)


@pl.jit
def tasks(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    """Each step a task."""
    for _ in pl.range(STEPS):
        a = step(a, b)
    return a
