"""A decode layer with a paged cache and a dynamic batch computes what torch computes."""

import pytest
import torch

from models import decode_config as cfg
from models.decode import qwen_decode
from models.everywhere import angles, far, random, results, rms, rotated

GROUP, DIM, BLOCK = cfg.Q_PER_KV, cfg.HEAD_DIM, cfg.BLOCK_SIZE


def norm(width: int, seed: int) -> torch.Tensor:
    return 1 + random(1, width, seed=seed, scale=0.05, dtype=torch.float32)


def arguments(batch: int) -> list[torch.Tensor]:
    hidden, kv, inner = cfg.HIDDEN, cfg.KV_HIDDEN, cfg.INTERMEDIATE
    generator = torch.Generator().manual_seed(batch)
    pages = batch * cfg.MAX_BLOCKS_PER_SEQ
    lens = torch.randint(1, cfg.MAX_SEQ + 1, (batch,), generator=generator).int()
    table = torch.randperm(pages, generator=generator).int()
    last = (lens - 1).long()
    page = table[torch.arange(batch) * cfg.MAX_BLOCKS_PER_SEQ + last // BLOCK]
    turns = angles(cfg.MAX_SEQ, cfg.HALF_DIM).repeat(1, 2)
    caches = [random(pages * cfg.NUM_KV_HEADS * BLOCK, DIM, seed=seed) for seed in (20, 21)]
    return [
        random(batch, hidden, seed=0), norm(hidden, 1),
        *(random(hidden, width, seed=seed, scale=0.05) for seed, width in ((2, hidden), (3, kv), (4, kv))),
        norm(DIM, 5), norm(DIM, 6), lens, table, (page * BLOCK + last % BLOCK).int(), turns.cos(), turns.sin(), *caches,
        random(hidden, hidden, seed=7, scale=0.05), norm(hidden, 8),
        *(random(*shape, seed=seed, scale=0.05) for seed, shape in ((9, (hidden, inner)), (10, (hidden, inner)))),
        random(inner, hidden, seed=11, scale=0.05),
        torch.zeros(batch, hidden, dtype=torch.bfloat16),
    ]  # fmt: skip


def reference(x, norm1, wq, wk, wv, q_norm, k_norm, lens, table, slots, cos, sin, keys, values, wo, norm2, wg, wu, wd):
    batch, kv_heads = x.shape[0], cfg.NUM_KV_HEADS
    normed = rms(x, norm1)
    q, k, v = ((normed @ w.float()).reshape(batch, -1, DIM) for w in (wq, wk, wv))
    scale = [head * torch.rsqrt(head.pow(2).mean(-1, keepdim=True) + cfg.EPS) for head in (q, k)]
    turns = [part[lens.long() - 1, None, : cfg.HALF_DIM] for part in (cos, sin)]
    q, k = rotated(scale[0] * q_norm, *turns).bfloat16().float(), rotated(scale[1] * k_norm, *turns)
    keys, values = (cache.clone().reshape(-1, kv_heads, BLOCK, DIM) for cache in (keys, values))
    attended = torch.zeros(batch, cfg.NUM_HEADS, DIM)
    for b, length in enumerate(lens.tolist()):
        page, place = divmod(int(slots[b]), BLOCK)
        keys[page, :, place], values[page, :, place] = k[b].bfloat16(), v[b].bfloat16()
        pages = table[b * cfg.MAX_BLOCKS_PER_SEQ :][: -(-length // BLOCK)].long()
        for h in range(kv_heads):
            known, said = (cache[pages, h].reshape(-1, DIM)[:length].float() for cache in (keys, values))
            rows = slice(h * GROUP, (h + 1) * GROUP)
            attended[b, rows] = torch.softmax(q[b, rows] @ known.T * cfg.ATTN_SCALE, -1) @ said
    middle = attended.reshape(batch, -1).bfloat16().float() @ wo.float() + x.float()
    inner = rms(middle.bfloat16(), norm2)
    product = torch.nn.functional.silu(inner @ wg.float()) * (inner @ wu.float())
    return product.bfloat16().float() @ wd.float() + middle, keys.reshape(-1, DIM), values.reshape(-1, DIM)


@pytest.mark.parametrize("batch", [5, 16, 20])
def test_a_decode_step_of_any_batch(batch: int, tmp_path) -> None:
    given = arguments(batch)
    *_, out = after = results(qwen_decode, given, tmp_path)
    want, keys, values = reference(*given[:-1])
    # Both round to BF16 between operations, each time by at most 2^-9 of a value; the eight roundings in a row add up
    # to less than 1 % of the length of a row, as do those before the one row of the cache that a step writes.
    assert far(out, want) < 1e-2
    assert far(after[12], keys) < 1e-2
    assert far(after[13], values) < 1e-2
