"""A prefill layer made by a factory computes what torch computes."""

import pytest
import torch

from models.everywhere import angles, far, random, results, rms, rotated
from models.prefill import P, build_prefill

SIZES = P()


def arguments(lens: list[int]) -> list[torch.Tensor]:
    p, users = SIZES, len(lens)
    wide, kv = p.heads * p.dim, p.kv_heads * p.dim
    turns = angles(p.max_seq, p.dim // 2).repeat(1, 2)
    caches = [torch.zeros(users * p.kv_heads * p.max_seq, p.dim, dtype=torch.bfloat16) for _ in range(2)]
    norms = [1 + random(1, p.hidden, seed=seed, scale=0.05, dtype=torch.float32) for seed in (1, 2)]
    shapes = [(p.hidden, wide), (p.hidden, kv), (p.hidden, kv), (wide, p.hidden)]
    shapes += [(p.hidden, p.inter), (p.hidden, p.inter), (p.inter, p.hidden)]
    q, k, v, o, gate, up, down = (random(*shape, seed=seed, scale=0.06) for seed, shape in enumerate(shapes, start=3))
    x = random(users, p.max_seq, p.hidden, seed=0)
    out = torch.zeros_like(x)
    lengths = torch.tensor(lens, dtype=torch.int32)
    return [x, lengths, norms[0], q, k, v, turns.cos(), turns.sin(), *caches, o, norms[1], gate, up, down, out]


def reference(x, lens, norm1, wq, wk, wv, cos, sin, _k, _v, wo, norm2, wg, wu, wd, out):
    p, out = SIZES, out.float()
    for b, n in enumerate(lens.tolist()):
        own = x[b, :n].float()
        normed = rms(own, norm1)
        q, k, v = ((normed @ w.float()).reshape(n, -1, p.dim) for w in (wq, wk, wv))
        turns = [part[:n, None, : p.dim // 2] for part in (cos, sin)]
        q, k = (rotated(part, *turns).bfloat16().float() for part in (q, k))
        k, v = (part.bfloat16().float().repeat_interleave(p.heads // p.kv_heads, 1) for part in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * p.dim**-0.5 + torch.full((n, n), -1e30).triu(1)
        attended = torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), v).reshape(n, -1)
        middle = attended.bfloat16().float() @ wo.float() + own
        inner = rms(middle.bfloat16(), norm2)
        product = torch.nn.functional.silu(inner @ wg.float()) * (inner @ wu.float())
        out[b, :n] = product.bfloat16().float() @ wd.float() + middle
    return out


@pytest.mark.parametrize("fuse_gate", [True, False])
@pytest.mark.parametrize("lens", [[96, 17, 50], [1]], ids=["three users", "one token"])
def test_a_prefill_of_any_batch(lens: list[int], fuse_gate: bool, tmp_path) -> None:
    given = arguments(lens)
    *_, out = results(build_prefill(fuse_gate=fuse_gate), given, tmp_path)
    # Roundings to BF16 as in the decode step, at most 1 % of the length of a row; what is no token stays as it was.
    assert far(out, reference(*given)) < 1e-2
    for b, length in enumerate(lens):
        assert not out[b, length:].any()
