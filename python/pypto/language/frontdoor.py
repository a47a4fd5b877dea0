"""The one place where the language reaches the frontend: by name, when a decorated function is first used.

The language must not import the frontend (it is what the frontend reads), and importing the language must stay cheap.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType


@functools.cache
def frontend() -> ModuleType:
    """The module that turns what decorators recorded into programs."""
    return importlib.import_module("pypto.frontend")
