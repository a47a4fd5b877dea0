"""Sizes of the decode layer; kernels read these as constants."""

from dataclasses import dataclass

import pypto.language as pl


@dataclass(frozen=True)
class ModelCfg:
    """What a checkpoint says of itself."""

    hidden_size: int = 512
    num_heads: int = 8
    num_kv_heads: int = 2
    head_dim: int = 64
    intermediate: int = 1024
    max_seq: int = 256
    block_size: int = 32
    eps: float = 1e-6


M = ModelCfg()
USER_BATCH_DYN = pl.dynamic("USER_BATCH_DYN")
KV_CACHE_ROWS_DYN = pl.dynamic("KV_CACHE_ROWS_DYN")
BLOCK_TABLE_FLAT_DYN = pl.dynamic("BLOCK_TABLE_FLAT_DYN")
HIDDEN = M.hidden_size
NUM_HEADS = M.num_heads
NUM_KV_HEADS = M.num_kv_heads
HEAD_DIM = M.head_dim
HALF_DIM = HEAD_DIM // 2
KV_HIDDEN = NUM_KV_HEADS * HEAD_DIM
INTERMEDIATE = M.intermediate
MAX_SEQ = M.max_seq
BLOCK_SIZE = M.block_size
MAX_BLOCKS_PER_SEQ = MAX_SEQ // BLOCK_SIZE
EPS = M.eps
HIDDEN_INV = 1.0 / HIDDEN
ATTN_SCALE = 1.0 / (HEAD_DIM**0.5)
INPUT_PROJ_K_CHUNK = 128
Q_OUT_CHUNK = 64
KV_OUT_CHUNK = 32
K_CHUNK = 128
OUT_PROJ_N_CHUNK = 64
MLP_OUT_CHUNK = 128
BATCH_TILE = 16
Q_PER_KV = NUM_HEADS // NUM_KV_HEADS
Q_HEAD_PAD = 16
HIDDEN_BLOCKS = HIDDEN // INPUT_PROJ_K_CHUNK
SPLIT_K = 4
