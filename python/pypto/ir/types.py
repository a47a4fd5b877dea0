"""Types of values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from pypto.ir.exprs import Dim, Expr, binary, difference, index, of_dim, product, same, to_dim
from pypto.language.dtypes import INDEX, DataType
from pypto.language.enums import MemorySpace, TensorLayout


@dataclass(frozen=True, slots=True)
class TensorType:
    """Device memory.

    Attributes:
        shape: Extents, outermost first, static or known at run time.
        dtype: Element type.
        layout: A label.
        partial: The valid extents of a slice that was given fewer of them than its box has.
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
    """An on-chip value.

    Attributes:
        shape: Its static box.
        dtype: Element type.
        valid: The extents of the part of the box that holds something.
        space: The buffer that it lives in.
        tensor_level: Whether it comes from a tensor operation in a kernel. Such values may have any rank and lose axes
            when indexed, which tiles do not; otherwise both are the same thing.
        spread: The box of more axes whose rows a tile merged when it was loaded: a store to as many axes spreads them
            again.
    """

    shape: tuple[int, ...]
    dtype: DataType
    valid: tuple[Dim, ...]
    space: MemorySpace = MemorySpace.Vec
    tensor_level: bool = False
    spread: tuple[int, ...] | None = None

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


def merged(type: TileType) -> TileType:
    """A tile with its leading axes merged into rows, unless its valid part is no prefix of them."""
    if len(type.shape) <= 2 or not is_prefix(type.shape, type.valid):
        return type
    return replace(type, shape=type.physical, valid=region(type.shape, type.valid), spread=type.shape)


def same_box(a: TileType, b: TileType) -> bool:
    """Whether a variable of type `a` can hold values of type `b`, validity aside."""
    return a.shape == b.shape and a.dtype is b.dtype


def same_valid(a: TileType, b: TileType) -> bool:
    """Whether the valid parts are provably equal."""
    return len(a.valid) == len(b.valid) and all(same(x, y) for x, y in zip(a.valid, b.valid, strict=True))


def same_extents(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether two shapes are provably equal."""
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def is_prefix(shape: tuple[int, ...], valid: tuple[Dim, ...]) -> bool:
    """Whether the valid rows come first once leading axes merge into rows.

    They do when only the outermost axis of more than one element is partly valid; one element is valid or it is not.
    """
    partial = [part != extent for extent, part in zip(shape[:-1], valid[:-1], strict=True) if extent != 1]
    return not any(partial[1:])


def region(shape: tuple[int, ...], valid: tuple[Dim, ...]) -> tuple[Dim, Dim]:
    """Rows and columns that hold all that is valid, once leading axes merge into rows; no more where it is a prefix.

    What lies between valid rows is undefined before and after an operation, so that most of them may compute it, too.
    """
    cols = valid[-1] if valid else 1
    if is_prefix(shape, valid):
        return product(valid[:-1]), cols
    last: Expr = index(1)
    for axis, part in enumerate(valid[:-1]):
        before = of_dim(difference(of_dim(part), index(1)))
        last = binary("add", last, binary("mul", before, of_dim(product(shape[axis + 1 : -1])), INDEX), INDEX)
    return to_dim(binary("max", last, index(0), INDEX)), cols
