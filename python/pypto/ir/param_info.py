"""What is known of one parameter of a compiled program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pypto.language.dtypes import DataType


class ParamDirection(Enum):
    """What a launch does with a tensor."""

    In = "In"
    Out = "Out"
    InOut = "InOut"


@dataclass(frozen=True, slots=True)
class ParamInfo:
    """A parameter.

    Attributes:
        name: Its name.
        direction: What a launch does with it.
        shape: Extents, outermost first; -1 for a dynamic one, `None` for a scalar.
        dtype: Element type.
        dump_tag: Whether `pl.dump_tag` names it.
    """

    name: str
    direction: ParamDirection
    shape: tuple[int, ...] | None
    dtype: DataType
    dump_tag: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a launch needs to know about the parameters, in order: it is read like a list of them."""

    params: tuple[ParamInfo, ...]
    num_return_types: int

    def __iter__(self) -> Iterator[ParamInfo]:
        return iter(self.params)

    def __len__(self) -> int:
        return len(self.params)

    def __getitem__(self, position: int) -> ParamInfo:
        return self.params[position]


def metadata_of(meta: dict[str, Any]) -> Metadata:
    """What a sidecar says, which was checked when it was read."""
    params = tuple(
        ParamInfo(
            param["name"],
            ParamDirection[param["direction"]],
            None if param["shape"] is None else tuple(param["shape"]),
            DataType.from_name(param["dtype"]),
            param.get("dump_tag", False),
        )
        for param in meta["params"]
    )
    return Metadata(params, meta["num_return_types"])
