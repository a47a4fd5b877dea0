"""Runs a layer under several schedules and numbers of cores: the results may not depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig

CONFIGS: list[dict[str, Any]] = [
    {"cores": 1},
    {"cores": 2},
    {"cores": 2, "schedule_seed": 1},
    {"cores": 1, "schedule_seed": 2, "poison": True},
]


def results(kernel: Any, given: list[torch.Tensor], directory: Path) -> list[torch.Tensor]:
    """The arguments after a run. They are the same bits whatever the schedule; the given tensors are not changed."""
    compiled = ir.compile(kernel.lower(*given), directory, platform="a2a3sim")
    found: list[list[torch.Tensor]] = []
    for settings in CONFIGS:
        with ChipWorker(config=RunConfig(platform="a2a3sim", **settings)) as worker:
            # A second launch on several cores is written down, and a third runs from that.
            for _ in range(3 if settings["cores"] > 1 else 1):
                copies = [tensor.clone() for tensor in given]
                worker.run(compiled, *copies)
                found.append(copies)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(b, a, rtol=0, atol=0, equal_nan=True)
    return found[0]


def random(*shape: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Normal numbers, the same every time."""
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(dtype)


def far(have: torch.Tensor, want: torch.Tensor) -> float:
    """The largest distance of two rows, in lengths of the wanted one."""
    have, want = have.float().flatten(0, -2), want.float().flatten(0, -2)
    return ((have - want).norm(dim=1) / want.norm(dim=1).clamp(min=1e-6)).max().item()


def rms(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMS norm with the rounding to BF16 that follows it in every layer."""
    value = value.float()
    return (value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + 1e-6) * weight).bfloat16().float()


def rotated(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of `[..., dim]` by `[..., dim / 2]`."""
    low, high = heads.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def angles(positions: int, half: int) -> torch.Tensor:
    """What each position turns each pair by."""
    return torch.arange(positions)[:, None] / 100 ** (torch.arange(half) / half)
