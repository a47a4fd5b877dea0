"""The layer computes what torch computes."""

import pytest
import torch

import pypto.language as pl
from models import config as cfg
from models.layer import KV_DIM, make_layer
from pypto import ir
from pypto.ir.passes import outline, split_phases
from pypto.runtime import ChipWorker


def arguments(lens: list[int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int, dtype=torch.bfloat16, scale=0.2) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * scale).to(dtype)

    hidden, wide = cfg.HIDDEN, cfg.INTERMEDIATE
    pages = cfg.BATCH * cfg.MAX_BLOCKS
    angles = torch.arange(cfg.BLOCK * cfg.MAX_BLOCKS)[:, None] / 10 ** torch.linspace(0, 2, cfg.HEAD_DIM // 2)
    table = torch.randperm(pages, generator=generator).reshape(cfg.BATCH, cfg.MAX_BLOCKS).to(torch.int32)
    lengths = torch.tensor(lens, dtype=torch.int32)
    last = (lengths - 1).long()
    slots = table[torch.arange(cfg.BATCH), last // cfg.BLOCK] * cfg.BLOCK + last % cfg.BLOCK
    weights = [random(hidden, hidden), random(hidden, KV_DIM), random(hidden, KV_DIM), random(hidden, hidden)]
    weights += [random(hidden, wide), random(hidden, wide), random(wide, hidden)]
    caches = [random(pages * cfg.BLOCK, KV_DIM, scale=1.0) for _ in range(2)]
    norm = 1 + random(2, hidden, dtype=torch.float32)
    x = random(cfg.BATCH, hidden, scale=1.0)
    return [x, norm, *weights, angles.cos(), angles.sin(), table, slots.to(torch.int32), lengths, *caches]


def reference(x, norm, w_q, w_k, w_v, w_o, w_gate, w_up, w_down, cos, sin, table, slots, lens, k_cache, v_cache):
    def rms(value, gamma):
        value = value.float()
        return (value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + cfg.EPS) * gamma).bfloat16().float()

    def rotate(heads, position):
        lo, hi = heads.chunk(2, -1)
        c, s = cos[position], sin[position]
        return torch.cat([lo * c - hi * s, hi * c + lo * s], -1)

    normed = rms(x, norm[0])
    q, k, v = (normed @ w.float() for w in (w_q, w_k, w_v))
    heads = torch.empty(cfg.BATCH, cfg.HIDDEN)
    for b, length in enumerate(lens.tolist()):
        position = length - 1
        k_cache[slots[b]] = rotate(k[b].reshape(cfg.KV_HEADS, -1), position).reshape(-1).bfloat16()
        v_cache[slots[b]] = v[b].bfloat16()
        rows = torch.cat([torch.arange(cfg.BLOCK) + page * cfg.BLOCK for page in table[b].tolist()])[:length]
        keys = k_cache[rows].float().reshape(length, cfg.KV_HEADS, -1)
        values = v_cache[rows].float().reshape(length, cfg.KV_HEADS, -1)
        query = (rotate(q[b].reshape(cfg.HEADS, -1), position) * cfg.SCALE).bfloat16().float()
        for head in range(cfg.HEADS):
            weights = torch.softmax(keys[:, head // cfg.Q_PER_KV] @ query[head], 0)
            heads[b, head * cfg.HEAD_DIM : (head + 1) * cfg.HEAD_DIM] = weights @ values[:, head // cfg.Q_PER_KV]
    middle = heads.bfloat16().float() @ w_o.float() + x.float()
    normed = rms(middle.bfloat16(), norm[1])
    gate = normed @ w_gate.float()
    mlp = (gate * torch.sigmoid(gate) * (normed @ w_up.float())).bfloat16().float()
    return (mlp @ w_down.float() + middle).bfloat16()


@pytest.mark.parametrize("lens", [[1] * 8, [1, 5, 16, 17, 32, 33, 50, 64]], ids=["first token", "mixed lengths"])
def test_a_decode_step_with_a_paged_cache(lens: list[int], worker: ChipWorker, tmp_path) -> None:
    layer = make_layer(cfg.Tuning(blocks=2))
    given = arguments(lens)
    expected = [value.clone() for value in given]
    want = reference(*expected)
    out = torch.empty(cfg.BATCH, cfg.HIDDEN, dtype=torch.bfloat16)
    compiled = ir.compile(layer.lower(*given, out), tmp_path, platform="a2a3sim")
    worker.run(compiled, *given, out)
    # Both round to BF16 between operations, at different places: each such rounding is off by at most 2^-9 of a value,
    # and the eight of them in a row add up to less than 1 % of the length of a row.
    error = (out.float() - want.float()).norm(dim=1) / want.float().norm(dim=1)
    assert error.max() < 1e-2
    program = compiled.program
    for version in (program, split_phases(outline(program))):
        assert pl.parse_program(version.as_python()).as_python() == version.as_python()
    for cache, expected_cache in zip(given[-2:], expected[-2:], strict=True):
        torch.testing.assert_close(cache.float(), expected_cache.float(), rtol=1e-2, atol=1e-2)
