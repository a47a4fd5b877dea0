"""One decode step of a small Llama-like layer with a paged KV cache."""

import models.config as cfg
import pypto.language as pl
from models.config import (
    BATCH,
    BLOCK,
    HEAD_DIM,
    HIDDEN,
    INTERMEDIATE,
    KV_HEADS,
    MAX_BLOCKS,
    N_CHUNK,
    PAGES,
    Q_PER_KV,
    SCALE,
)
from models.parts import make_projection, rms_norm, rotate

KV_DIM = KV_HEADS * HEAD_DIM


def _bind(name, in_dim, out_dim):
    project = make_projection(in_dim, out_dim, name)
    project.__name__ = name
    return project


q_proj = _bind("q_proj", HIDDEN, HIDDEN)
kv_proj = _bind("kv_proj", HIDDEN, KV_DIM)
up_proj = _bind("up_proj", HIDDEN, INTERMEDIATE)
down_proj = _bind("down_proj", INTERMEDIATE, HIDDEN)


@pl.jit.incore
def write_cache(
    k: pl.Tensor, v: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, slots: pl.Tensor, lens: pl.Tensor,
    k_cache: pl.InOut[pl.Tensor], v_cache: pl.InOut[pl.Tensor],
):  # fmt: skip
    b = pl.get_block_idx()
    slot = pl.cast(pl.read(slots, [b]), pl.INDEX)
    pos = pl.cast(pl.read(lens, [b]), pl.INDEX) - 1
    cos_row = cos[pos : pos + 1, :]
    sin_row = sin[pos : pos + 1, :]
    for h in pl.unroll(KV_HEADS):
        row = k[b : b + 1, h * HEAD_DIM : (h + 1) * HEAD_DIM]
        k_cache[slot : slot + 1, h * HEAD_DIM : (h + 1) * HEAD_DIM] = pl.cast(rotate(row, cos_row, sin_row), pl.BF16)
    v_cache[slot : slot + 1, :] = pl.cast(v[b : b + 1, :], pl.BF16)
    return k_cache, v_cache


@pl.jit.inline
def attention(q: pl.Tensor, k_cache: pl.Tensor, v_cache: pl.Tensor, table: pl.Tensor, lens: pl.Tensor,
              cos: pl.Tensor, sin: pl.Tensor, out: pl.Tensor):  # fmt: skip
    """Online softmax over the pages of each sequence, one task per sequence."""
    for b in pl.parallel(BATCH):
        seq_len = pl.cast(pl.read(lens, [b]), pl.INDEX)
        blocks = (seq_len + BLOCK - 1) // BLOCK
        for h in pl.spmd(KV_HEADS, name_hint="attention"):
            cos_row = cos[seq_len - 1 : seq_len, :]
            sin_row = sin[seq_len - 1 : seq_len, :]
            rows = pl.reshape(
                q[b : b + 1, h * Q_PER_KV * HEAD_DIM : (h + 1) * Q_PER_KV * HEAD_DIM], [Q_PER_KV, HEAD_DIM]
            )
            query = pl.cast(pl.mul(rotate(rows, cos_row, sin_row), SCALE), pl.BF16)
            for i in pl.range(blocks):
                page = pl.cast(pl.read(table, [b, i]), pl.INDEX)
                valid = pl.min(BLOCK, seq_len - i * BLOCK)
                keys = k_cache[page * BLOCK : page * BLOCK + BLOCK, h * HEAD_DIM : (h + 1) * HEAD_DIM]
                values = v_cache[page * BLOCK : page * BLOCK + BLOCK, h * HEAD_DIM : (h + 1) * HEAD_DIM]
                scores = pl.matmul(query, keys, b_trans=True)
                scores = pl.fillpad(pl.set_validshape(scores, Q_PER_KV, valid), pad_value=pl.PadValue.min)
                block_max = pl.row_max(scores)
                probs = pl.exp(pl.row_expand_sub(scores, block_max))
                block_sum = pl.row_sum(probs)
                weighted = pl.matmul(pl.cast(probs, pl.BF16), values)
                if i == 0:
                    acc = weighted
                    run_max = block_max
                    run_sum = block_sum
                else:
                    new_max = pl.maximum(run_max, block_max)
                    alpha = pl.exp(pl.sub(run_max, new_max))
                    beta = pl.exp(pl.sub(block_max, new_max))
                    acc = pl.add(pl.row_expand_mul(acc, alpha), pl.row_expand_mul(weighted, beta))
                    run_sum = pl.add(pl.mul(run_sum, alpha), pl.mul(block_sum, beta))
                    run_max = new_max
            result = pl.row_expand_div(acc, run_sum)
            flat = pl.reshape(result, [1, Q_PER_KV * HEAD_DIM])
            out[b : b + 1, h * Q_PER_KV * HEAD_DIM : (h + 1) * Q_PER_KV * HEAD_DIM] = pl.cast(flat, pl.BF16)
    return out


def make_layer(tuning=cfg.DEFAULT):
    """The layer for one tuning: kernels see `tuning` through their closure."""

    @pl.jit.inline
    def gate(a: pl.Tensor, b: pl.Tensor, out: pl.Tensor):
        for i in pl.spmd(tuning.blocks, name_hint="gate"):
            width = INTERMEDIATE // tuning.blocks
            g = a[:, i * width : (i + 1) * width]
            u = b[:, i * width : (i + 1) * width]
            sigmoid = pl.recip(pl.add(pl.exp(pl.neg(g)), 1.0))
            out[:, i * width : (i + 1) * width] = pl.cast(pl.mul(pl.mul(g, sigmoid), u), pl.BF16)
        return out

    @pl.jit
    def layer(
        x: pl.Tensor[[BATCH, HIDDEN], pl.BF16],
        norm: pl.Tensor[[2, HIDDEN], pl.FP32],
        w_q: pl.Tensor, w_k: pl.Tensor, w_v: pl.Tensor, w_o: pl.Tensor,
        w_gate: pl.Tensor, w_up: pl.Tensor, w_down: pl.Tensor,
        cos: pl.Tensor, sin: pl.Tensor,
        table: pl.Tensor[[BATCH, MAX_BLOCKS], pl.INT32], slots: pl.Tensor, lens: pl.Tensor,
        k_cache: pl.InOut[pl.Tensor[[PAGES, KV_DIM], pl.BF16]], v_cache: pl.InOut[pl.Tensor[[PAGES, KV_DIM], pl.BF16]],
        out: pl.Out[pl.Tensor[[BATCH, HIDDEN], pl.BF16]],
    ):  # fmt: skip
        """A decode step."""
        normed = pl.create_tensor([BATCH, HIDDEN], dtype=pl.BF16)
        normed = rms_norm(x, norm[0:1, :], normed)
        q = pl.create_tensor([BATCH, HIDDEN], dtype=pl.FP32)
        k = pl.create_tensor([BATCH, KV_DIM], dtype=pl.FP32)
        v = pl.create_tensor([BATCH, KV_DIM], dtype=pl.FP32)
        with pl.manual_scope():
            q = q_proj(normed, w_q, q)
            k = kv_proj(normed, w_k, k)
            v = kv_proj(normed, w_v, v)
            with pl.spmd(BATCH) as cached:
                k_cache, v_cache = write_cache(k, v, cos, sin, slots, lens, k_cache, v_cache)
            ready = pl.system.task_dummy(deps=[cached])
        heads = pl.create_tensor([BATCH, HIDDEN], dtype=pl.BF16)
        heads = attention(q, k_cache, v_cache, table, lens, cos, sin, heads)
        attended = pl.create_tensor([BATCH, HIDDEN], dtype=pl.FP32)
        attended = q_proj(heads, w_o, attended)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="residual", deps=[ready]):
            middle = pl.add(attended, pl.cast(x, pl.FP32))
        residual = pl.create_tensor([BATCH, HIDDEN], dtype=pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP):
            residual[:] = pl.cast(middle, pl.BF16)
        normed = rms_norm(residual, norm[1:2, :], normed)
        gated = pl.create_tensor([BATCH, INTERMEDIATE], dtype=pl.FP32)
        upped = pl.create_tensor([BATCH, INTERMEDIATE], dtype=pl.FP32)
        mlp = pl.create_tensor([BATCH, INTERMEDIATE], dtype=pl.BF16)
        gated = up_proj(normed, w_gate, gated)
        upped = up_proj(normed, w_up, upped)
        mlp = gate(gated, upped, mlp)
        lowered = pl.create_tensor([BATCH, HIDDEN], dtype=pl.FP32)
        lowered = down_proj(mlp, w_down, lowered)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="output"):
            for n in pl.range(0, HIDDEN, N_CHUNK):
                out[:, n : n + N_CHUNK] = pl.cast(
                    pl.add(lowered[:, n : n + N_CHUNK], middle[:, n : n + N_CHUNK]), pl.BF16
                )
        return out

    return layer
