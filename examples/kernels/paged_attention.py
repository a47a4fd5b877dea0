"""Decoding attention over a paged cache: each sequence has its own length, its blocks lie anywhere in a pool.

What it teaches: scalars are read from tensors while a task runs (``pl.read``), and decide bounds of loops and places in
memory; the number of blocks is only known then, and so is how much of the last one is valid, which ``valid_shape`` and
``pl.fillpad`` turn into scores that count for nothing.
"""

import torch

import pypto.language as pl

BATCH, HEADS, DIM = 4, 8, 64
BLOCK, BLOCKS, POOL = 32, 8, 64
SCALE = DIM**-0.5


@pl.jit
def paged_attention(
    q: pl.Tensor[[BATCH, HEADS, DIM], pl.FP16],
    k_pool: pl.Tensor[[POOL, BLOCK, DIM], pl.FP16],
    v_pool: pl.Tensor[[POOL, BLOCK, DIM], pl.FP16],
    block_table: pl.Tensor[[BATCH, BLOCKS], pl.INT32],
    lengths: pl.Tensor[[BATCH], pl.INT32],
    out: pl.Out[pl.Tensor[[BATCH, HEADS, DIM], pl.FP32]],
):
    """One query for each sequence; all heads share the keys and values (multi-query attention)."""
    for sequence in pl.spmd(BATCH, name_hint="paged_attention"):
        length = pl.read(lengths, [sequence])
        queries = q[sequence, :, :]
        largest = pl.full([HEADS, 1], dtype=pl.FP32, value=-1e30)
        total = pl.full([HEADS, 1], dtype=pl.FP32, value=0.0)
        result = pl.full([HEADS, DIM], dtype=pl.FP32, value=0.0)
        for number in pl.range((length + BLOCK - 1) // BLOCK):
            block = pl.read(block_table, [sequence, number])
            rows = pl.cast(pl.min(length - number * BLOCK, BLOCK), pl.INDEX)
            keys = k_pool[block, :, :]
            values = v_pool[block, :, :]
            scores = pl.mul(pl.matmul(queries, keys, b_trans=True), SCALE)
            scores = pl.fillpad(pl.set_validshape(scores, HEADS, rows), pl.PadValue.min)
            peak = pl.maximum(largest, pl.row_max(scores))
            powers = pl.row_expand_expdif(scores, peak)
            shrink = pl.exp(pl.sub(largest, peak))
            total = pl.add(pl.mul(total, shrink), pl.row_sum(powers))
            # What the pool holds after the end of the sequence is multiplied by 0: it must be finite, so it is cleared.
            known = pl.fillpad(pl.set_validshape(values, rows, DIM))
            weighted = pl.matmul(pl.cast(powers, pl.FP16), known)
            result = pl.add(pl.row_expand_mul(result, shrink), weighted)
            largest = peak
        out[sequence, :, :] = pl.row_expand_div(result, total)
    return out


def reference(q, k_pool, v_pool, block_table, lengths) -> torch.Tensor:
    """The same with torch, sequence by sequence, on the gathered cache."""
    results = []
    for sequence, length in enumerate(lengths.tolist()):
        blocks = block_table[sequence, : -(-length // BLOCK)].long()
        keys, values = (pool[blocks].reshape(-1, DIM)[:length].float() for pool in (k_pool, v_pool))
        weights = torch.softmax(q[sequence].float() @ keys.T * SCALE, dim=-1)
        results.append(weights @ values)
    return torch.stack(results)


def main() -> None:
    """Sequences of one token, of whole blocks and of something between; the free part of the pool is NaN.

    The weights are rounded to FP16 before they meet the values: 2**-11 of each, and sums of magnitudes are below 4.
    """
    torch.manual_seed(0)
    q = torch.randn(BATCH, HEADS, DIM).half()
    k_pool, v_pool = (torch.randn(POOL, BLOCK, DIM).half() for _ in range(2))
    lengths = torch.tensor([1, 32, 100, 256], dtype=torch.int32)
    block_table = torch.randperm(POOL)[: BATCH * BLOCKS].reshape(BATCH, BLOCKS).to(torch.int32)
    for sequence, length in enumerate(lengths.tolist()):
        last = block_table[sequence, (length - 1) // BLOCK]
        v_pool[last, (length - 1) % BLOCK + 1 :] = float("nan")
    out = torch.empty(BATCH, HEADS, DIM)
    paged_attention(q, k_pool, v_pool, block_table, lengths, out)
    want = reference(q, k_pool, v_pool, block_table, lengths)
    torch.testing.assert_close(out, want, rtol=2**-10, atol=4 * 2**-11)
    print(f"paged attention over sequences of {lengths.tolist()} tokens in blocks of {BLOCK}: equal to torch")


if __name__ == "__main__":
    main()
