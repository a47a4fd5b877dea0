"""Inline parts of the layer, shared by kernels in other files."""

import pypto.language as pl
from models.config import BATCH, EPS, HEAD_DIM, HIDDEN, K_CHUNK, N_CHUNK


@pl.jit.inline
def rms_norm(x: pl.Tensor, weight: pl.Tensor, out: pl.Tensor):
    """out = x / rms(x) * weight, in chunks of columns."""
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="rms_norm"):
        total = pl.full([BATCH, 1], dtype=pl.FP32, value=0.0)
        for k in pl.pipeline(0, HIDDEN, K_CHUNK, stage=2):
            part = pl.cast(x[:, k : k + K_CHUNK], target_type=pl.FP32)
            total = pl.add(total, pl.row_sum(pl.mul(part, part)))
        inv = pl.rsqrt(pl.add(pl.mul(total, 1.0 / HIDDEN), EPS))
        for k in pl.range(0, HIDDEN, K_CHUNK):
            part = pl.cast(x[:, k : k + K_CHUNK], target_type=pl.FP32)
            gamma = weight[:, k : k + K_CHUNK]
            normed = pl.col_expand_mul(pl.row_expand_mul(part, inv), gamma)
            out = pl.assemble(out, pl.cast(normed, target_type=pl.BF16), [0, k])
    return out


def make_projection(in_dim: int, out_dim: int, name: str):
    """A factory: one definition per pair of sizes, all with the same name inside."""

    @pl.jit.inline
    def project(x: pl.Tensor, w: pl.Tensor, out: pl.Tensor):
        for nb in pl.spmd(out_dim // N_CHUNK, name_hint=name):
            n0 = nb * N_CHUNK
            acc = pl.matmul(x[:, 0:K_CHUNK], w[0:K_CHUNK, n0 : n0 + N_CHUNK], out_dtype=pl.FP32)
            for kb in pl.range(1, in_dim // K_CHUNK):
                k0 = kb * K_CHUNK
                acc = pl.matmul_acc(acc, x[:, k0 : k0 + K_CHUNK], w[k0 : k0 + K_CHUNK, n0 : n0 + N_CHUNK])
            out[:, n0 : n0 + N_CHUNK] = acc
        return out

    return project


@pl.jit.inline
def rotate(row: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor):
    """Rotary embedding of rows of one head: halves, not pairs."""
    half = HEAD_DIM // 2
    lo = row[:, 0:half]
    hi = row[:, half:HEAD_DIM]
    new_lo = pl.sub(pl.col_expand_mul(lo, cos), pl.col_expand_mul(hi, sin))
    new_hi = pl.add(pl.col_expand_mul(hi, cos), pl.col_expand_mul(lo, sin))
    return pl.concat(new_lo, new_hi)
