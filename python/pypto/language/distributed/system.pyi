"""Generated from the table of operations by `pypto.language.ops.stubgen`; do not edit."""

from typing import Any

__all__ = [
    "defer_wait",
    "notify",
    "wait",
]

def defer_wait(signal: Any, offsets: Any, expected: Any, *, cmp: Any) -> Any: ...
def notify(target: Any, peer: Any, offsets: Any, value: Any, *, op: Any) -> Any: ...
def wait(signal: Any, offsets: Any, expected: Any, *, cmp: Any) -> Any: ...
