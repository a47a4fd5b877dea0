"""Attention over a compressed cache computes what torch computes."""

import torch

from models import latent_attention as kernel
from models.everywhere import angles, far, random, results, rms, rotated
from models.latent_attention import HEADS, HID, KV_LORA, MAX_SEQ, NOPE, Q_LORA, QK, ROPE, SCALE, V_DIM, B

LENGTHS = [1, 5, 32, 33, 64, 100, 127, 128]


def arguments() -> list[torch.Tensor]:
    def norm(width: int, seed: int) -> torch.Tensor:
        return 1 + random(1, width, seed=seed, scale=0.08, dtype=torch.float32)

    def weight(*shape: int, seed: int) -> torch.Tensor:
        return random(*shape, seed=seed, scale=0.08)

    turns = angles(MAX_SEQ, ROPE // 2)
    return [
        random(B, HID, seed=0), norm(HID, 1), weight(Q_LORA, HID, seed=2), norm(Q_LORA, 3),
        weight(HEADS * QK, Q_LORA, seed=4), weight(KV_LORA + ROPE, HID, seed=5), norm(KV_LORA, 6),
        weight(HEADS, NOPE, KV_LORA, seed=7), weight(HEADS, KV_LORA, V_DIM, seed=8),
        weight(HID, HEADS * V_DIM, seed=9), turns.cos(), turns.sin(), torch.tensor(LENGTHS, dtype=torch.int32),
        random(B, MAX_SEQ, KV_LORA + ROPE, seed=10), torch.zeros(B, HID),
    ]  # fmt: skip


def reference(x, norm, wq_a, q_norm, wq_b, wkv_a, kv_norm, w_uk, w_uv, wo, cos, sin, lens, cache, _out):
    """With the cache unpacked into keys and values of each head, before any weight is absorbed."""
    cache = cache.clone()
    normed = rms(x, norm)
    q = (rms((normed @ wq_a.float().T).bfloat16(), q_norm) @ wq_b.float().T).reshape(B, HEADS, QK)
    own = (normed @ wkv_a.float().T).bfloat16()
    attended = torch.zeros(B, HEADS, V_DIM)
    for b, length in enumerate(lens.tolist()):
        turns = cos[length - 1], sin[length - 1]
        cache[b, length - 1, :KV_LORA] = rms(own[b, :KV_LORA], kv_norm).bfloat16()
        cache[b, length - 1, KV_LORA:] = rotated(own[b, KV_LORA:].float(), *turns).bfloat16()
        latent, roped = cache[b, :length].float().split([KV_LORA, ROPE], -1)
        for h in range(HEADS):
            keys, values = latent @ w_uk[h].float().T, latent @ w_uv[h].float()
            scores = keys @ q[b, h, :NOPE] + roped @ rotated(q[b, h, NOPE:], *turns)
            attended[b, h] = torch.softmax(scores * SCALE, 0) @ values
    return attended.reshape(B, -1) @ wo.float().T + x.float(), cache


def test_a_decode_step_with_absorbed_weights(tmp_path) -> None:
    given = arguments()
    after = results(kernel.mla, given, tmp_path)
    want, cache = reference(*given)
    # The reference absorbs nothing, so it rounds at other places: about ten roundings of 2^-9 in a row.
    assert far(after[-1], want) < 2e-2
    assert far(after[-2], cache) < 2e-2
