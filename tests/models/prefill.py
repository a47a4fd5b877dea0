"""A prefill layer that a factory makes: dynamic batch, causal attention tile by tile, SwiGLU in two variants."""

from __future__ import annotations

from dataclasses import dataclass

import pypto.language as pl


@dataclass(frozen=True)
class P:
    hidden: int = 256
    heads: int = 4
    kv_heads: int = 2
    dim: int = 64
    inter: int = 512
    max_seq: int = 96
    tok_tile: int = 16
    blk: int = 32


def build_prefill(p: P = P(), fuse_gate: bool = True):
    HIDDEN, HEADS, KVH, D, INTER, MAX_SEQ, TOK, BLK = (
        p.hidden,
        p.heads,
        p.kv_heads,
        p.dim,
        p.inter,
        p.max_seq,
        p.tok_tile,
        p.blk,
    )
    KV = KVH * D
    HALF = D // 2
    QPK = HEADS // KVH
    EPS = 1e-6
    SCALE = D**-0.5
    USER = pl.dynamic("USER_BATCH")
    ROWS = pl.dynamic("CACHE_ROWS")

    @pl.jit.inline
    def rms_norm(x, w, y):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="rms"):
            acc = pl.full([TOK, 1], dtype=pl.FP32, value=0.0)
            for k0 in pl.range(0, HIDDEN, 128):
                c = pl.cast(pl.slice(x, [TOK, 128], [0, k0]), pl.FP32)
                acc = pl.add(acc, pl.row_sum(pl.mul(c, c)))
            inv = pl.rsqrt(pl.add(pl.mul(acc, 1.0 / HIDDEN), EPS))
            for k0 in pl.range(0, HIDDEN, 128):
                c = pl.cast(pl.slice(x, [TOK, 128], [0, k0]), pl.FP32)
                g = pl.slice(w, [1, 128], [0, k0])
                y = pl.assemble(y, pl.cast(pl.col_expand_mul(pl.row_expand_mul(c, inv), g), pl.BF16), [0, k0])
        return y

    @pl.jit.inline
    def gemm(a, w, y):
        N = w.shape[1]
        K = w.shape[0]
        for nb in pl.parallel(0, N, 64):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="gemm"):
                c = pl.create_tensor([TOK, 64], dtype=pl.FP32)
                for kb in pl.pipeline(K // 128, stage=2):
                    c = pl.matmul_acc(
                        c,
                        a[:, kb * 128 : kb * 128 + 128],
                        w[kb * 128 : kb * 128 + 128, nb : nb + 64],
                        init_cond=kb == 0,
                    )
                y = pl.assemble(y, c, [0, nb])
        return y

    if fuse_gate:

        @pl.jit.inline
        def mlp(x, wg, wu, wd, resid, y):
            h = pl.create_tensor([TOK, INTER], dtype=pl.BF16)
            for nb in pl.spmd(INTER // 128, name_hint="gate_up"):
                g = pl.matmul(x, wg[:, nb * 128 : nb * 128 + 128], out_dtype=pl.FP32)
                u = pl.matmul(x, wu[:, nb * 128 : nb * 128 + 128], out_dtype=pl.FP32)
                s = pl.div(g, pl.add(pl.exp(pl.neg(g)), 1.0))
                h[:, nb * 128 : nb * 128 + 128] = pl.cast(pl.mul(s, u), pl.BF16, mode="rint")
            d = pl.create_tensor([TOK, HIDDEN], dtype=pl.FP32)
            d = gemm(h, wd, d)
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.add(d, resid)
            return y
    else:

        @pl.jit.inline
        def mlp(x, wg, wu, wd, resid, y):
            g = pl.create_tensor([TOK, INTER], dtype=pl.FP32)
            g = gemm(x, wg, g)
            u = pl.create_tensor([TOK, INTER], dtype=pl.FP32)
            u = gemm(x, wu, u)
            h = pl.create_tensor([TOK, INTER], dtype=pl.BF16)
            with pl.at(level=pl.Level.CORE_GROUP):
                h[:] = pl.cast(pl.mul(pl.mul(g, pl.recip(pl.add(pl.exp(pl.mul(g, -1.0)), 1.0))), u), pl.BF16)
            d = pl.create_tensor([TOK, HIDDEN], dtype=pl.FP32)
            d = gemm(h, wd, d)
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.add(d, resid)
            return y

    @pl.jit
    def prefill(
        x: pl.Tensor[[USER, MAX_SEQ, HIDDEN], pl.BF16],
        seq_lens: pl.Tensor[[USER], pl.INT32],
        norm1: pl.Tensor[[1, HIDDEN], pl.FP32],
        wq: pl.Tensor[[HIDDEN, HEADS * D], pl.BF16],
        wk: pl.Tensor[[HIDDEN, KV], pl.BF16],
        wv: pl.Tensor[[HIDDEN, KV], pl.BF16],
        cos: pl.Tensor[[MAX_SEQ, D], pl.FP32],
        sin: pl.Tensor[[MAX_SEQ, D], pl.FP32],
        kc: pl.InOut[pl.Tensor[[ROWS, D], pl.BF16]],
        vc: pl.InOut[pl.Tensor[[ROWS, D], pl.BF16]],
        wo: pl.Tensor[[HEADS * D, HIDDEN], pl.BF16],
        norm2: pl.Tensor[[1, HIDDEN], pl.FP32],
        wg: pl.Tensor[[HIDDEN, INTER], pl.BF16],
        wu: pl.Tensor[[HIDDEN, INTER], pl.BF16],
        wd: pl.Tensor[[INTER, HIDDEN], pl.BF16],
        out: pl.InOut[pl.Tensor[[USER, MAX_SEQ, HIDDEN], pl.BF16]],
    ):
        users, _, _ = x.shape
        for b in pl.parallel(users):
            n = pl.cast(seq_lens[b], pl.INDEX)
            tiles = (n + TOK - 1) // TOK
            for t in pl.range(tiles):
                p0 = t * TOK
                valid = pl.min(TOK, n - p0)
                xt = pl.create_tensor([TOK, HIDDEN], dtype=pl.BF16)
                with pl.at(level=pl.Level.CORE_GROUP, name_hint="stage"):
                    for k0 in pl.range(0, HIDDEN, 128):
                        c = pl.slice(x, [1, TOK, 128], [b, p0, k0], valid_shape=[1, valid, 128], drop_dims=[0])
                        xt = pl.assemble(xt, pl.fillpad(c, pad_value=pl.PadValue.zero), [0, k0])
                xn = pl.create_tensor([TOK, HIDDEN], dtype=pl.BF16)
                xn = rms_norm(xt, norm1, xn)
                q = pl.create_tensor([TOK, HEADS * D], dtype=pl.FP32)
                k = pl.create_tensor([TOK, KV], dtype=pl.FP32)
                v = pl.create_tensor([TOK, KV], dtype=pl.FP32)
                q = gemm(xn, wq, q)
                k = gemm(xn, wk, k)
                v = gemm(xn, wv, v)
                qr = pl.create_tensor([HEADS, TOK, D], dtype=pl.BF16)
                with pl.at(level=pl.Level.CORE_GROUP, name_hint="rope"):
                    c_lo = cos[p0 : p0 + TOK, 0:HALF]
                    c_hi = cos[p0 : p0 + TOK, HALF:D]
                    s_lo = sin[p0 : p0 + TOK, 0:HALF]
                    s_hi = sin[p0 : p0 + TOK, HALF:D]
                    for h in pl.range(HEADS):
                        lo = q[:, h * D : h * D + HALF]
                        hi = q[:, h * D + HALF : (h + 1) * D]
                        qr[h, :, 0:HALF] = pl.cast(pl.sub(pl.mul(lo, c_lo), pl.mul(hi, s_lo)), pl.BF16)
                        qr[h, :, HALF:D] = pl.cast(pl.add(pl.mul(hi, c_hi), pl.mul(lo, s_hi)), pl.BF16)
                    for h in pl.range(KVH):
                        row = (b * KVH + h) * MAX_SEQ + p0
                        lo = k[:, h * D : h * D + HALF]
                        hi = k[:, h * D + HALF : (h + 1) * D]
                        rl = pl.set_validshape(
                            pl.cast(pl.sub(pl.mul(lo, c_lo), pl.mul(hi, s_lo)), pl.BF16), valid, HALF
                        )
                        rh = pl.set_validshape(
                            pl.cast(pl.add(pl.mul(hi, c_hi), pl.mul(lo, s_hi)), pl.BF16), valid, HALF
                        )
                        kc = pl.assemble(kc, rl, [row, 0])
                        kc = pl.assemble(kc, rh, [row, HALF])
                        vv = pl.set_validshape(pl.cast(v[:, h * D : (h + 1) * D], pl.BF16), valid, D)
                        vc = pl.assemble(vc, vv, [row, 0])
                att = pl.create_tensor([TOK, HEADS * D], dtype=pl.BF16)
                for h in pl.spmd(HEADS, name_hint="attn"):
                    kvh = h // QPK
                    qt = qr[h, :, :]
                    m = pl.full([TOK, 1], dtype=pl.FP32, value=-1e30)
                    total = pl.full([TOK, 1], dtype=pl.FP32, value=0.0)
                    o = pl.full([TOK, D], dtype=pl.FP32, value=0.0)
                    nblk = (p0 + valid + BLK - 1) // BLK
                    for j in pl.range(nblk):
                        s0 = j * BLK
                        kt = pl.slice(kc, [BLK, D], [(b * KVH + kvh) * MAX_SEQ + s0, 0])
                        vt = pl.slice(vc, [BLK, D], [(b * KVH + kvh) * MAX_SEQ + s0, 0])
                        sc = pl.mul(pl.matmul(qt, kt, b_trans=True, out_dtype=pl.FP32), SCALE)
                        masked = pl.create_tensor([TOK, BLK], dtype=pl.FP32)
                        for r in pl.range(TOK):
                            vis = pl.max(pl.min(p0 + r + 1 - s0, BLK), 0)
                            row_s = pl.fillpad(
                                pl.set_validshape(pl.slice(sc, [1, BLK], [r, 0]), 1, vis), pad_value=pl.PadValue.min
                            )
                            masked = pl.assemble(masked, row_s, [r, 0])
                        mn = pl.maximum(m, pl.row_max(masked))
                        e = pl.exp(pl.row_expand_sub(masked, mn))
                        al = pl.exp(pl.sub(m, mn))
                        eb = pl.cast(e, pl.BF16)
                        total = pl.add(pl.mul(total, al), pl.row_sum(pl.cast(eb, pl.FP32)))
                        o = pl.add(pl.row_expand_mul(o, al), pl.matmul(eb, vt, out_dtype=pl.FP32))
                        m = mn
                    att[:, h * D : (h + 1) * D] = pl.cast(pl.row_expand_div(o, total), pl.BF16)
                proj = pl.create_tensor([TOK, HIDDEN], dtype=pl.FP32)
                proj = gemm(att, wo, proj)
                res = pl.create_tensor([TOK, HIDDEN], dtype=pl.FP32)
                res_b = pl.create_tensor([TOK, HIDDEN], dtype=pl.BF16)
                with pl.at(level=pl.Level.CORE_GROUP, name_hint="residual"):
                    r = pl.add(proj, pl.cast(xt, pl.FP32))
                    res[:] = r
                    res_b[:] = pl.cast(r, pl.BF16)
                hn = pl.create_tensor([TOK, HIDDEN], dtype=pl.BF16)
                hn = rms_norm(res_b, norm2, hn)
                y = pl.create_tensor([TOK, HIDDEN], dtype=pl.FP32)
                y = mlp(hn, wg, wu, wd, res, y)
                with pl.at(level=pl.Level.CORE_GROUP, name_hint="write"):
                    yb = pl.cast(y, pl.BF16)
                    yv = pl.slice(yb, [TOK, HIDDEN], [0, 0], valid_shape=[valid, HIDDEN])
                    out[b, p0 : p0 + TOK, :] = yv
        return out

    return prefill
