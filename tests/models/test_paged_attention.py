"""A program class with explicit tiles computes what torch computes."""

import torch

from models.everywhere import far, random
from models.paged_attention import build_paged_attention
from pypto.runtime import RunConfig, run

ROWS, DIM, BLOCK, PAGES = 16, 64, 32, 4
LENGTHS = [1, 33, 128]


def test_a_program_of_explicit_tiles_attends_to_pages() -> None:
    users = len(LENGTHS)
    q = random(users * ROWS, DIM, seed=0)
    keys, values = (random(users * PAGES * BLOCK, DIM, seed=seed) for seed in (1, 2))
    table = torch.randperm(users * PAGES, generator=torch.Generator().manual_seed(0)).int()
    lengths, sizes = torch.tensor(LENGTHS, dtype=torch.int32), torch.tensor([users, BLOCK])
    program = build_paged_attention(ROWS, DIM, BLOCK, PAGES, users)
    outputs = []
    for settings in ({"cores": 1}, {"cores": 2}):
        out = torch.zeros(users * ROWS, DIM)
        run(program, q, keys, values, table, lengths, sizes, out, config=RunConfig(**settings))
        outputs.append(out)
    assert torch.equal(*outputs)
    for user, length in enumerate(LENGTHS):
        pages = table[user * PAGES :][: -(-length // BLOCK)].long()
        known, said = (
            cache.reshape(-1, BLOCK, DIM)[pages].reshape(-1, DIM)[:length].float() for cache in (keys, values)
        )
        rows = slice(user * ROWS, (user + 1) * ROWS)
        want = torch.softmax(q[rows].float() @ known.T * 0.125, -1) @ said
        # The powers are rounded to BF16 before they are summed and multiplied: at most 2^-9 of each.
        assert far(outputs[0][rows], want) < 5e-3
