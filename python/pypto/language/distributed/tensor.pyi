"""Generated from the table of operations by `pypto.language.ops.stubgen`; do not edit."""

from typing import Any

__all__ = [
    "all_to_all",
    "all_to_all_v",
    "allgather",
    "alloc_window_buffer",
    "allreduce",
    "barrier",
    "broadcast",
    "get",
    "put",
    "reduce_scatter",
    "remote_store",
    "window",
]

def all_to_all(input: Any, target: Any, signal: Any) -> Any: ...
def all_to_all_v(input: Any, target: Any, signal: Any, send_counts: Any, recv_counts: Any) -> Any: ...
def allgather(local_data: Any, target: Any, signal: Any) -> Any: ...
def alloc_window_buffer(size: Any, *, dtype: Any = ..., name: Any = ...) -> Any: ...
def allreduce(target: Any, signal: Any = ..., *, op: Any = ..., mode: Any = ..., core_num: Any = ...) -> Any: ...
def barrier(signal: Any) -> Any: ...
def broadcast(target: Any, signal: Any, *, root: Any) -> Any: ...
def get(
    dst: Any,
    peer: Any,
    src: Any,
    dst_offsets: Any = ...,
    src_offsets: Any = ...,
    shape: Any = ...,
    *,
    chunk_rows: Any = ...,
    chunk_cols: Any = ...,
    pipeline: Any = ...,
) -> Any: ...
def put(
    dst: Any,
    peer: Any,
    src: Any,
    dst_offsets: Any = ...,
    src_offsets: Any = ...,
    shape: Any = ...,
    *,
    atomic: Any = ...,
    chunk_rows: Any = ...,
    chunk_cols: Any = ...,
    pipeline: Any = ...,
) -> Any: ...
def reduce_scatter(target: Any, signal: Any, *, op: Any = ...) -> Any: ...
def remote_store(src: Any, target: Any, peer: Any, offsets: Any, *, atomic: Any = ...) -> Any: ...
def window(buf: Any, shape: Any, *, dtype: Any) -> Any: ...
