"""Generated from the table of operations by `pypto.language.ops.stubgen`; do not edit."""

from typing import Any

__all__ = [
    "create",
    "get_element",
    "update_element",
]

def create(extent: Any, dtype: Any) -> Any: ...
def get_element(array: Any, index: Any) -> Any: ...
def update_element(array: Any, index: Any, value: Any) -> Any: ...
