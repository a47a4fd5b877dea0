"""Experts in INT8, the index of best keys, and mixing around a barrier compute what torch computes."""

import pytest
import torch

from models import experts as kernel
from models.everywhere import far, random, results
from models.experts import HC, IDX_D, INTER, MIX, N_IDX, TOP, TOPK, D, E, T


def f32(*shape: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    return random(*shape, seed=seed, scale=scale, dtype=torch.float32)


def experts_of(x, gate, bias, w1, s1, w3, s3, w2, _out):
    x = x.float()
    scores = torch.nn.functional.softplus(x @ gate.T).sqrt()
    chosen = (scores + bias).topk(TOPK).indices
    weights = scores.gather(1, chosen)
    weights = weights / weights.sum(1, keepdim=True) * 1.5
    largest = x.abs().max(1, keepdim=True).values
    scale = torch.full_like(largest, 127.0) / largest  # `127 / largest` is a product with the reciprocal in torch
    whole = (x * scale).round()
    out = torch.zeros(T, D)
    for t in range(T):
        for weight, e in zip(weights[t], chosen[t].tolist(), strict=True):
            a, b = ((whole[t] @ w[e].float().T) / scale[t] * s[e] for w, s in ((w1, s1), (w3, s3)))
            a, b = a.clamp(max=7), b.clamp(-7, 7)
            out[t] += weight * ((torch.nn.functional.silu(a) * b).bfloat16().float() @ w2[e].float().T)
    return out


def test_each_token_goes_to_the_experts_that_its_gate_chooses(tmp_path) -> None:
    generator = torch.Generator().manual_seed(0)

    def weights() -> torch.Tensor:
        return torch.randint(-127, 128, (E, INTER, D), dtype=torch.int8, generator=generator)

    given = [random(T, D, seed=0), f32(E, D, seed=1, scale=0.1), f32(1, E, seed=2, scale=0.1)]
    given += [weights(), f32(E, INTER, seed=3, scale=2e-3).abs(), weights(), f32(E, INTER, seed=4, scale=2e-3).abs()]
    given += [random(E, D, INTER, seed=5, scale=0.1), torch.zeros(T, D)]
    # INT8 is exact in both; the products of the experts are rounded to BF16 once, 2^-9.
    assert far(results(kernel.moe, given, tmp_path)[-1], experts_of(*given)) < 5e-3


def test_the_keys_that_score_best_are_found_in_order(tmp_path) -> None:
    lens = [1, 31, 64, 100, 333, 500]
    tokens = len(lens)
    q, weights = random(tokens, N_IDX * IDX_D, seed=0), f32(tokens, N_IDX, seed=1)
    keys, lengths = random(500, IDX_D, seed=2), torch.tensor(lens, dtype=torch.int32)
    given = [q, weights, keys, lengths, torch.zeros(tokens, TOP, dtype=torch.int32)]
    found = results(kernel.indexer, given, tmp_path)[-1]
    for t, length in enumerate(lens):
        scores = q[t].reshape(N_IDX, IDX_D).float() @ keys[:length].float().T
        scores = (weights[t][:, None] * scores.relu()).sum(0)
        count = min(TOP, length)
        ids = found[t, :count].long()
        assert len(set(ids.tolist())) == count
        # Sums of 32 in FP32 differ in the last bits, which may swap keys whose scores are that close.
        torch.testing.assert_close(scores[ids], scores.topk(count).values, rtol=1e-5, atol=1e-5)
        assert (found[t, count:] == -1).all()


@pytest.mark.parametrize("tokens", [16, 21])
def test_streams_are_mixed_after_all_blocks_have_their_part(tokens: int, tmp_path) -> None:
    x, fn = random(tokens, HC, D, seed=0), f32(MIX, HC * D, seed=1, scale=0.05)
    scale, base = f32(3, seed=2), f32(MIX, seed=3)
    outputs = [torch.zeros(tokens, D, dtype=torch.bfloat16), torch.zeros(tokens, HC), torch.zeros(tokens, HC * HC)]
    mixed, post, comb = results(kernel.hc_pre, [x, fn, scale, base, *outputs], tmp_path)[-3:]
    flat = x.float().reshape(tokens, -1)
    logits = (flat @ fn.T) * torch.rsqrt(flat.pow(2).mean(1, keepdim=True) + 1e-6)
    parts = (logits * scale.repeat_interleave(torch.tensor([HC, HC, HC * HC])) + base).split([HC, HC, HC * HC], 1)
    pre = torch.sigmoid(parts[0]) + 1e-6
    # FP32 throughout: sums of 512 in another order. The first result is rounded to BF16 at the end.
    torch.testing.assert_close(post, 2 * torch.sigmoid(parts[1]), rtol=1e-4, atol=1e-4)
    want = torch.softmax(parts[2].reshape(tokens, HC, HC), -1).reshape(tokens, -1)
    torch.testing.assert_close(comb, want, rtol=1e-4, atol=1e-4)
    assert far(mixed, (pre[..., None] * x.float()).sum(1)) < 4e-3
