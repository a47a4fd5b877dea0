"""A decode layer of the Qwen family: paged cache, online softmax in blocks, split-K with atomic adds, SwiGLU.

The batch is dynamic and worked on in tiles of 16 rows; long rows are cut into chunks that fit on chip.
"""

from __future__ import annotations

import pypto.language as pl
from models.decode_config import (
    ATTN_SCALE,
    BATCH_TILE,
    BLOCK_SIZE,
    BLOCK_TABLE_FLAT_DYN,
    EPS,
    HALF_DIM,
    HEAD_DIM,
    HIDDEN,
    HIDDEN_BLOCKS,
    HIDDEN_INV,
    INPUT_PROJ_K_CHUNK,
    INTERMEDIATE,
    K_CHUNK,
    KV_CACHE_ROWS_DYN,
    KV_HIDDEN,
    KV_OUT_CHUNK,
    MAX_BLOCKS_PER_SEQ,
    MAX_SEQ,
    MLP_OUT_CHUNK,
    NUM_HEADS,
    NUM_KV_HEADS,
    OUT_PROJ_N_CHUNK,
    Q_HEAD_PAD,
    Q_OUT_CHUNK,
    Q_PER_KV,
    SPLIT_K,
    USER_BATCH_DYN,
)


@pl.jit.inline
def rmsnorm_rows(
    x: pl.Tensor[[BATCH_TILE, HIDDEN], pl.BF16],
    weight: pl.Tensor[[1, HIDDEN], pl.FP32],
    normed: pl.Tensor[[BATCH_TILE, HIDDEN], pl.BF16],
):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="rmsnorm"):
        partial_sq = pl.full([1, BATCH_TILE], dtype=pl.FP32, value=0.0)
        for kb in pl.pipeline(HIDDEN_BLOCKS, stage=2):
            k0 = kb * INPUT_PROJ_K_CHUNK
            x_chunk = pl.cast(pl.slice(x, [BATCH_TILE, INPUT_PROJ_K_CHUNK], [0, k0]), target_type=pl.FP32)
            partial_sq = pl.add(partial_sq, pl.reshape(pl.row_sum(pl.mul(x_chunk, x_chunk)), [1, BATCH_TILE]))
        variance = pl.reshape(pl.add(pl.mul(partial_sq, HIDDEN_INV), EPS), [BATCH_TILE, 1])
        inv_rms = pl.recip(pl.sqrt(variance))
        for kb in pl.pipeline(0, HIDDEN_BLOCKS, 1, stage=2):
            k0 = kb * INPUT_PROJ_K_CHUNK
            x_chunk = pl.cast(pl.slice(x, [BATCH_TILE, INPUT_PROJ_K_CHUNK], [0, k0]), target_type=pl.FP32)
            gamma = pl.slice(weight, [1, INPUT_PROJ_K_CHUNK], [0, k0])
            scaled = pl.col_expand_mul(pl.row_expand_mul(x_chunk, inv_rms), gamma)
            normed = pl.assemble(normed, pl.cast(scaled, target_type=pl.BF16), [0, k0])
    return normed


@pl.jit.inline
def project(
    normed: pl.Tensor, w: pl.Tensor, out: pl.Tensor, n_total: pl.Scalar[pl.INDEX], n_chunk: pl.Scalar[pl.INDEX]
):
    for ob in pl.spmd(n_total // n_chunk, name_hint="proj"):
        n0 = ob * n_chunk
        a0 = normed[:, 0:INPUT_PROJ_K_CHUNK]
        b0 = w[0:INPUT_PROJ_K_CHUNK, n0 : n0 + n_chunk]
        acc = pl.matmul(a0, b0, out_dtype=pl.FP32)
        for kb in pl.pipeline(1, HIDDEN_BLOCKS, stage=2):
            k0 = kb * INPUT_PROJ_K_CHUNK
            a = normed[:, k0 : k0 + INPUT_PROJ_K_CHUNK]
            b = w[k0 : k0 + INPUT_PROJ_K_CHUNK, n0 : n0 + n_chunk]
            acc = pl.matmul_acc(acc, a, b)
        out[:, n0 : n0 + n_chunk] = acc
    return out


@pl.jit.inline
def qk_norm(proj: pl.Tensor, weight: pl.Tensor, heads: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], name_hint="qk_norm"):
        for h in pl.range(heads):
            h0 = h * HEAD_DIM
            chunk = pl.slice(proj, [BATCH_TILE, HEAD_DIM], [0, h0])
            sq = pl.row_sum(pl.mul(chunk, chunk))
            inv = pl.rsqrt(pl.add(pl.mul(sq, 1.0 / HEAD_DIM), EPS))
            chunk_n = pl.col_expand_mul(pl.row_expand_mul(chunk, inv), weight)
            proj = pl.assemble(proj, chunk_n, [0, h0])
    return proj


@pl.jit
def qwen_decode(
    hidden_states: pl.Tensor[[USER_BATCH_DYN, HIDDEN], pl.BF16],
    input_rms_weight: pl.Tensor[[1, HIDDEN], pl.FP32],
    wq: pl.Tensor[[HIDDEN, HIDDEN], pl.BF16],
    wk: pl.Tensor[[HIDDEN, KV_HIDDEN], pl.BF16],
    wv: pl.Tensor[[HIDDEN, KV_HIDDEN], pl.BF16],
    q_norm_weight: pl.Tensor[[1, HEAD_DIM], pl.FP32],
    k_norm_weight: pl.Tensor[[1, HEAD_DIM], pl.FP32],
    seq_lens: pl.Tensor[[USER_BATCH_DYN], pl.INT32],
    block_table: pl.Tensor[[BLOCK_TABLE_FLAT_DYN], pl.INT32],
    slot_mapping: pl.Tensor[[USER_BATCH_DYN], pl.INT32],
    rope_cos: pl.Tensor[[MAX_SEQ, HEAD_DIM], pl.FP32],
    rope_sin: pl.Tensor[[MAX_SEQ, HEAD_DIM], pl.FP32],
    k_cache: pl.InOut[pl.Tensor[[KV_CACHE_ROWS_DYN, HEAD_DIM], pl.BF16]],
    v_cache: pl.InOut[pl.Tensor[[KV_CACHE_ROWS_DYN, HEAD_DIM], pl.BF16]],
    wo: pl.Tensor[[HIDDEN, HIDDEN], pl.BF16],
    post_rms_weight: pl.Tensor[[1, HIDDEN], pl.FP32],
    w_gate: pl.Tensor[[HIDDEN, INTERMEDIATE], pl.BF16],
    w_up: pl.Tensor[[HIDDEN, INTERMEDIATE], pl.BF16],
    w_down: pl.Tensor[[INTERMEDIATE, HIDDEN], pl.BF16],
    out: pl.Out[pl.Tensor[[USER_BATCH_DYN, HIDDEN], pl.BF16]],
):
    user_batch = pl.tensor.dim(hidden_states, 0)
    batch_padded = ((user_batch + BATCH_TILE - 1) // BATCH_TILE) * BATCH_TILE
    for b0 in pl.parallel(0, batch_padded, BATCH_TILE):
        cur_valid = pl.min(BATCH_TILE, user_batch - b0)
        x_tile = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="pad_input"):
            for kb in pl.range(HIDDEN_BLOCKS):
                k0 = kb * INPUT_PROJ_K_CHUNK
                xc = pl.slice(
                    hidden_states,
                    [BATCH_TILE, INPUT_PROJ_K_CHUNK],
                    [b0, k0],
                    valid_shape=[cur_valid, INPUT_PROJ_K_CHUNK],
                )
                x_tile = pl.assemble(x_tile, pl.fillpad(xc, pad_value=pl.PadValue.zero), [0, k0])

        normed = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.BF16)
        normed = rmsnorm_rows(x_tile, input_rms_weight, normed)
        q_proj = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.FP32)
        k_proj = pl.create_tensor([BATCH_TILE, KV_HIDDEN], dtype=pl.FP32)
        v_proj = pl.create_tensor([BATCH_TILE, KV_HIDDEN], dtype=pl.FP32)
        q_proj = project(normed, wq, q_proj, HIDDEN, Q_OUT_CHUNK)
        k_proj = project(normed, wk, k_proj, KV_HIDDEN, KV_OUT_CHUNK)
        v_proj = project(normed, wv, v_proj, KV_HIDDEN, KV_OUT_CHUNK)
        q_proj = qk_norm(q_proj, q_norm_weight, NUM_HEADS)
        k_proj = qk_norm(k_proj, k_norm_weight, NUM_KV_HEADS)

        attn_out = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="attn_init"):
            attn_out[:, :] = pl.full([BATCH_TILE, HIDDEN], dtype=pl.BF16, value=0.0)

        for bi in pl.parallel(cur_valid):
            b = b0 + bi
            ctx_len = pl.read(seq_lens, [b])
            pos = pl.cast(ctx_len, pl.INDEX) - 1
            ctx_blocks = (pl.cast(ctx_len, pl.INDEX) + BLOCK_SIZE - 1) // BLOCK_SIZE
            slot = pl.cast(pl.read(slot_mapping, [b]), pl.INDEX)
            slot_block = slot // BLOCK_SIZE
            slot_offset = slot - slot_block * BLOCK_SIZE
            cos_row = pl.slice(rope_cos, [1, HEAD_DIM], [pos, 0])
            sin_row = pl.slice(rope_sin, [1, HEAD_DIM], [pos, 0])
            cos_lo = pl.slice(cos_row, [1, HALF_DIM], [0, 0])
            cos_hi = pl.slice(cos_row, [1, HALF_DIM], [0, HALF_DIM])
            sin_lo = pl.slice(sin_row, [1, HALF_DIM], [0, 0])
            sin_hi = pl.slice(sin_row, [1, HALF_DIM], [0, HALF_DIM])

            q_padded = pl.create_tensor([NUM_KV_HEADS * Q_HEAD_PAD, HEAD_DIM], dtype=pl.BF16)
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="rope_kv_cache"):
                for ki in pl.range(NUM_KV_HEADS):
                    kv_col = ki * HEAD_DIM
                    cache_row = (slot_block * NUM_KV_HEADS + ki) * BLOCK_SIZE + slot_offset
                    k_lo = pl.slice(k_proj, [1, HALF_DIM], [bi, kv_col])
                    k_hi = pl.slice(k_proj, [1, HALF_DIM], [bi, kv_col + HALF_DIM])
                    rot_lo = pl.sub(pl.col_expand_mul(k_lo, cos_lo), pl.col_expand_mul(k_hi, sin_lo))
                    rot_hi = pl.add(pl.col_expand_mul(k_hi, cos_hi), pl.col_expand_mul(k_lo, sin_hi))
                    k_cache = pl.assemble(k_cache, pl.cast(rot_lo, target_type=pl.BF16), [cache_row, 0])
                    k_cache = pl.assemble(k_cache, pl.cast(rot_hi, target_type=pl.BF16), [cache_row, HALF_DIM])
                    v_cache = pl.assemble(
                        v_cache,
                        pl.cast(pl.slice(v_proj, [1, HEAD_DIM], [bi, kv_col]), target_type=pl.BF16),
                        [cache_row, 0],
                    )
                    q_block = pl.reshape(
                        pl.slice(q_proj, [1, Q_PER_KV * HEAD_DIM], [bi, ki * Q_PER_KV * HEAD_DIM]), [Q_PER_KV, HEAD_DIM]
                    )
                    q_lo = pl.slice(q_block, [Q_PER_KV, HALF_DIM], [0, 0])
                    q_hi = pl.slice(q_block, [Q_PER_KV, HALF_DIM], [0, HALF_DIM])
                    rq_lo = pl.sub(pl.col_expand_mul(q_lo, cos_lo), pl.col_expand_mul(q_hi, sin_lo))
                    rq_hi = pl.add(pl.col_expand_mul(q_hi, cos_hi), pl.col_expand_mul(q_lo, sin_hi))
                    q_padded = pl.assemble(q_padded, pl.cast(rq_lo, target_type=pl.BF16), [ki * Q_HEAD_PAD, 0])
                    q_padded = pl.assemble(q_padded, pl.cast(rq_hi, target_type=pl.BF16), [ki * Q_HEAD_PAD, HALF_DIM])
                    q_padded = pl.assemble(
                        q_padded,
                        pl.cast(
                            pl.full([Q_HEAD_PAD - Q_PER_KV, HEAD_DIM], dtype=pl.FP32, value=0.0), target_type=pl.BF16
                        ),
                        [ki * Q_HEAD_PAD + Q_PER_KV, 0],
                    )

            all_scores = pl.create_tensor([NUM_KV_HEADS * MAX_BLOCKS_PER_SEQ * Q_HEAD_PAD, BLOCK_SIZE], dtype=pl.FP32)
            attn_row = pl.create_tensor([1, HIDDEN], dtype=pl.BF16)
            for gi in pl.spmd(NUM_KV_HEADS, name_hint="attention"):
                q_rows = q_padded[gi * Q_HEAD_PAD : (gi + 1) * Q_HEAD_PAD, :]
                oi = pl.full([Q_HEAD_PAD, HEAD_DIM], dtype=pl.FP32, value=0.0)
                li_flat = pl.full([1, Q_HEAD_PAD], dtype=pl.FP32, value=0.0)
                li = pl.reshape(li_flat, [Q_HEAD_PAD, 1])
                mi_flat = pl.full([1, Q_HEAD_PAD], dtype=pl.FP32, value=-1e30)
                mi = pl.reshape(mi_flat, [Q_HEAD_PAD, 1])
                for sb in pl.range(ctx_blocks):
                    s0 = sb * BLOCK_SIZE
                    valid_len = pl.min(BLOCK_SIZE, pl.cast(ctx_len, pl.INDEX) - s0)
                    pbid = pl.cast(pl.read(block_table, [b * MAX_BLOCKS_PER_SEQ + sb]), pl.INDEX)
                    cache_row0 = (pbid * NUM_KV_HEADS + gi) * BLOCK_SIZE
                    k_tile = pl.slice(k_cache, [BLOCK_SIZE, HEAD_DIM], [cache_row0, 0])
                    raw = pl.matmul(q_rows, k_tile, b_trans=True, out_dtype=pl.FP32)
                    srow = (gi * MAX_BLOCKS_PER_SEQ + sb) * Q_HEAD_PAD
                    all_scores = pl.assemble(all_scores, raw, [srow, 0])
                    s_valid = pl.slice(
                        all_scores, [Q_HEAD_PAD, BLOCK_SIZE], [srow, 0], valid_shape=[Q_HEAD_PAD, valid_len]
                    )
                    s_pad = pl.fillpad(s_valid, pad_value=pl.PadValue.min)
                    scores = pl.mul(s_pad, ATTN_SCALE)
                    cur_mi = pl.row_max(scores)
                    exp_scores = pl.exp(pl.row_expand_sub(scores, cur_mi))
                    exp_bf16 = pl.cast(exp_scores, target_type=pl.BF16)
                    cur_li = pl.row_sum(pl.cast(exp_bf16, target_type=pl.FP32))
                    v_tile = pl.slice(v_cache, [BLOCK_SIZE, HEAD_DIM], [cache_row0, 0])
                    oi_tmp = pl.matmul(exp_bf16, v_tile, out_dtype=pl.FP32)
                    mi_new = pl.maximum(mi, cur_mi)
                    alpha = pl.exp(pl.sub(mi, mi_new))
                    beta = pl.exp(pl.sub(cur_mi, mi_new))
                    li = pl.add(pl.mul(alpha, li), pl.mul(beta, cur_li))
                    oi = pl.add(pl.row_expand_mul(oi, alpha), pl.row_expand_mul(oi_tmp, beta))
                    mi = mi_new
                ctx = pl.row_expand_div(oi, li)
                ctx_valid = pl.reshape(pl.slice(ctx, [Q_PER_KV, HEAD_DIM], [0, 0]), [1, Q_PER_KV * HEAD_DIM])
                attn_row[0:1, gi * Q_PER_KV * HEAD_DIM : (gi + 1) * Q_PER_KV * HEAD_DIM] = pl.cast(
                    ctx_valid, target_type=pl.BF16
                )
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="attn_copy"):
                attn_out = pl.assemble(attn_out, attn_row[:, :], [bi, 0])

        # output projection: split-K with atomic add into a zeroed accumulator
        oproj = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.FP32, init_value=0)
        for i in pl.spmd(SPLIT_K * (HIDDEN // OUT_PROJ_N_CHUNK), name_hint="out_proj"):
            ks = i % SPLIT_K
            nb = i // SPLIT_K
            n0 = nb * OUT_PROJ_N_CHUNK
            kk = ks * (HIDDEN // SPLIT_K)
            a = attn_out[:, kk : kk + HIDDEN // SPLIT_K]
            w = wo[kk : kk + HIDDEN // SPLIT_K, n0 : n0 + OUT_PROJ_N_CHUNK]
            part = pl.matmul(a, w, out_dtype=pl.FP32)
            oproj = pl.assemble(oproj, part, [0, n0], atomic=pl.AtomicType.Add)
        resid1 = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.FP32)
        resid_bf = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="resid"):
            for kb in pl.range(HIDDEN_BLOCKS):
                k0 = kb * K_CHUNK
                r = pl.add(oproj[:, k0 : k0 + K_CHUNK], pl.cast(x_tile[:, k0 : k0 + K_CHUNK], pl.FP32))
                resid1[:, k0 : k0 + K_CHUNK] = r
                resid_bf[:, k0 : k0 + K_CHUNK] = pl.cast(r, pl.BF16, mode="rint")

        post = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.BF16)
        post = rmsnorm_rows(resid_bf, post_rms_weight, post)

        mlp = pl.create_tensor([BATCH_TILE, INTERMEDIATE], dtype=pl.BF16)
        for ob in pl.parallel(0, INTERMEDIATE // MLP_OUT_CHUNK):
            o0 = ob * MLP_OUT_CHUNK
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="gate_up"):
                gate_acc = pl.matmul(post[:, 0:K_CHUNK], w_gate[0:K_CHUNK, o0 : o0 + MLP_OUT_CHUNK], out_dtype=pl.FP32)
                up_acc = pl.matmul(post[:, 0:K_CHUNK], w_up[0:K_CHUNK, o0 : o0 + MLP_OUT_CHUNK], out_dtype=pl.FP32)
                for kb in pl.pipeline(1, HIDDEN // K_CHUNK, stage=2):
                    k0 = kb * K_CHUNK
                    pc = post[:, k0 : k0 + K_CHUNK]
                    gate_acc = pl.matmul_acc(gate_acc, pc, w_gate[k0 : k0 + K_CHUNK, o0 : o0 + MLP_OUT_CHUNK])
                    up_acc = pl.matmul_acc(up_acc, pc, w_up[k0 : k0 + K_CHUNK, o0 : o0 + MLP_OUT_CHUNK])
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="silu"):
                sigmoid = pl.recip(pl.add(pl.exp(pl.neg(gate_acc)), 1.0))
                mlp_chunk = pl.mul(pl.mul(gate_acc, sigmoid), up_acc)
                mlp = pl.assemble(mlp, pl.cast(mlp_chunk, target_type=pl.BF16), [0, o0])

        for db in pl.spmd(HIDDEN // OUT_PROJ_N_CHUNK, name_hint="down_proj"):
            d0 = db * OUT_PROJ_N_CHUNK
            acc = pl.create_tensor([BATCH_TILE, OUT_PROJ_N_CHUNK], dtype=pl.FP32)
            for kb in pl.range(INTERMEDIATE // K_CHUNK):
                k0 = kb * K_CHUNK
                a = mlp[:, k0 : k0 + K_CHUNK]
                w = w_down[k0 : k0 + K_CHUNK, d0 : d0 + OUT_PROJ_N_CHUNK]
                if kb == 0:
                    acc = pl.matmul(a, w, out_dtype=pl.FP32)
                else:
                    acc = pl.matmul_acc(acc, a, w)
            final = pl.add(acc, resid1[:, d0 : d0 + OUT_PROJ_N_CHUNK])
            final_bf = pl.cast(final, target_type=pl.BF16)
            final_v = pl.set_validshape(final_bf, cur_valid, OUT_PROJ_N_CHUNK)
            out = pl.assemble(out, final_v, [b0, d0])
    return out
