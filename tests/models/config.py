"""Sizes of the model. Kernels read these as constants."""

from dataclasses import dataclass

import pypto.language as pl

BATCH = 8
HIDDEN = 128
HEADS = 4
KV_HEADS = 2
HEAD_DIM = 32
INTERMEDIATE = 256
BLOCK = 16
MAX_BLOCKS = 4
EPS = 1e-6
SCALE = 1.0 / HEAD_DIM**0.5

K_CHUNK = 64
N_CHUNK = 32
Q_PER_KV = HEADS // KV_HEADS

PAGES = pl.dynamic("PAGES")


@dataclass(frozen=True)
class Tuning:
    """What differs between builds of the same layer."""

    blocks: int = 4
    fused_gate: bool = True


DEFAULT = Tuning()
