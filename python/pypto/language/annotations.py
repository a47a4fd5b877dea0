"""What stands in parameter annotations: `Tensor[[..], dt]`, `Out[..]`, `Scalar[dt]`, `dynamic("M")`, ..."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

from pypto.language.dtypes import DataType
from pypto.language.enums import MemorySpace, TensorLayout, TileLayout
from pypto.language.errors import outside_kernel


class DynVar:
    """A dynamic extent called `name`. The same object in several parameters means the same extent."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f'pl.dynamic needs a name such as pl.dynamic("M"), got {name!r}')
        self.name = name

    def __repr__(self) -> str:
        return f'pl.dynamic("{self.name}")'

    # Arithmetic in annotations (`[M * 2, 64]`) keeps the expression, so that its extent can be checked and computed.
    def __add__(self, other: Any) -> DimExpr:
        return DimExpr("+", self, other)

    def __radd__(self, other: Any) -> DimExpr:
        return DimExpr("+", other, self)

    def __sub__(self, other: Any) -> DimExpr:
        return DimExpr("-", self, other)

    def __rsub__(self, other: Any) -> DimExpr:
        return DimExpr("-", other, self)

    def __mul__(self, other: Any) -> DimExpr:
        return DimExpr("*", self, other)

    def __rmul__(self, other: Any) -> DimExpr:
        return DimExpr("*", other, self)

    def __floordiv__(self, other: Any) -> DimExpr:
        return DimExpr("//", self, other)

    def __mod__(self, other: Any) -> DimExpr:
        return DimExpr("%", self, other)


class DimExpr(DynVar):
    """Arithmetic over dynamic extents in an annotation."""

    __slots__ = ("lhs", "op", "rhs")

    def __init__(self, op: str, lhs: Any, rhs: Any) -> None:
        self.op = op
        self.lhs = lhs
        self.rhs = rhs
        self.name = f"({_dim_text(lhs)} {op} {_dim_text(rhs)})"

    def __repr__(self) -> str:
        return self.name


def _dim_text(dim: Any) -> str:
    return dim.name if isinstance(dim, DynVar) else str(dim)


def dynamic(name: str) -> DynVar:
    """A dynamic extent for annotations and `bind_dynamic`; one program then serves every value of it.

    Args:
        name: An identifier, for messages.

    Raises:
        ValueError: It is none.
    """
    return DynVar(name)


class _Runtime:
    """Marks a scalar argument of `compile()` as not fixed. Use `pl.RUNTIME`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pl.RUNTIME"


RUNTIME = _Runtime()
"""Given as a scalar argument to `fn.compile(n=pl.RUNTIME)`: the scalar stays a runtime parameter."""


class Auto:
    """Let the compiler choose. Use `pl.AUTO`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pl.AUTO"


AUTO = Auto()


@dataclass(frozen=True, slots=True)
class TensorView:
    """Third slot of a tensor annotation: validity, strides and layout of the memory behind a parameter."""

    valid_shape: Any = None
    """Extents that exist, in elements."""
    stride: Any = None
    """Elements from one index to the next, for each axis."""
    layout: TensorLayout = TensorLayout.ND
    """A label."""


@dataclass(frozen=True, slots=True)
class TileView:
    """Validity and layout of a tile, as labels: they are kept, and change nothing on this device.

    `valid_shape`, `stride` and `start_offset` count elements; `blayout`, `slayout`, `fractal` and `pad` are the chip's.
    """

    valid_shape: Any = None
    stride: Any = None
    start_offset: Any = None
    blayout: Any = None
    slayout: Any = None
    fractal: Any = None
    pad: Any = None


@dataclass(frozen=True, slots=True)
class MemRef:
    """A fixed place on chip, a hint: `memory_space`, `addr` and `size` in bytes, and an `id`."""

    memory_space: MemorySpace
    addr: Any = 0
    size: Any = 0
    id: Any = 0


@dataclass(frozen=True, slots=True)
class TensorAnnotation:
    """`Tensor[[..], dtype]`; `shape` is `None` for the bare `Tensor`. Extents are ints or `DynVar`s."""

    shape: tuple[Any, ...] | None
    dtype: DataType | None
    view: Any = None


@dataclass(frozen=True, slots=True)
class TileAnnotation:
    """`Tile[[..], dtype]` on a local; memory spaces, places and views behind the dtype are labels."""

    shape: tuple[Any, ...]
    dtype: DataType
    labels: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarAnnotation:
    """`Scalar[dtype]`, or a bare dtype."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """`Array[n, dtype]`: a small on-core array."""

    extent: Any
    dtype: DataType


@dataclass(frozen=True, slots=True)
class TupleAnnotation:
    """`Tuple[..]` as a return annotation."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Directed:
    """`Out[..]` or `InOut[..]` around a tensor annotation."""

    direction: str
    inner: Any


def _extent(what: str, dim: Any) -> Any:
    if isinstance(dim, DynVar):
        return dim
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):  # integers of numpy have it, too
        raise TypeError(f"an extent of pl.{what} is an int or a pl.dynamic object, got {dim!r}")
    extent = index(dim)
    if extent <= 0:
        raise ValueError(f"an extent of pl.{what} is positive, got {extent}")
    if extent >= 1 << 63:  # its digits may be millions
        raise ValueError(f"an extent of pl.{what} does not fit into 64 bits")
    return extent


def _shape_and_dtype(what: str, items: Any) -> tuple[tuple[Any, ...], DataType, Any]:
    spelling = f"{what}[[rows, cols], pl.FP32]"
    if not isinstance(items, tuple) or len(items) not in (2, 3):
        raise TypeError(f"pl.{what} takes a list of extents and a dtype: pl.{spelling}")
    shape, dtype = items[0], items[1]
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"the extents of pl.{what} are a list: pl.{spelling}, got {shape!r}")
    shape = tuple(_extent(what, dim) for dim in shape)
    if not isinstance(dtype, DataType):
        raise TypeError(f"the second item of pl.{what} is a dtype such as pl.FP32, got {dtype!r}")
    return shape, dtype, items[2] if len(items) == 3 else None


class Tensor:
    """Device memory. `x: pl.Tensor` takes shape and dtype from the call; `pl.Tensor[[16, M], pl.FP32]` fixes them."""

    def __class_getitem__(cls, items: Any) -> TensorAnnotation:
        shape, dtype, view = _shape_and_dtype("Tensor", items)
        if view is TensorLayout.DN:
            raise ValueError("pl.DN cannot stand in pl.Tensor[...]; write pl.TensorView(layout=pl.TensorLayout.DN)")
        return TensorAnnotation(shape, dtype, view)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        outside_kernel("pl.Tensor(...)")


class Tile:
    """An on-chip value of static shape; annotates locals."""

    def __class_getitem__(cls, items: Any) -> TileAnnotation:
        labels = items[2:] if isinstance(items, tuple) else ()
        for label in labels:
            if not isinstance(label, (MemorySpace, MemRef, TileView, TileLayout)):
                raise TypeError(
                    f"behind the dtype of pl.Tile stand pl.MemorySpace, pl.MemRef and pl.TileView, got {label!r}"
                )
        shape, dtype, _ = _shape_and_dtype("Tile", items[:2] if labels else items)
        return TileAnnotation(shape, dtype, labels)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        outside_kernel("pl.Tile(...)")


class Scalar:
    """A number: `s: pl.Scalar[pl.INT32]`."""

    def __class_getitem__(cls, dtype: Any) -> ScalarAnnotation:
        if not isinstance(dtype, DataType):
            raise TypeError(f"pl.Scalar takes a dtype: pl.Scalar[pl.INDEX], got {dtype!r}")
        return ScalarAnnotation(dtype)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        outside_kernel("pl.Scalar(...)")


class Array:
    """A small on-core array: `a: pl.Array[4, pl.TASK_ID]`."""

    def __class_getitem__(cls, items: Any) -> ArrayAnnotation:
        if not isinstance(items, tuple) or len(items) != 2 or not isinstance(items[1], DataType):
            raise TypeError("pl.Array takes an extent and a dtype: pl.Array[4, pl.TASK_ID]")
        return ArrayAnnotation(*items)


class Tuple:
    """Several results, as a return annotation."""

    def __class_getitem__(cls, items: Any) -> TupleAnnotation:
        return TupleAnnotation(items if isinstance(items, tuple) else (items,))


class Out:
    """`x: pl.Out[pl.Tensor]`: the kernel writes `x` and does not read what the caller passed."""

    def __class_getitem__(cls, inner: Any) -> Directed:
        return Directed("Out", _tensor_inside("Out", inner))


class InOut:
    """`x: pl.InOut[pl.Tensor]`: the kernel reads and writes `x`."""

    def __class_getitem__(cls, inner: Any) -> Directed:
        return Directed("InOut", _tensor_inside("InOut", inner))


def _tensor_inside(what: str, inner: Any) -> Any:
    if inner is Tensor or isinstance(inner, TensorAnnotation) or getattr(inner, "__pypto_tensor__", False):
        return inner
    raise TypeError(
        f"pl.{what} wraps a tensor: pl.{what}[pl.Tensor] or pl.{what}[pl.Tensor[[..], dtype]], got {inner!r}"
    )


class TaskId:
    """The identity of a submitted task; orders tasks in `deps=`."""


class Ptr:
    """A raw device pointer type."""


PtrType = Ptr
IntLike = Any
