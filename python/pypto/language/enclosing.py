"""Names of the functions around a kernel that only its annotations use.

Python makes no closure cell for a name that stands in an annotation which is never evaluated, as all are after
`from __future__ import annotations`. Kernels of a factory use such names (`pl.Tensor[[ROWS, 64], pl.FP32]`), so a
decorator keeps what they mean. Not all names: a frame may hold tensors, and a kernel lives long.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

ATTRIBUTE = "_pypto_enclosing"


def remember(fn: Callable[..., Any]) -> None:
    """Keeps what the names in the annotations of `fn` mean in the function whose body decorates it."""
    texts = [text for text in getattr(fn, "__annotations__", {}).values() if isinstance(text, str)]
    if not texts or "<locals>" not in fn.__qualname__:
        return
    frame = sys._getframe(1)
    # Out of the decorators, and of the bodies of classes: a function in a class does not see the names of the class.
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith("pypto.") or not frame.f_code.co_flags & inspect.CO_OPTIMIZED
    ):
        frame = frame.f_back
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return
    known = frame.f_locals
    names = {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}
    setattr(fn, ATTRIBUTE, {name: known[name] for name in names & known.keys()})
