"""What the matrix of operations is made of: cases, and the kinds of operands that they have.

A case is tried at many sizes. Its operands and its result have shapes that follow from `rows` and `cols` by their kind;
partly valid ones lie in a box that is larger by some rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.language.ops.gather import PATTERNS

FLOATS = ("FP32", "FP16", "BF16")
SIGNED = ("INT8", "INT16", "INT32", "INT64")
UNSIGNED = ("UINT8", "UINT16", "UINT32")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS

Shape = tuple[int, int]
Reference = Callable[..., np.ndarray]
Extent = Callable[[int, int], Shape]

INNER = 18
"""Columns of the right operand of a product, whose rows are the columns of the left one."""


@dataclass(frozen=True)
class Sizes:
    """Valid rows and columns, and those of the box."""

    rows: int
    cols: int
    box_rows: int
    box_cols: int

    def valid(self, kind: str) -> Shape:
        """The valid extents of an operand or a result."""
        return KINDS[kind].extent(self.rows, self.cols)

    def box(self, kind: str) -> Shape:
        """The extents of its box."""
        rows, cols = KINDS[kind].extent(self.box_rows, self.box_cols)
        multiple = KINDS[kind].multiple
        return rows, -(-cols // multiple) * multiple

    @property
    def whole(self) -> bool:
        """Whether everything is valid."""
        return (self.rows, self.cols) == (self.box_rows, self.box_cols)


@dataclass(frozen=True)
class Kind:
    """Shape and content of an operand. `dtype`: where it is not that of the case.

    `make` gives contents that are of no domain; it gets the dtype of the case.
    """

    extent: Extent
    multiple: int = 1
    dtype: str = ""
    make: Callable[[np.random.Generator, Sizes, str], np.ndarray] | None = None


def upper(extent: int) -> int:
    """The larger half."""
    return (extent + 1) // 2


def _columns(random: np.random.Generator, sizes: Sizes, dtype: str) -> np.ndarray:
    return random.integers(0, sizes.cols, (sizes.rows, sizes.cols), np.int32)


def _distinct(random: np.random.Generator, sizes: Sizes, dtype: str) -> np.ndarray:
    return np.stack([random.permutation(sizes.cols) for _ in range(sizes.rows)]).astype(np.int32)


def _counted(width: Callable[[Sizes], int]) -> Callable[[np.random.Generator, Sizes, str], np.ndarray]:
    """Numbers of all valid elements in another order, counted row by row in rows of a width."""

    def make(random: np.random.Generator, sizes: Sizes, dtype: str) -> np.ndarray:
        places = random.permutation(sizes.rows * sizes.cols)
        numbers = places // sizes.cols * width(sizes) + places % sizes.cols
        return numbers.reshape(sizes.rows, sizes.cols).astype(np.int32)

    return make


def _order(random: np.random.Generator, sizes: Sizes, dtype: str) -> np.ndarray:
    return random.permutation(sizes.rows).reshape(1, -1).astype(np.int32)


BLOCK_MARGIN = 32
"""Columns that rows of the value of `gatherb` have more, so that each has a whole block."""


def _blocks(random: np.random.Generator, sizes: Sizes, dtype: str) -> np.ndarray:
    size = SIZE[dtype]
    width = sizes.cols + BLOCK_MARGIN
    row = random.integers(0, sizes.rows, (sizes.rows, 2))
    column = random.integers(0, width - 32 // size + 1, (sizes.rows, 2))
    return ((row * width + column) * size).astype(np.uint32)


def _numbers(random: np.random.Generator, sizes: Sizes, dtype: str) -> np.ndarray:
    return np.stack([random.permutation(10 * sizes.cols)[: sizes.cols] for _ in range(sizes.rows)]).astype(np.uint32)


def pairs(values: np.ndarray, numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Rows of values beside the bits of their numbers, as sorting makes them."""
    words = np.asarray(numbers).astype(np.uint32)
    if dtype == "FP32":
        slots = [np.asarray(values, np.float32), words.view(np.float32)]
    else:
        halves = [(words & 0xFFFF).astype(np.uint16), (words >> 16).astype(np.uint16)]
        slots = [np.asarray(values, np.float16), np.zeros(values.shape, np.float16)]
        slots += [half.view(np.float16) for half in halves]
    return np.stack(slots, -1).reshape(*values.shape[:-1], -1)


def _sorted(first: int) -> Callable[[np.random.Generator, Sizes, str], np.ndarray]:
    def make(random: np.random.Generator, sizes: Sizes, dtype: str) -> np.ndarray:
        values = -np.sort(-random.integers(0, 20, sizes.cols).astype(np.float64))
        return pairs(values[None], first + np.arange(sizes.cols)[None], dtype)

    return make


def _full(rows: int, cols: int) -> Shape:
    return rows, cols


def _every(start: int, stride: int) -> Extent:
    return lambda rows, cols: (rows, max(1, (cols - start + stride - 1) // stride))


SIZE = {dtype: int("".join(filter(str.isdigit, dtype))) // 8 for dtype in NUMBERS}
"""Bytes of an element."""

KINDS: dict[str, Kind] = {
    "full": Kind(_full),
    "col": Kind(lambda rows, cols: (rows, 1)),
    "row": Kind(lambda rows, cols: (1, cols)),
    "turned": Kind(lambda rows, cols: (cols, rows)),
    "twice": Kind(lambda rows, cols: (rows, 2 * cols)),
    "larger": Kind(lambda rows, cols: (rows + 3, cols + 9)),
    "half": Kind(lambda rows, cols: (upper(rows), upper(cols))),
    "rest": Kind(lambda rows, cols: (rows - rows // 2, cols - cols // 2)),
    "blocks": Kind(lambda rows, cols: (rows, 2), dtype="UINT32", make=_blocks),
    # Rows of a multiple of some columns, of which the columns of the case are valid.
    "fours": Kind(_full, 4),
    "even": Kind(lambda rows, cols: (rows, max(1, cols // 2))),
    "fourth": Kind(lambda rows, cols: (rows, max(1, cols // 4))),
    "groups": Kind(_full, 32),
    "group numbers": Kind(_full, 32, "UINT32", _numbers),
    # Numbers of columns, of elements on the chip, of elements in device memory, of rows.
    "columns": Kind(_full, dtype="INT32", make=_columns),
    "distinct": Kind(_full, dtype="INT32", make=_distinct),
    "places": Kind(_full, dtype="INT32", make=_counted(lambda sizes: sizes.box_cols)),
    "elements": Kind(_full, dtype="INT32", make=_counted(lambda sizes: sizes.cols)),
    "order": Kind(lambda rows, cols: (1, rows), dtype="INT32", make=_order),
    # Products.
    "right": Kind(lambda rows, cols: (cols, INNER)),
    "product": Kind(lambda rows, cols: (rows, INNER)),
    "line": Kind(lambda rows, cols: (1, INNER)),
    **{f"{kind} of {dtype}": Kind(extent, dtype=dtype) for dtype in ("FP32", "INT32") for kind, extent in (
        ("product", lambda rows, cols: (rows, INNER)), ("line", lambda rows, cols: (1, INNER)))},
    # Sorted lists of pairs: a value and a number, in two slots of FP32 or four of FP16.
    "pairs": Kind(lambda rows, cols: (1, 2 * cols), make=_sorted(0)),
    "later pairs": Kind(lambda rows, cols: (1, 2 * cols), make=_sorted(1000)),
    "quads": Kind(lambda rows, cols: (1, 4 * cols), make=_sorted(0)),
    "later quads": Kind(lambda rows, cols: (1, 4 * cols), make=_sorted(1000)),
    "all pairs": Kind(lambda rows, cols: (1, 4 * cols)),
    "all quads": Kind(lambda rows, cols: (1, 8 * cols)),
    "sorted pairs": Kind(lambda rows, cols: (rows, 2 * cols)),
    "sorted quads": Kind(lambda rows, cols: (rows, 4 * cols)),
    **{f"bytes of {dtype}": Kind(lambda rows, cols, size=size: (rows, 64 // size)) for dtype, size in SIZE.items()},
    **{f"columns of pattern {number}": Kind(_every(start, stride)) for number, (start, stride) in PATTERNS.items()},
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One way to call an operation, on operands of some kinds, and what it must give.

    `call` names on-chip operands `{0}`, `{1}`, device memory `{x0}`, the box `{R}`, `{C}`, what is valid `{r}`, `{c}`,
    and the `{dtype}`; lines before the last are statements. The reference takes arrays of FP64 (or INT64) that hold
    exactly what is valid of the operands, after the sizes where it `boxed` is, and gives the exact result, which the
    harness rounds to the dtype of the result. `ulp` says how far FP32 may be off: 0 is bit for bit. `whole_box`: all
    of the box of the result is valid.
    """

    op: str
    call: str
    reference: Reference
    operands: tuple[str, ...] = ("full",)
    out: str = "full"
    dtypes: tuple[str, ...] = NUMBERS
    result: str = ""
    ulp: int = 0
    domain: str = "any"
    boxed: bool = False
    whole_box: bool = False

    @property
    def id(self) -> str:
        return self.call.rpartition("\n")[2].removeprefix("pl.").split("(")[0]

    def expected(self, sizes: Sizes, arrays: list[np.ndarray]) -> np.ndarray:
        """What the reference gives."""
        return self.reference(sizes, *arrays) if self.boxed else self.reference(*arrays)


@dataclass
class Cases:
    """Collects the cases of one family."""

    all: list[Case] = field(default_factory=list)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.all.append(Case(*args, **kwargs))
