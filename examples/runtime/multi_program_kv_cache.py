"""Prefill and decode as two programs on one worker, with one cache of keys and values between them.

What it teaches: device memory belongs to the worker and not to a program, so what one program leaves in a resident
tensor the next one finds there. The cache, the weights and even the position are resident; a step of the decode loop
uploads four bytes, the token, and downloads the logits. The same loop with the cache on the host gives the same logits,
bit by bit, and copies the whole cache in and out in each step: the table at the end says what that costs.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RegistrationHandle, RunConfig

VOCABULARY, HIDDEN, HEADS, DIM = 512, 128, 4, 64
ALL = HEADS * DIM
PROMPT, STEPS, TOKENS, BLOCK = 32, 100, 4096, 64
SCALE, LOWEST = DIM**-0.5, -1e30


@pl.jit.inline
def attend(
    own: pl.Tensor, k_cache: pl.Tensor, v_cache: pl.Tensor, head: pl.Scalar[pl.INDEX], length: pl.Scalar[pl.INDEX]
):
    """What one head of the newest token reads from the first `length` places of the cache, block by block."""
    largest = pl.full([1, 1], dtype=pl.FP32, value=LOWEST)
    total = pl.full([1, 1], dtype=pl.FP32, value=0.0)
    result = pl.full([1, DIM], dtype=pl.FP32, value=0.0)
    for start in pl.range(0, length, BLOCK):
        rows = pl.cast(pl.min(length - start, BLOCK), pl.INDEX)
        scores = pl.mul(pl.matmul(own, k_cache[head, start : start + BLOCK, :], b_trans=True), SCALE)
        scores = pl.fillpad(pl.set_validshape(scores, 1, rows), pl.PadValue.min)
        peak = pl.maximum(largest, pl.row_max(scores))
        powers = pl.row_expand_expdif(scores, peak)
        shrink = pl.exp(pl.sub(largest, peak))
        total = pl.add(pl.mul(total, shrink), pl.row_sum(powers))
        weighted = pl.matmul(pl.cast(powers, pl.FP16), v_cache[head, start : start + BLOCK, :])
        result = pl.add(pl.row_expand_mul(result, shrink), weighted)
        largest = peak
    return pl.cast(pl.row_expand_div(result, total), pl.FP16)


@pl.jit
def prefill(
    prompt: pl.Tensor[[1, PROMPT], pl.INT32],
    embedding: pl.Tensor[[VOCABULARY, HIDDEN], pl.FP16],
    places: pl.Tensor[[TOKENS, HIDDEN], pl.FP16],
    wq: pl.Tensor[[ALL, HIDDEN], pl.FP16],
    wk: pl.Tensor[[ALL, HIDDEN], pl.FP16],
    wv: pl.Tensor[[ALL, HIDDEN], pl.FP16],
    wo: pl.Tensor[[HIDDEN, ALL], pl.FP16],
    position: pl.Out[pl.Tensor[[1, 1], pl.INT32]],
    k_cache: pl.InOut[pl.Tensor[[HEADS, TOKENS, DIM], pl.FP16]],
    v_cache: pl.InOut[pl.Tensor[[HEADS, TOKENS, DIM], pl.FP16]],
    logits: pl.Out[pl.Tensor[[1, VOCABULARY], pl.FP32]],
):
    """Keys and values of all tokens of the prompt in one product each; the logits after the last one."""
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="prompt"):
        words = pl.create_tensor([PROMPT, HIDDEN], dtype=pl.FP16)
        for place in pl.range(PROMPT):
            word = pl.read(prompt, [0, place])
            words[place : place + 1, :] = pl.slice(embedding, [1, HIDDEN], [word, 0])
        known = pl.cast(pl.slice(places, [PROMPT, HIDDEN], [0, 0]), pl.FP32)
        x = pl.cast(pl.add(pl.cast(words, pl.FP32), known), pl.FP16)
        keys = pl.cast(pl.matmul(x, wk, b_trans=True), pl.FP16)
        values = pl.cast(pl.matmul(x, wv, b_trans=True), pl.FP16)
        for head in pl.unroll(HEADS):
            k_cache[head, 0:PROMPT, :] = keys[:, head * DIM : head * DIM + DIM]
            v_cache[head, 0:PROMPT, :] = values[:, head * DIM : head * DIM + DIM]
        newest = x[PROMPT - 1 : PROMPT, :]
        queries = pl.cast(pl.matmul(newest, wq, b_trans=True), pl.FP16)
        position[:] = pl.full([1, 1], dtype=pl.INT32, value=PROMPT)

    attended = pl.create_tensor([1, ALL], dtype=pl.FP16)
    for head in pl.spmd(HEADS, name_hint="attend"):
        own = pl.slice(queries, [1, DIM], [0, head * DIM])
        attended = pl.assemble(attended, attend(own, k_cache, v_cache, head, PROMPT), [0, head * DIM])

    with pl.at(level=pl.Level.CORE_GROUP, name_hint="logits"):
        mixed = pl.add(pl.cast(newest, pl.FP32), pl.matmul(attended, wo, b_trans=True))
        logits[:] = pl.matmul(pl.cast(mixed, pl.FP16), embedding, b_trans=True)
    return logits


@pl.jit
def decode(
    token: pl.Tensor[[1, 1], pl.INT32],
    embedding: pl.Tensor[[VOCABULARY, HIDDEN], pl.FP16],
    places: pl.Tensor[[TOKENS, HIDDEN], pl.FP16],
    wq: pl.Tensor[[ALL, HIDDEN], pl.FP16],
    wk: pl.Tensor[[ALL, HIDDEN], pl.FP16],
    wv: pl.Tensor[[ALL, HIDDEN], pl.FP16],
    wo: pl.Tensor[[HIDDEN, ALL], pl.FP16],
    position: pl.InOut[pl.Tensor[[1, 1], pl.INT32]],
    k_cache: pl.InOut[pl.Tensor[[HEADS, TOKENS, DIM], pl.FP16]],
    v_cache: pl.InOut[pl.Tensor[[HEADS, TOKENS, DIM], pl.FP16]],
    logits: pl.Out[pl.Tensor[[1, VOCABULARY], pl.FP32]],
):
    """One token more: it goes to the place that `position` says, which moves on by one."""
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="project"):
        word, place = pl.read(token, [0, 0]), pl.read(position, [0, 0])
        known = pl.cast(pl.slice(embedding, [1, HIDDEN], [word, 0]), pl.FP32)
        x = pl.cast(pl.add(known, pl.cast(pl.slice(places, [1, HIDDEN], [place, 0]), pl.FP32)), pl.FP16)
        queries = pl.cast(pl.matmul(x, wq, b_trans=True), pl.FP16)
        keys = pl.cast(pl.matmul(x, wk, b_trans=True), pl.FP16)
        values = pl.cast(pl.matmul(x, wv, b_trans=True), pl.FP16)
        for head in pl.unroll(HEADS):
            k_cache[head, place, :] = keys[:, head * DIM : head * DIM + DIM]
            v_cache[head, place, :] = values[:, head * DIM : head * DIM + DIM]

    attended = pl.create_tensor([1, ALL], dtype=pl.FP16)
    for head in pl.spmd(HEADS, name_hint="attend"):
        length = pl.read(position, [0, 0]) + 1
        own = pl.slice(queries, [1, DIM], [0, head * DIM])
        attended = pl.assemble(attended, attend(own, k_cache, v_cache, head, length), [0, head * DIM])

    with pl.at(level=pl.Level.CORE_GROUP, name_hint="logits"):
        mixed = pl.add(pl.cast(x, pl.FP32), pl.matmul(attended, wo, b_trans=True))
        logits[:] = pl.matmul(pl.cast(mixed, pl.FP16), embedding, b_trans=True)
        position[:] = pl.add(position, 1)
    return logits


def reference(weights: dict[str, torch.Tensor], tokens: list[int]) -> torch.Tensor:
    """The logits after each token from the end of the prompt on, with torch in FP32, all at once."""
    w = {name: weight.float() for name, weight in weights.items()}
    x = w["embedding"][tokens] + w["places"][: len(tokens)]
    q, k, v = ((x @ w[name].T).reshape(-1, HEADS, DIM).transpose(0, 1) for name in ("wq", "wk", "wv"))
    attended = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    mixed = x + attended.transpose(0, 1).reshape(-1, ALL) @ w["wo"].T
    return (mixed @ w["embedding"].T)[PROMPT - 1 :]


def generate(
    programs: tuple[RegistrationHandle, RegistrationHandle],
    prompt: torch.Tensor,
    weights: dict[str, Any],
    state: tuple[Any, Any, Any],
    steps: int,
) -> tuple[list[int], torch.Tensor, float]:
    """Greedy generation.

    Returns:
        The generated tokens, the logits of the prompt and of each step, and the seconds of the steps.
    """
    first, one_more = programs
    logits = torch.empty(steps + 1, VOCABULARY)
    first(prompt, *weights.values(), *state, logits[0:1])
    tokens = []
    token = torch.empty(1, 1, dtype=torch.int32)
    begin = time.perf_counter()
    for step in range(steps):
        token[0, 0] = logits[step].argmax()
        tokens.append(int(token[0, 0]))
        one_more(token, *weights.values(), *state, logits[step + 1 : step + 2])
    return tokens, logits, time.perf_counter() - begin


def make_weights() -> dict[str, torch.Tensor]:
    """Random weights that keep magnitudes around 1."""
    shapes = {
        "embedding": (VOCABULARY, HIDDEN), "places": (TOKENS, HIDDEN),
        "wq": (ALL, HIDDEN), "wk": (ALL, HIDDEN), "wv": (ALL, HIDDEN), "wo": (HIDDEN, ALL),
    }  # fmt: skip
    return {name: (torch.randn(shape) / shape[1] ** 0.5).half() for name, shape in shapes.items()}


def main() -> None:
    """Generates with the cache resident, then with the cache on the host, and compares logits, bytes and times.

    Inputs of products are rounded to FP16, 2**-11 of each, in a chain of three products with magnitudes below 4: within
    about 12 * 2**-11 of torch in FP32, and 1e-2 leaves room for the tails of 100 steps.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", default="a2a3sim", help="a2a3sim, the simulated chip, or a2a3, a real one")
    parser.add_argument("--steps", type=int, default=STEPS, help="tokens to generate")
    options = parser.parse_args()
    torch.manual_seed(0)
    weights = make_weights()
    prompt = torch.randint(VOCABULARY, (1, PROMPT), dtype=torch.int32)
    cache_shape = (HEADS, TOKENS, DIM)

    with ChipWorker(RunConfig(platform=options.platform)) as w:
        programs = (w.register(prefill.compile()), w.register(decode.compile()))
        assert w.aicpu_dlopen_count == 2
        there = w.alloc_module(weights)
        with w.memory_budget(8 << 20, tag="kv cache") as kv:
            resident = (
                w.zeros((1, 1), torch.int32), w.zeros(cache_shape, torch.float16), w.zeros(cache_shape, torch.float16)
            )  # fmt: skip
        host = (
            resident[0], torch.zeros(cache_shape, dtype=torch.float16), torch.zeros(cache_shape, dtype=torch.float16)
        )  # fmt: skip

        results = {}
        for name, state in {"resident": resident, "copied in each step": host}.items():
            before = w.counters()
            tokens, logits, seconds = generate(programs, prompt, there, state, options.steps)
            after = w.counters()
            moved = {way: after[way] - before[way] for way in ("h2d_bytes", "d2h_bytes")}
            results[name] = (tokens, logits, seconds, moved)

        tokens, logits, _, moved = results["resident"]
        assert moved["h2d_bytes"] == prompt.nbytes + 4 * options.steps, "only tokens go in"
        assert moved["d2h_bytes"] == logits.nbytes, "only logits come out"
        assert torch.equal(logits, results["copied in each step"][1])
        assert torch.equal(resident[1].to_host(), host[1])
        torch.testing.assert_close(logits, reference(weights, prompt[0].tolist() + tokens), rtol=1e-2, atol=1e-2)
        assert w.aicpu_dlopen_count == 2, "two programs, however often they run"

        print(f"{options.steps} tokens after a prompt of {PROMPT}; the cache has {kv.live:,} bytes.")
        print("Logits are within 1e-2 of torch, and equal in both loops.\n")
        print(f"{'cache':<20} {'us a token':>12} {'H2D bytes':>14} {'D2H bytes':>14}")
        for name, (_, _, seconds, moved) in results.items():
            per_token = 1e6 * seconds / options.steps
            print(f"{name:<20} {per_token:>12.1f} {moved['h2d_bytes']:>14,} {moved['d2h_bytes']:>14,}")
        w.free_module([there, resident])


if __name__ == "__main__":
    main()
