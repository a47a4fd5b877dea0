"""Programs over several ranks, imported as `pld`. The names exist; a kernel that uses one is refused."""

from __future__ import annotations

from typing import Any

from pypto.language.distributed import system, tensor, tile
from pypto.language.enums import AtomicType, NotifyOp, ReduceOp, WaitCmp
from pypto.language.ops import FORMS
from pypto.language.stubs import lookup


class CommCtx:
    """A communication context."""


CommCtxType = CommCtx


class DistributedTensor:
    """A tensor in memory that every rank can reach, as an annotation."""

    __pypto_tensor__ = True

    def __class_getitem__(cls, items: Any) -> type[DistributedTensor]:
        return cls


__all__ = [
    "AtomicType",
    "CommCtx",
    "CommCtxType",
    "DistributedTensor",
    "NotifyOp",
    "ReduceOp",
    "WaitCmp",
    "system",
    "tensor",
    "tile",
]
__all__ += sorted(FORMS["pld"])


def __getattr__(name: str) -> Any:
    return lookup("pld", name, globals())


def __dir__() -> list[str]:
    return list(__all__)
