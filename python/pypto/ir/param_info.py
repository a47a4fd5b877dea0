"""What is known of one parameter of a compiled program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pypto.language.dtypes import DataType


class ParamDirection(Enum):
    """What a launch does with a tensor."""

    In = "In"
    Out = "Out"
    InOut = "InOut"


@dataclass(frozen=True, slots=True)
class ParamInfo:
    """Name, direction, extents (`None` for a scalar, -1 for a dynamic extent) and dtype."""

    name: str
    direction: ParamDirection
    shape: tuple[int, ...] | None
    dtype: DataType
