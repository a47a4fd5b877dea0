"""Types of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pypto.ir.exprs import Dim, product, same
from pypto.language.dtypes import DataType
from pypto.language.enums import MemorySpace, TensorLayout


@dataclass(frozen=True, slots=True)
class TensorType:
    """Device memory: extents (static or runtime), dtype. `layout` is a label.

    `partial` are the valid extents of a slice that was given fewer of them than its box has.
    """

    shape: tuple[Dim, ...]
    dtype: DataType
    layout: TensorLayout = TensorLayout.ND
    partial: tuple[Dim, ...] | None = None

    @property
    def valid(self) -> tuple[Dim, ...]:
        """The valid extents."""
        return self.shape if self.partial is None else self.partial


@dataclass(frozen=True, slots=True)
class TileType:
    """An on-chip value: a static box, the valid part of it, and where it lives.

    `tensor_level` values come from tensor operations in a kernel. They may have any rank and lose axes when indexed,
    which tiles do not; otherwise both are the same thing.
    """

    shape: tuple[int, ...]
    dtype: DataType
    valid: tuple[Dim, ...]
    space: MemorySpace = MemorySpace.Vec
    tensor_level: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the whole box is valid."""
        return self.valid == self.shape

    @property
    def physical(self) -> tuple[int, int]:
        """Rows and columns on chip: leading extents merge into rows."""
        rows = 1
        for extent in self.shape[:-1]:
            rows *= extent
        return rows, self.shape[-1] if self.shape else 1


ValueType: TypeAlias = TensorType | TileType


def same_box(a: TileType, b: TileType) -> bool:
    """Whether a variable of type `a` can hold values of type `b`, validity aside."""
    return a.shape == b.shape and a.dtype is b.dtype


def same_valid(a: TileType, b: TileType) -> bool:
    """Whether the valid parts are provably equal."""
    return len(a.valid) == len(b.valid) and all(same(x, y) for x, y in zip(a.valid, b.valid, strict=True))


def same_extents(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether two shapes are provably equal."""
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def region(shape: tuple[int, ...], valid: tuple[Dim, ...]) -> tuple[Dim, Dim] | None:
    """Valid rows and columns once leading axes merge into rows; `None` where the valid part is no prefix of rows.

    Merged rows are a prefix when every axis before the first partial one has extent 1 and every axis after it is whole.
    """
    leading = tuple(zip(shape[:-1], valid[:-1], strict=True))
    partial = next((axis for axis, (extent, part) in enumerate(leading) if part != extent), None)
    if partial is not None:
        before = all(extent == 1 for extent, _ in leading[:partial])
        after = all(part == extent for extent, part in leading[partial + 1 :])
        if not before or not after:
            return None
    return product(valid[:-1]), valid[-1] if valid else 1
