"""Paged attention as a class of explicit tile kernels: cube and vector functions, values that branches yield."""

import pypto.language as pl


def build_paged_attention(NQ, D, BLK, MAXB, BATCH):
    @pl.program
    class PagedAttention:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel_init_inplace(
            self,
            oi: pl.Out[pl.Tensor[[NQ, D], pl.FP32]],
            li: pl.Out[pl.Tensor[[NQ, 1], pl.FP32]],
            mi: pl.Out[pl.Tensor[[NQ, 1], pl.FP32]],
        ) -> tuple[pl.Tensor[[NQ, D], pl.FP32], pl.Tensor[[NQ, 1], pl.FP32], pl.Tensor[[NQ, 1], pl.FP32]]:
            z = pl.full([NQ, D], dtype=pl.FP32, value=0.0)
            oi = pl.store(z, [0, 0], oi)
            zl = pl.reshape(pl.tile.full([1, NQ], dtype=pl.FP32, value=0.0), [NQ, 1])
            li = pl.store(zl, [0, 0], li)
            mi = pl.store(zl, [0, 0], mi)
            return oi, li, mi

        @pl.function(type=pl.FunctionType.AIC)
        def kernel_qk_matmul(
            self,
            qi: pl.Tensor[[NQ, D], pl.BF16],
            kj: pl.Tensor[[BLK, D], pl.BF16],
            output: pl.Out[pl.Tensor[[NQ, BLK], pl.FP32]],
        ) -> pl.Tensor[[NQ, BLK], pl.FP32]:
            qi_l1 = pl.load(qi, [0, 0], [NQ, D], target_memory=pl.MemorySpace.Mat)
            kj_l1 = pl.load(kj, [0, 0], [BLK, D], target_memory=pl.MemorySpace.Mat)
            kj_t = pl.tile.transpose_view(kj_l1)
            qi_l0a = pl.move(qi_l1, target_memory=pl.MemorySpace.Left)
            kj_l0b = pl.move(kj_t, target_memory=pl.MemorySpace.Right)
            sij = pl.matmul(qi_l0a, kj_l0b)
            out = pl.store(sij, [0, 0], output)
            return out

        @pl.function(type=pl.FunctionType.AIV)
        def kernel_softmax_prepare(
            self,
            sij: pl.Tensor[[NQ, BLK], pl.FP32],
            scale: pl.Scalar[pl.FP32],
            valid_len: pl.Scalar[pl.INDEX],
            pij: pl.Out[pl.Tensor[[NQ, BLK], pl.BF16]],
            mij: pl.Out[pl.Tensor[[NQ, 1], pl.FP32]],
            lij: pl.Out[pl.Tensor[[NQ, 1], pl.FP32]],
        ) -> tuple[pl.Tensor[[NQ, BLK], pl.BF16], pl.Tensor[[NQ, 1], pl.FP32], pl.Tensor[[NQ, 1], pl.FP32]]:
            s_tile = pl.load(sij, [0, 0], [NQ, BLK], valid_shape=[NQ, valid_len])
            s_tile = pl.fillpad(s_tile, pad_value=pl.PadValue.min)
            scaled = pl.mul(s_tile, scale)
            tmp = pl.create_tile([NQ, BLK], dtype=pl.FP32, target_memory=pl.MemorySpace.Vec)
            mi_tile = pl.row_max(scaled, tmp)
            cent = pl.row_expand_sub(scaled, mi_tile)
            e = pl.exp(cent)
            p16 = pl.cast(e, target_type=pl.BF16)
            p = pl.cast(p16, target_type=pl.FP32)
            li_tile = pl.row_sum(p, tmp)
            pij = pl.store(p16, [0, 0], pij)
            mij = pl.store(mi_tile, [0, 0], mij)
            lij = pl.store(li_tile, [0, 0], lij)
            return pij, mij, lij

        @pl.function(type=pl.FunctionType.InCore)
        def kernel_pv_matmul(
            self,
            pij: pl.Tensor[[NQ, BLK], pl.BF16],
            vj: pl.Tensor[[BLK, D], pl.BF16],
            output: pl.Out[pl.Tensor[[NQ, D], pl.FP32]],
        ) -> pl.Tensor[[NQ, D], pl.FP32]:
            p_l1 = pl.load(pij, [0, 0], [NQ, BLK], target_memory=pl.MemorySpace.Mat)
            v_l1 = pl.load(vj, [0, 0], [BLK, D], target_memory=pl.MemorySpace.Mat)
            oi = pl.matmul(
                pl.move(p_l1, target_memory=pl.MemorySpace.Left), pl.move(v_l1, target_memory=pl.MemorySpace.Right)
            )
            return pl.store(oi, [0, 0], output)

        @pl.function(type=pl.FunctionType.InCore)
        def kernel_online_update(
            self,
            mij: pl.Tensor[[NQ, 1], pl.FP32],
            lij: pl.Tensor[[NQ, 1], pl.FP32],
            oi_new: pl.Tensor[[NQ, D], pl.FP32],
            mi: pl.InOut[pl.Tensor[[NQ, 1], pl.FP32]],
            li: pl.InOut[pl.Tensor[[NQ, 1], pl.FP32]],
            oi: pl.InOut[pl.Tensor[[NQ, D], pl.FP32]],
            dst: pl.Out[pl.Tensor[[NQ, D], pl.FP32]],
            is_first: pl.Scalar[pl.INT64],
            is_last: pl.Scalar[pl.INT64],
        ) -> tuple[
            pl.Tensor[[NQ, 1], pl.FP32],
            pl.Tensor[[NQ, 1], pl.FP32],
            pl.Tensor[[NQ, D], pl.FP32],
            pl.Tensor[[NQ, D], pl.FP32],
        ]:
            mij_t = pl.load(mij, [0, 0], [NQ, 1])
            lij_t = pl.load(lij, [0, 0], [NQ, 1])
            oi_new_t = pl.load(oi_new, [0, 0], [NQ, D])
            mi_t = pl.load(mi, [0, 0], [NQ, 1])
            li_t = pl.load(li, [0, 0], [NQ, 1])
            oi_t = pl.load(oi, [0, 0], [NQ, D])
            if is_first == 1:
                mi_out = pl.store(mij_t, [0, 0], mi)
                li_out = pl.store(lij_t, [0, 0], li)
                oi_out = pl.store(oi_new_t, [0, 0], oi)
                if is_last == 1:
                    dst_t = pl.row_expand_div(oi_new_t, lij_t)
                    dst_out = pl.store(dst_t, [0, 0], dst)
                    mi_f, li_f, oi_f, dst_f = pl.yield_(mi_out, li_out, oi_out, dst_out)
                else:
                    zero = pl.tile.full([NQ, D], dtype=pl.FP32, value=0.0)
                    dst_out = pl.store(zero, [0, 0], dst)
                    mi_f, li_f, oi_f, dst_f = pl.yield_(mi_out, li_out, oi_out, dst_out)
                mi_r, li_r, oi_r, dst_r = pl.yield_(mi_f, li_f, oi_f, dst_f)
            else:
                mi_n = pl.reshape(pl.maximum(pl.reshape(mi_t, [1, NQ]), pl.reshape(mij_t, [1, NQ])), [NQ, 1])
                al = pl.exp(pl.sub(mi_t, mi_n))
                be = pl.exp(pl.sub(mij_t, mi_n))
                li_n = pl.add(pl.mul(al, li_t), pl.mul(be, lij_t))
                oi_n = pl.add(pl.row_expand_mul(oi_t, al), pl.row_expand_mul(oi_new_t, be))
                mi_out = pl.store(mi_n, [0, 0], mi)
                li_out = pl.store(li_n, [0, 0], li)
                oi_out = pl.store(oi_n, [0, 0], oi)
                if is_last == 1:
                    dst_out = pl.store(pl.row_expand_div(oi_n, li_n), [0, 0], dst)
                    mi_f, li_f, oi_f, dst_f = pl.yield_(mi_out, li_out, oi_out, dst_out)
                else:
                    dst_out = pl.store(pl.tile.full([NQ, D], dtype=pl.FP32, value=0.0), [0, 0], dst)
                    mi_f, li_f, oi_f, dst_f = pl.yield_(mi_out, li_out, oi_out, dst_out)
                mi_r, li_r, oi_r, dst_r = pl.yield_(mi_f, li_f, oi_f, dst_f)
            return mi_r, li_r, oi_r, dst_r

        @pl.function(type=pl.FunctionType.Orchestration)
        def paged_attention(
            self,
            query: pl.Tensor[[BATCH * NQ, D], pl.BF16],
            kc: pl.Tensor[[BATCH * MAXB * BLK, D], pl.BF16],
            vc: pl.Tensor[[BATCH * MAXB * BLK, D], pl.BF16],
            table: pl.Tensor[[BATCH * MAXB], pl.INT32],
            lens: pl.Tensor[[BATCH], pl.INT32],
            cfg: pl.Tensor[[2], pl.INT64],
            out: pl.Out[pl.Tensor[[BATCH * NQ, D], pl.FP32]],
        ) -> pl.Tensor[[BATCH * NQ, D], pl.FP32]:
            batch: pl.Scalar[pl.INT64] = pl.tensor.read(cfg, [0])
            bs: pl.Scalar[pl.INT64] = pl.tensor.read(cfg, [1])
            for b in pl.range(batch):
                cur = pl.tensor.read(lens, [b])
                bn = (cur + bs - 1) // bs
                oi: pl.Tensor[[NQ, D], pl.FP32] = pl.create_tensor([NQ, D], dtype=pl.FP32)
                li: pl.Tensor[[NQ, 1], pl.FP32] = pl.create_tensor([NQ, 1], dtype=pl.FP32)
                mi: pl.Tensor[[NQ, 1], pl.FP32] = pl.create_tensor([NQ, 1], dtype=pl.FP32)
                oi, li, mi = self.kernel_init_inplace(oi, li, mi)
                for bj in pl.range(bn):
                    qi: pl.Tensor[[NQ, D], pl.BF16] = pl.slice(query, [NQ, D], [b * NQ, 0])
                    blk = pl.tensor.read(table, [b * MAXB + bj])
                    off = blk * bs
                    kj: pl.Tensor[[BLK, D], pl.BF16] = pl.slice(kc, [BLK, D], [off, 0])
                    vj: pl.Tensor[[BLK, D], pl.BF16] = pl.slice(vc, [BLK, D], [off, 0])
                    valid = pl.min(bs, cur - bj * bs)
                    sij: pl.Tensor[[NQ, BLK], pl.FP32] = pl.create_tensor([NQ, BLK], dtype=pl.FP32)
                    sij = self.kernel_qk_matmul(qi, kj, sij)
                    pij: pl.Tensor[[NQ, BLK], pl.BF16] = pl.create_tensor([NQ, BLK], dtype=pl.BF16)
                    mij: pl.Tensor[[NQ, 1], pl.FP32] = pl.create_tensor([NQ, 1], dtype=pl.FP32)
                    lij: pl.Tensor[[NQ, 1], pl.FP32] = pl.create_tensor([NQ, 1], dtype=pl.FP32)
                    pij, mij, lij = self.kernel_softmax_prepare(sij, 0.125, valid, pij, mij, lij)
                    on: pl.Tensor[[NQ, D], pl.FP32] = pl.create_tensor([NQ, D], dtype=pl.FP32)
                    on = self.kernel_pv_matmul(pij, vj, on)
                    if bj == 0:
                        is_first: pl.Scalar[pl.INT64] = pl.yield_(1)
                    else:
                        is_first: pl.Scalar[pl.INT64] = pl.yield_(0)
                    if bj == bn - 1:
                        is_last: pl.Scalar[pl.INT64] = pl.yield_(1)
                    else:
                        is_last: pl.Scalar[pl.INT64] = pl.yield_(0)
                    ov: pl.Tensor[[NQ, D], pl.FP32] = pl.slice(out, [NQ, D], [b * NQ, 0])
                    mi, li, oi, ov = self.kernel_online_update(mij, lij, on, mi, li, oi, ov, is_first, is_last)
            return out

    return PagedAttention
