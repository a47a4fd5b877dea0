"""Attention over a compressed cache: decode with absorbed weights, parts made by a factory."""

from __future__ import annotations

import pypto.language as pl

B = 8
HID = 256
Q_LORA = 128
KV_LORA = 128
ROPE = 32
NOPE = 64
HEADS = 4
V_DIM = 64
QK = NOPE + ROPE
MAX_SEQ = 128
BLK = 32
SCALE = QK**-0.5
EPS = 1e-6
BATCH_DYN = pl.dynamic("B_DYN")


def _bind_rms(n, name):
    inv = 1.0 / n

    @pl.jit.inline
    def rms_norm(x: pl.Tensor, w: pl.Tensor, y: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="rms"):
            xf = pl.cast(x, pl.FP32)
            ms = pl.add(pl.mul(pl.row_sum(pl.mul(xf, xf)), inv), EPS)
            y[:] = pl.cast(pl.col_expand_mul(pl.row_expand_mul(xf, pl.rsqrt(ms, high_precision=True)), w), pl.BF16)
        return y

    rms_norm.__name__ = name
    return rms_norm


rms_hidden = _bind_rms(HID, "rms_hidden")
rms_q = _bind_rms(Q_LORA, "rms_q")
rms_kv = _bind_rms(KV_LORA, "rms_kv")

USE_SPLIT = True
if USE_SPLIT:

    @pl.jit.inline
    def linear(x: pl.Tensor, w: pl.Tensor, y: pl.Tensor):
        """y = x @ w.T"""
        n, k = w.shape
        for nb in pl.spmd(n // 32, name_hint="linear"):
            acc = pl.matmul(x[:, 0:64], w[nb * 32 : nb * 32 + 32, 0:64], b_trans=True, out_dtype=pl.FP32)
            for kb in pl.range(64, k, 64):
                acc = pl.matmul_acc(acc, x[:, kb : kb + 64], w[nb * 32 : nb * 32 + 32, kb : kb + 64], b_trans=True)
            y[:, nb * 32 : nb * 32 + 32] = pl.cast(acc, pl.BF16)
        return y
else:

    @pl.jit.inline
    def linear(x: pl.Tensor, w: pl.Tensor, y: pl.Tensor):
        """y = x @ w.T"""
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="linear"):
            y[:, :] = pl.matmul(x[:, :], w[:, :], b_trans=True, out_dtype=pl.FP32)
        return y


@pl.jit.inline
def rope_part(x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor):
    lo = pl.slice(x, [1, ROPE // 2], [0, 0])
    hi = pl.slice(x, [1, ROPE // 2], [0, ROPE // 2])
    r_lo = pl.sub(pl.mul(lo, cos), pl.mul(hi, sin))
    r_hi = pl.add(pl.mul(hi, cos), pl.mul(lo, sin))
    return pl.concat(r_lo, r_hi)


@pl.jit
def mla(
    x: pl.Tensor[[BATCH_DYN, HID], pl.BF16],
    attn_norm: pl.Tensor[[1, HID], pl.FP32],
    wq_a: pl.Tensor[[Q_LORA, HID], pl.BF16],
    q_norm: pl.Tensor[[1, Q_LORA], pl.FP32],
    wq_b: pl.Tensor[[HEADS * QK, Q_LORA], pl.BF16],
    wkv_a: pl.Tensor[[KV_LORA + ROPE, HID], pl.BF16],
    kv_norm: pl.Tensor[[1, KV_LORA], pl.FP32],
    w_uk: pl.Tensor[[HEADS, NOPE, KV_LORA], pl.BF16],
    w_uv: pl.Tensor[[HEADS, KV_LORA, V_DIM], pl.BF16],
    wo: pl.Tensor[[HID, HEADS * V_DIM], pl.BF16],
    cos: pl.Tensor[[MAX_SEQ, ROPE // 2], pl.FP32],
    sin: pl.Tensor[[MAX_SEQ, ROPE // 2], pl.FP32],
    lens: pl.Tensor[[BATCH_DYN], pl.INT32],
    cache: pl.InOut[pl.Tensor[[B, MAX_SEQ, KV_LORA + ROPE], pl.BF16]],
    out: pl.Out[pl.Tensor[[BATCH_DYN, HID], pl.FP32]],
):
    b_dim = x.shape[0]
    normed = pl.create_tensor([B, HID], dtype=pl.BF16)
    normed = rms_hidden(x[0:B, :], attn_norm, normed)
    qa = pl.create_tensor([B, Q_LORA], dtype=pl.BF16)
    qa = linear(normed, wq_a, qa)
    qan = pl.create_tensor([B, Q_LORA], dtype=pl.BF16)
    qan = rms_q(qa, q_norm, qan)
    q = pl.create_tensor([B, HEADS * QK], dtype=pl.BF16)
    q = linear(qan, wq_b, q)
    kva = pl.create_tensor([B, KV_LORA + ROPE], dtype=pl.BF16)
    kva = linear(normed, wkv_a, kva)
    kvn = pl.create_tensor([B, KV_LORA], dtype=pl.BF16)
    kvn = rms_kv(kva[:, 0:KV_LORA], kv_norm, kvn)

    cache_flat = pl.reshape(cache, [B * MAX_SEQ, KV_LORA + ROPE])
    for b in pl.spmd(b_dim, name_hint="cache_write"):
        pos = pl.cast(pl.read(lens, [b]), pl.INDEX) - 1
        row = b * MAX_SEQ + pos
        cache_flat[row : row + 1, 0:KV_LORA] = kvn[b : b + 1, :]
        kr = pl.cast(kva[b : b + 1, KV_LORA : KV_LORA + ROPE], pl.FP32)
        kr_rot = rope_part(kr, cos[pos : pos + 1, :], sin[pos : pos + 1, :])
        cache_flat = pl.assemble(cache_flat, pl.cast(kr_rot, pl.BF16), [row, KV_LORA])

    q_abs = pl.create_tensor([HEADS, B, KV_LORA + ROPE], dtype=pl.BF16)
    for h in pl.spmd(HEADS, name_hint="q_absorb"):
        qn = q[:, h * QK : h * QK + NOPE]
        wk = w_uk[h]
        qa_h = pl.matmul(qn, wk, out_dtype=pl.FP32)
        q_abs[h, :, 0:KV_LORA] = pl.cast(qa_h, pl.BF16)
        for b in pl.range(b_dim):
            pos = pl.cast(pl.read(lens, [b]), pl.INDEX) - 1
            qr = pl.cast(q[b : b + 1, h * QK + NOPE : (h + 1) * QK], pl.FP32)
            q_abs[h, b : b + 1, KV_LORA : KV_LORA + ROPE] = pl.cast(
                rope_part(qr, pl.slice(cos, [1, ROPE // 2], [pos, 0]), pl.slice(sin, [1, ROPE // 2], [pos, 0])), pl.BF16
            )

    attn = pl.create_tensor([B, HEADS * V_DIM], dtype=pl.BF16)
    lat = pl.create_tensor([B, HEADS, KV_LORA], dtype=pl.BF16)
    tids = pl.array.create(B, pl.TASK_ID)
    with pl.manual_scope():
        for b in pl.parallel(b_dim):
            n = pl.cast(pl.read(lens, [b]), pl.INDEX)
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="mla_attn") as tid:
                qg = pl.reshape(q_abs[:, b, :], [HEADS, KV_LORA + ROPE])
                mi = pl.full([HEADS, 1], dtype=pl.FP32, value=-3.0e38)
                li = pl.full([HEADS, 1], dtype=pl.FP32, value=0.0)
                oi = pl.full([HEADS, KV_LORA], dtype=pl.FP32, value=0.0)
                for s0 in pl.range(0, n, BLK):
                    valid = pl.min(BLK, n - s0)
                    kv = cache_flat[b * MAX_SEQ + s0 : b * MAX_SEQ + s0 + BLK, :]
                    sc = pl.mul(pl.matmul(qg, kv, b_trans=True, out_dtype=pl.FP32), SCALE)
                    sc = pl.fillpad(pl.set_validshape(sc, HEADS, valid), pad_value=pl.PadValue.min)
                    mj = pl.maximum(mi, pl.row_max(sc))
                    p = pl.exp(pl.row_expand_sub(sc, mj))
                    a = pl.exp(pl.sub(mi, mj))
                    li = pl.add(pl.mul(li, a), pl.row_sum(p))
                    pv = pl.matmul(pl.cast(p, pl.BF16), kv[:, 0:KV_LORA], out_dtype=pl.FP32)
                    oi = pl.add(pl.row_expand_mul(oi, a), pv)
                    mi = mj
                lat[b, :, :] = pl.cast(pl.row_expand_div(oi, li), pl.BF16)
            tids[b] = tid
        with pl.spmd(HEADS, name_hint="v_up", deps=[tids[i] for i in range(B)]) as vt:
            h = pl.get_block_idx()
            o = pl.matmul(pl.reshape(lat[:, h, :], [B, KV_LORA]), w_uv[h, :, :], out_dtype=pl.FP32)
            attn[:, h * V_DIM : (h + 1) * V_DIM] = pl.cast(o, pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="o_proj", deps=[vt]):
            r = pl.matmul(attn[:, :], wo[:, :], b_trans=True, out_dtype=pl.FP32)
            out[:, :] = pl.add(r, pl.cast(x[0:B, :], pl.FP32))
    return out
