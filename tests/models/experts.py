"""Mixture of experts in INT8, an index of the keys that score best, mixing of streams around a barrier."""

from __future__ import annotations

import pypto.language as pl

T = 8
D = 128
INTER = 64
E = 8
TOPK = 2
T_DYN = pl.dynamic("T_DYN")
S_DYN = pl.dynamic("S_DYN")
RECV_MAX = 16
FP32_NEG_INF = -3.4028234663852886e38
INT8_SCALE_MAX = 127.0
INT8_AMAX_EPS = 1e-4
SWIGLU_LIMIT = 7.0
CACHE_TILE = 32
N_IDX = 4
IDX_D = 32
TOP = 64
MAX_S = 512


@pl.jit.inline
def quant_rows(
    x: pl.Tensor[[RECV_MAX, D], pl.FP32], xq: pl.Tensor[[RECV_MAX, D], pl.INT8], xs: pl.Tensor[[RECV_MAX, 1], pl.FP32]
):
    amax = pl.full([1, RECV_MAX], dtype=pl.FP32, value=INT8_AMAX_EPS)
    for k0 in pl.range(0, D, 64):
        c = x[:, k0 : k0 + 64]
        c_abs = pl.maximum(c, pl.neg(c))
        amax = pl.maximum(amax, pl.reshape(pl.row_max(c_abs), [1, RECV_MAX]))
    scale_q = pl.div(pl.full([1, RECV_MAX], dtype=pl.FP32, value=INT8_SCALE_MAX), amax)
    xs[:, :] = pl.reshape(pl.recip(scale_q), [RECV_MAX, 1])
    scale_t = pl.reshape(scale_q, [RECV_MAX, 1])
    for k0 in pl.range(0, D, 64):
        c = x[:, k0 : k0 + 64]
        s = pl.row_expand_mul(c, scale_t)
        i32 = pl.cast(s, target_type=pl.INT32, mode="rint")
        h = pl.cast(i32, target_type=pl.FP16, mode="round")
        xq[:, k0 : k0 + 64] = pl.cast(h, target_type=pl.INT8, mode="trunc")
    return xq, xs


@pl.jit
def moe(
    x: pl.Tensor[[T, D], pl.BF16],
    gate_w: pl.Tensor[[E, D], pl.FP32],
    gate_bias: pl.Tensor[[1, E], pl.FP32],
    w1: pl.Tensor[[E, INTER, D], pl.INT8],
    w1_s: pl.Tensor[[E, INTER], pl.FP32],
    w3: pl.Tensor[[E, INTER, D], pl.INT8],
    w3_s: pl.Tensor[[E, INTER], pl.FP32],
    w2: pl.Tensor[[E, D, INTER], pl.BF16],
    out: pl.Out[pl.Tensor[[T, D], pl.FP32]],
):
    # --- gate ---
    scores = pl.create_tensor([T, 32], dtype=pl.FP32)
    biased = pl.create_tensor([T, 32], dtype=pl.FP32)
    indices = pl.create_tensor([T, TOPK], dtype=pl.INT32)
    weights = pl.create_tensor([T, TOPK], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="gate"):
        xf = pl.cast(x, target_type=pl.FP32)
        logits = pl.matmul(xf, gate_w, b_trans=True, out_dtype=pl.FP32)
        # sqrt(softplus)
        sp = pl.log(pl.add(pl.exp(logits), 1.0))
        sc = pl.sqrt(sp)
        scores[:, :] = pl.full([T, 32], dtype=pl.FP32, value=0.0)
        biased[:, :] = pl.full([T, 32], dtype=pl.FP32, value=FP32_NEG_INF)
        scores[:, 0:E] = sc
        biased[:, 0:E] = pl.add(sc, pl.col_expand(sc, gate_bias))
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="topk"):
        for t in pl.range(T):
            idx_init = pl.arange(0, [1, 32], dtype=pl.UINT32)
            sorted_pairs = pl.sort32(biased[t : t + 1, :], idx_init)
            i_row = pl.gather(sorted_pairs[:, 0 : 2 * TOPK], mask_pattern=2, output_dtype=pl.INT32)
            indices[t : t + 1, :] = i_row
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="norm_w"):
        w = pl.gather(scores, dim=-1, index=indices)
        den = pl.row_sum(w)
        weights[:, :] = pl.mul(pl.row_expand_div(w, den), 1.5)

    # --- dispatch: counts and slots by scalar code ---
    counts = pl.create_tensor([E, 1], dtype=pl.INT32, init_value=0)
    slots = pl.create_tensor([E, RECV_MAX], dtype=pl.INT32, init_value=0)
    slot_w = pl.create_tensor([E, RECV_MAX], dtype=pl.FP32)
    recv = pl.create_tensor([E, RECV_MAX, D], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="dispatch"):
        for t in pl.range(T):
            for k in pl.range(TOPK):
                e = pl.cast(pl.read(indices, [t, k]), pl.INDEX)
                c = pl.read(counts, [e, 0])
                ci = pl.cast(c, pl.INDEX)
                pl.write(slots, [e, ci], pl.cast(t, pl.INT32))
                pl.write(slot_w, [e, ci], pl.read(weights, [t, k]))
                recv[e : e + 1, ci : ci + 1, :] = pl.reshape(pl.cast(x[t : t + 1, :], pl.FP32), [1, 1, D])
                pl.write(counts, [e, 0], pl.cast(ci + 1, pl.INT32))

    # --- experts ---
    y = pl.create_tensor([E * RECV_MAX, D], dtype=pl.FP32)
    for e in pl.parallel(E):
        n_rows = pl.cast(pl.read(counts, [e, 0]), pl.INDEX)
        xq = pl.create_tensor([RECV_MAX, D], dtype=pl.INT8)
        xs = pl.create_tensor([RECV_MAX, 1], dtype=pl.FP32)
        h_bf = pl.create_tensor([RECV_MAX, INTER], dtype=pl.BF16)
        if n_rows > 0:
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="quant"):
                xe = pl.create_tensor([RECV_MAX, D], dtype=pl.FP32)
                part = pl.slice(recv, [1, RECV_MAX, D], [e, 0, 0], valid_shape=[1, n_rows, D], drop_dims=[0])
                xe[:, :] = pl.fillpad(part, pad_value=pl.PadValue.zero)
                xq, xs = quant_rows(xe, xq, xs)
            for nb in pl.spmd(INTER // 32, name_hint="w13"):
                n0 = nb * 32
                g_acc = pl.matmul(xq, w1[e, n0 : n0 + 32, :], b_trans=True, out_dtype=pl.INT32)
                u_acc = pl.matmul(xq, w3[e, n0 : n0 + 32, :], b_trans=True, out_dtype=pl.INT32)
                g = pl.col_expand_mul(pl.row_expand_mul(pl.cast(g_acc, pl.FP32), xs), w1_s[e : e + 1, n0 : n0 + 32])
                u = pl.col_expand_mul(pl.row_expand_mul(pl.cast(u_acc, pl.FP32), xs), w3_s[e : e + 1, n0 : n0 + 32])
                lim = pl.full([RECV_MAX, 32], dtype=pl.FP32, value=SWIGLU_LIMIT)
                g = pl.minimum(g, lim)
                u = pl.maximum(pl.minimum(u, lim), pl.neg(lim))
                sig = pl.recip(pl.add(pl.exp(pl.neg(g)), 1.0))
                h_bf[:, n0 : n0 + 32] = pl.cast(pl.mul(pl.mul(g, sig), u), pl.BF16, mode="rint")
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="w2"):
                ye = pl.matmul(h_bf, w2[e, :, :], b_trans=True, out_dtype=pl.FP32)
                y = pl.assemble(y, pl.set_validshape(ye, n_rows, D), [e * RECV_MAX, 0])

    # --- combine ---
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="combine"):
        out[:, :] = pl.full([T, D], dtype=pl.FP32, value=0.0)
        for e in pl.range(E):
            n = pl.cast(pl.read(counts, [e, 0]), pl.INDEX)
            for j in pl.range(n):
                t = pl.cast(pl.read(slots, [e, j]), pl.INDEX)
                wt = pl.read(slot_w, [e, j])
                row = pl.mul(y[e * RECV_MAX + j : e * RECV_MAX + j + 1, :], wt)
                out[t : t + 1, :] = pl.add(out[t : t + 1, :], row)
    return out


@pl.jit
def indexer(
    q: pl.Tensor[[T_DYN, N_IDX * IDX_D], pl.BF16],
    wts: pl.Tensor[[T_DYN, N_IDX], pl.FP32],
    k_cache: pl.Tensor[[S_DYN, IDX_D], pl.BF16],
    lens: pl.Tensor[[T_DYN], pl.INT32],
    topk: pl.Out[pl.Tensor[[T_DYN, TOP], pl.INT32]],
):
    tokens = pl.tensor.dim(q, 0)
    score = pl.create_tensor([tokens, MAX_S], dtype=pl.FP32)
    for t in pl.spmd(tokens, name_hint="score", allow_early_resolve=True):
        n = pl.cast(pl.read(lens, [t]), pl.INDEX)
        score[t : t + 1, :] = pl.full([1, MAX_S], dtype=pl.FP32, value=FP32_NEG_INF)
        qh = pl.reshape(q[t : t + 1, :], [N_IDX, IDX_D])
        w_col = pl.reshape(wts[t : t + 1, :], [N_IDX, 1])
        for s0 in pl.range(0, n, CACHE_TILE):
            vl = pl.min(CACHE_TILE, n - s0)
            kt = pl.slice(k_cache, [CACHE_TILE, IDX_D], [s0, 0], valid_shape=[vl, IDX_D])
            lg = pl.matmul(qh, kt, b_trans=True, out_dtype=pl.FP32)
            lg = pl.maximum(lg, pl.mul(lg, 0.0))
            wl = pl.row_expand_mul(lg, w_col)
            sm = pl.col_sum(wl)
            sm = pl.fillpad(pl.set_validshape(sm, 1, vl), pad_value=pl.PadValue.min)
            score[t : t + 1, s0 : s0 + CACHE_TILE] = sm
    for t in pl.spmd(tokens, name_hint="topk"):
        ii = pl.arange(0, [1, MAX_S], dtype=pl.UINT32)
        srt = pl.sort32(score[t : t + 1, :], ii)
        srt = pl.mrgsort(srt, block_len=64)
        r0 = pl.slice(srt, [1, 256], [0, 0])
        r1 = pl.slice(srt, [1, 256], [0, 256])
        r2 = pl.slice(srt, [1, 256], [0, 512])
        r3 = pl.slice(srt, [1, 256], [0, 768])
        srt4 = pl.mrgsort(r0, r1, r2, r3, exhausted=False)
        top = pl.slice(srt4, [1, 2 * TOP], [0, 0])
        ids = pl.gather(top, mask_pattern=2, output_dtype=pl.INT32)
        n = pl.cast(pl.read(lens, [t]), pl.INDEX)
        nv = pl.min(TOP, n)
        topk[t : t + 1, :] = pl.full([1, TOP], dtype=pl.INT32, value=-1)
        topk = pl.assemble(topk, pl.set_validshape(ids, 1, nv), [t, 0])
    return topk


HC = 4
MIX = 24


@pl.jit.inline(auto_scope=False)
def sinkhorn(m: pl.Tensor):
    """m: [16, HC * HC]; rows of 4x4 matrices flattened."""
    flat = pl.reshape(m, [16 * HC, HC])
    mx = pl.row_max(flat)
    e = pl.exp(pl.row_expand_sub(flat, mx))
    s = pl.row_expand_div(e, pl.row_sum(e))
    return pl.reshape(s, [16, HC * HC])


@pl.jit
def hc_pre(
    x: pl.Tensor[[T_DYN, HC, D], pl.BF16],
    fn: pl.Tensor[[MIX, HC * D], pl.FP32],
    scale: pl.Tensor[[3], pl.FP32],
    base: pl.Tensor[[MIX], pl.FP32],
    mixed: pl.Out[pl.Tensor[[T_DYN, D], pl.BF16]],
    post: pl.Out[pl.Tensor[[T_DYN, HC], pl.FP32]],
    comb: pl.Out[pl.Tensor[[T_DYN, HC * HC], pl.FP32]],
):
    t_dim = x.shape[0]
    xf = pl.reshape(x, [t_dim, HC * D])
    base2 = pl.reshape(base, [1, MIX])
    part = pl.create_tensor([4 * 16, 32], dtype=pl.FP32)
    sq = pl.create_tensor([4 * 16, 8], dtype=pl.FP32)
    for tb in pl.range(0, t_dim, 16):
        v = pl.min(16, t_dim - tb)
        for b in pl.spmd(4, name_hint="hc_linear", sync_start=True):
            k0 = b * D
            xc = pl.cast(pl.fillpad(pl.slice(xf, [16, D], [tb, k0], valid_shape=[v, D])), pl.FP32)
            w = fn[:, k0 : k0 + D]
            p = pl.matmul(xc, w, b_trans=True, out_dtype=pl.FP32)
            part[b * 16 : b * 16 + 16, 0:MIX] = p
            sq[b * 16 : b * 16 + 16, 0:1] = pl.row_sum(pl.mul(xc, xc))
            pl.system.syncall(core_type="mix")
            if b == 0:
                acc = part[0:16, 0:MIX]
                ss = sq[0:16, 0:1]
                for j in pl.range(1, 4):
                    acc = pl.add(acc, part[j * 16 : j * 16 + 16, 0:MIX])
                    ss = pl.add(ss, sq[j * 16 : j * 16 + 16, 0:1])
                inv = pl.rsqrt(pl.add(pl.mul(ss, 1.0 / (HC * D)), 1e-6))
                mix = pl.row_expand_mul(acc, inv)
                s0 = pl.read(scale, [0])
                s1 = pl.read(scale, [1])
                s2 = pl.read(scale, [2])
                pre_l = pl.add(pl.mul(mix[:, 0:HC], s0), pl.col_expand(mix[:, 0:HC], base2[:, 0:HC]))
                pre = pl.add(pl.recip(pl.add(pl.exp(pl.neg(pre_l)), 1.0)), 1e-6)
                post_l = pl.col_expand_add(pl.mul(mix[:, HC : 2 * HC], s1), base2[:, HC : 2 * HC])
                post_v = pl.mul(pl.recip(pl.add(pl.exp(pl.neg(post_l)), 1.0)), 2.0)
                post = pl.assemble(post, pl.set_validshape(post_v, v, HC), [tb, 0])
                comb_l = pl.col_expand_add(pl.mul(mix[:, 2 * HC : MIX], s2), base2[:, 2 * HC : MIX])
                cm = sinkhorn(comb_l)
                comb = pl.assemble(comb, pl.set_validshape(cm, v, HC * HC), [tb, 0])
                y = pl.full([16, D], dtype=pl.FP32, value=0.0)
                for h in pl.unroll(HC):
                    xh = pl.cast(pl.fillpad(pl.slice(xf, [16, D], [tb, h * D], valid_shape=[v, D])), pl.FP32)
                    y = pl.add(y, pl.row_expand_mul(xh, pre[:, h : h + 1]))
                mixed = pl.assemble(mixed, pl.set_validshape(pl.cast(y, pl.BF16), v, D), [tb, 0])
    return mixed, post, comb
