"""Kernels around matrix products: one task each, which the chip cuts into parts for its cores."""

import pypto.language as pl

SCALE = 128**-0.5


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """`a @ b`."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


@pl.jit
def product_a_trans(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """`a.T @ b`."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b, a_trans=True)
    return out


@pl.jit
def product_b_trans(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """`a @ b.T`."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b, b_trans=True)
    return out


@pl.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """One head: `softmax(q @ k.T / sqrt(128)) @ v`, a task for each 64 queries."""
    for block in pl.spmd(q.shape[0] // 64):
        scores = pl.mul(pl.matmul(q[block * 64 : block * 64 + 64, :], k, b_trans=True), SCALE)
        powers = pl.exp(pl.row_expand_sub(scores, pl.row_max(scores)))
        weighted = pl.matmul(powers, v)
        out[block * 64 : block * 64 + 64, :] = pl.row_expand_mul(weighted, pl.recip(pl.row_sum(powers)))
    return out
