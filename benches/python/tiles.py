"""Operations on whole tiles, which are no chains: sorts and transposes of resident tensors, beside torch's."""

from __future__ import annotations

import tile_kernels
import torch
from device import Bench
from measure import Contest, Result, against
from tile_kernels import SIDE, SORTED_COLS, SORTED_ROWS


def results(threads: int, seconds: float) -> list[Result]:
    """Figures without a target: torch, with its results given, is the yardstick."""
    rows = []
    with Bench(threads) as bench:
        for measure in (sort, transpose):
            rows.append(measure(bench, Contest(threads, seconds)))
            bench.free()
    return rows


def sort(bench: Bench, contest: Contest) -> Result:
    """Whole rows with indices, equal elements in the order of their indices."""
    x = torch.randn(SORTED_ROWS, SORTED_COLS)
    index = torch.arange(SORTED_COLS).to(torch.uint32)[None]
    bench.add(contest, tile_kernels.sort_rows, x, index, torch.empty(SORTED_ROWS, 2 * SORTED_COLS))
    names = {"sort": torch.sort, "x": x, "out": (torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64))}
    contest.add("torch", "sort(x, stable=True, descending=True, out=out)", names)
    return against(f"sort, {SORTED_ROWS} rows of {SORTED_COLS}", None, contest.times(), threads=contest.threads)


def transpose(bench: Bench, contest: Contest) -> Result:
    """Whole tiles from place to place."""
    x, out = torch.randn(SIDE, SIDE), torch.empty(SIDE, SIDE)
    bench.add(contest, tile_kernels.transpose, x, out)
    contest.add("torch", "out.copy_(turned)", {"turned": x.t(), "out": out})
    return against(f"transpose, {SIDE}x{SIDE}", None, contest.times(), threads=contest.threads)
