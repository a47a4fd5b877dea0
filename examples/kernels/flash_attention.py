"""Attention that never has the whole matrix of scores: the online softmax of flash attention.

What it teaches: values that a loop carries from one block of keys to the next (the maximum, the sum and the result so
far) are ordinary names that are assigned again; ``pl.maximum`` works element by element where ``pl.row_max`` works
along rows; a causal mask is made on chip from ``pl.arange`` and two broadcasts.
"""

import torch

import pypto.language as pl

HEADS, TOKENS, DIM = 4, 256, 64
QUERIES, KEYS = 64, 64
SCALE = DIM**-0.5
LOWEST = -1e30


@pl.jit
def flash_attention(
    q: pl.Tensor[[HEADS, TOKENS, DIM], pl.BF16],
    k: pl.Tensor[[HEADS, TOKENS, DIM], pl.BF16],
    v: pl.Tensor[[HEADS, TOKENS, DIM], pl.BF16],
    out: pl.Out[pl.Tensor[[HEADS, TOKENS, DIM], pl.BF16]],
):
    """Causal attention, one task for each head, blocks of queries inside."""
    for head in pl.spmd(HEADS, name_hint="flash_attention"):
        for first in pl.range(0, TOKENS, QUERIES):
            queries = q[head, first : first + QUERIES, :]
            largest = pl.full([QUERIES, 1], dtype=pl.FP32, value=LOWEST)
            total = pl.full([QUERIES, 1], dtype=pl.FP32, value=0.0)
            result = pl.full([QUERIES, DIM], dtype=pl.FP32, value=0.0)
            for start in pl.range(0, first + QUERIES, KEYS):
                keys = k[head, start : start + KEYS, :]
                values = v[head, start : start + KEYS, :]
                scores = pl.mul(pl.matmul(queries, keys, b_trans=True), SCALE)

                # 1 where the key is not later than the query: key - query + start - first <= 0.
                box = pl.full([QUERIES, KEYS], dtype=pl.INT32, value=0)
                columns = pl.col_expand(box, pl.arange(0, [1, KEYS]))
                rows = pl.row_expand(box, pl.reshape(pl.arange(0, [1, QUERIES]), [QUERIES, 1]))
                distance = pl.add(pl.sub(columns, rows), start - first)
                later = pl.cast(pl.cmp(distance, 0, cmp_type=4), pl.FP32)
                scores = pl.add(scores, pl.mul(later, LOWEST))

                peak = pl.maximum(largest, pl.row_max(scores))
                powers = pl.row_expand_expdif(scores, peak)
                shrink = pl.exp(pl.sub(largest, peak))
                total = pl.add(pl.mul(total, shrink), pl.row_sum(powers))
                weighted = pl.matmul(pl.cast(powers, pl.BF16), values)
                result = pl.add(pl.row_expand_mul(result, shrink), weighted)
                largest = peak
            final = pl.row_expand_div(result, total)
            out[head, first : first + QUERIES, :] = pl.cast(final, pl.BF16)
    return out


def main() -> None:
    """Compares with torch in FP32.

    The weights are rounded to BF16 before they meet the values: each is off by at most 2**-9 of itself, so the result
    by 2**-9 of the sum of magnitudes, which is below 4 here; the result is rounded to BF16, 2**-9 of its value.
    """
    torch.manual_seed(0)
    q, k, v = (torch.randn(HEADS, TOKENS, DIM).to(torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    flash_attention(q, k, v, out)
    want = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    torch.testing.assert_close(out.float(), want, rtol=2**-8, atol=4 * 2**-9)
    print(f"causal attention of {HEADS} heads, {TOKENS} tokens in blocks of {QUERIES} x {KEYS}: equal to torch")


if __name__ == "__main__":
    main()
