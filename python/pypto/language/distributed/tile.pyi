"""Generated from the table of operations by `pypto.language.ops.stubgen`; do not edit."""

from typing import Any

__all__ = [
    "get",
    "put",
    "remote_load",
    "remote_store",
]

def get(
    dst: Any,
    peer: Any,
    src: Any,
    stage: Any,
    stage2: Any = ...,
    dst_offsets: Any = ...,
    src_offsets: Any = ...,
    shape: Any = ...,
) -> Any: ...
def put(
    dst: Any,
    peer: Any,
    src: Any,
    stage: Any,
    stage2: Any = ...,
    dst_offsets: Any = ...,
    src_offsets: Any = ...,
    shape: Any = ...,
    *,
    atomic: Any = ...,
) -> Any: ...
def remote_load(target: Any, peer: Any, offsets: Any, shape: Any, valid_shape: Any = ...) -> Any: ...
def remote_store(src_tile: Any, target: Any, peer: Any, offsets: Any, *, atomic: Any = ...) -> Any: ...
