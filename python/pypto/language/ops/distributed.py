"""Rows: programs over several ranks (`pypto.language.distributed`). Named, and refused where a kernel uses them."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows(lacks="programs over several ranks")

row("world_size", "Number of ranks.", pld="")
row("get_comm_ctx", "Communication context of a window.", pld="dist_tensor")
row("rank", "The rank that runs this code.", pld="ctx")
row("nranks", "Number of ranks of a context.", pld="ctx")
row("notify", "Changes a signal cell of a peer.", pld_system="target, peer, offsets, value, *, op")
row("signal_wait", "Waits for a signal cell.", pld_system="wait(signal, offsets, expected, *, cmp)")
row("defer_wait", "Delays completion until a signal.", pld_system="signal, offsets, expected, *, cmp")

_SIZE = "size, *, dtype=None, name=''"
row("alloc_window_buffer", "Memory that every rank can reach.", pld=_SIZE, pld_tensor=_SIZE)
row("window", "A typed view of a window buffer.", pld="buf, shape, *, dtype", pld_tensor="buf, shape, *, dtype")
_STORE = "target, peer, offsets, *, atomic=AtomicType.None_"
row(
    "remote_store",
    "Writes to a peer.",
    pld="src, " + _STORE,
    pld_tensor="src, " + _STORE,
    pld_tile="src_tile, " + _STORE,
)
row(
    "remote_load",
    "Reads from a peer.",
    pld="target, peer, offsets, shape, valid_shape=None",
    pld_tile="target, peer, offsets, shape, valid_shape=None",
)
_MOVED = "dst_offsets=None, src_offsets=None, shape=None"
row(
    "put",
    "Copies to a peer.",
    pld_tensor=f"dst, peer, src, {_MOVED}, *, atomic=AtomicType.None_, chunk_rows=0, chunk_cols=0, pipeline=False",
    pld_tile=f"dst, peer, src, stage, stage2=None, {_MOVED}, *, atomic=AtomicType.None_",
)
row(
    "get",
    "Copies from a peer.",
    pld_tensor=f"dst, peer, src, {_MOVED}, *, chunk_rows=0, chunk_cols=0, pipeline=False",
    pld_tile=f"dst, peer, src, stage, stage2=None, {_MOVED}",
)
row(
    "allreduce",
    "Reduces over all ranks.",
    pld_tensor="target, signal=None, *, op=ReduceOp.Sum, mode='mesh', core_num=1",
)
row("barrier", "Waits for all ranks.", pld_tensor="signal")
row("broadcast", "Copies from one rank to all.", pld_tensor="target, signal, *, root")
row("allgather", "Collects from all ranks.", pld_tensor="local_data, target, signal")
row("reduce_scatter", "Reduces and shares out.", pld_tensor="target, signal, *, op=ReduceOp.Sum")
row("all_to_all", "Exchanges between all ranks.", pld_tensor="input, target, signal")
row("all_to_all_v", "Exchanges parts of any size.", pld_tensor="input, target, signal, send_counts, recv_counts")
