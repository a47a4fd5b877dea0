"""Generated from the table of operations by `pypto.language.ops.stubgen`; do not edit."""

from typing import Any

__all__ = [
    "async_prefetch",
    "make_context",
    "session",
    "wait",
]

def async_prefetch(src: Any, ctx: Any) -> Any: ...
def make_context() -> Any: ...
def session(ctx: Any) -> Any: ...
def wait(event: Any, session_handle: Any) -> Any: ...
