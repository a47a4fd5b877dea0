"""The matrix of operations: gather, scatter and sort."""

from __future__ import annotations

import numpy as np
from interp.numbers import NUMPY
from operations.case import BLOCK_MARGIN, NUMBERS, Cases, Reference, Sizes, pairs

from pypto.language.ops.gather import PATTERNS

_case = Cases()
CASES = _case.all


def _along(a: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.take_along_axis(a, columns, 1)


def _in_tile(sizes: Sizes, a: np.ndarray, places: np.ndarray) -> np.ndarray:
    return a[places // sizes.box_cols, places % sizes.box_cols]


_case("gather", "pl.tensor.gather({0}, dim=-1, index={1})", _along, ("full", "columns"))
_case("tile_gather", "pl.tile.gather({0}, {1}, {1})", _in_tile, ("full", "places"), boxed=True)
_case(
    "mgather",
    "pl.mgather({x0}, {1}, coalesce='elem')",
    lambda a, numbers: a.reshape(-1)[numbers],
    ("full", "elements"),
)
_case(
    "paged_gather",
    "pl.paged_gather({x0}, {1}, {x2}, 1, {c}, {R})",
    lambda a, numbers, table: a[table[0][numbers[0]]],
    ("full", "order", "order"),
)


def _blocks_of(dtype: str) -> Reference:
    def reference(a: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        # BF16 lives in FP32 arrays, of which the upper halves are the elements.
        exact = a.astype(np.float32).view(np.uint32) >> 16 if dtype == "BF16" else a
        wide = np.pad(exact.astype(np.uint16 if dtype == "BF16" else NUMPY[dtype]), ((0, 0), (0, BLOCK_MARGIN)))
        raw = wide.reshape(-1).view(np.uint8)
        picked = np.stack([np.concatenate([raw[at : at + 32] for at in row]) for row in offsets]).view(wide.dtype)
        return (picked.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else picked

    return reference


for _dtype in NUMBERS:
    _case(
        "gatherb",
        f"pl.gatherb(pl.fillpad_expand({{0}}, [{{R}}, {{c}} + {BLOCK_MARGIN}]), {{1}})",
        _blocks_of(_dtype),
        ("full", "blocks"),
        f"bytes of {_dtype}",
        dtypes=(_dtype,),
    )


def _picked(start: int, stride: int) -> Reference:
    def reference(a: np.ndarray) -> np.ndarray:
        out = a[:, start::stride]
        return out if out.size else np.zeros((a.shape[0], 1), a.dtype)

    return reference


def _spread(start: int, stride: int, keep: bool) -> Reference:
    def reference(target: np.ndarray, source: np.ndarray) -> np.ndarray:
        rows, cols = target.shape
        out = np.zeros((rows, cols + stride), target.dtype)
        out[:, :cols] = target if keep else 0
        out[:, start::stride][:, : source.shape[1]] = source
        return out[:, :cols]

    return reference


for _number, (_start, _stride) in PATTERNS.items():
    _kind = f"columns of pattern {_number}"
    _case(
        "gather_mask", f"pl.tile.gather_mask({{0}}, {_number})", _picked(_start, _stride), ("fours",), out=_kind
    )  # fmt: skip
    _source = {1: "full", 2: "even", 4: "fourth"}[_stride]
    _case(
        "scatter",
        f"pl.tensor.scatter({{1}}, mask_pattern={_number}, dst={{0}})",
        _spread(_start, _stride, True),
        ("fours", _source),
    )
    _case(
        "scatter_mask",
        f"pl.tile.scatter_mask({{0}}, {{1}}, {_number})",
        _spread(_start, _stride, False),
        ("fours", _source),
    )

for _mode, _holds in (("eq", np.equal), ("gt", np.greater)):
    _call = f"pl.tile.gather_compare({{0}}, 2, {{0}}, cmp_mode='{_mode}', out_cols={{C}}, offset=5)"

    def _where(sizes: Sizes, a: np.ndarray, holds: Reference = _holds) -> np.ndarray:
        out = np.zeros((sizes.rows, sizes.box_cols), np.int64)
        for row, line in zip(out, holds(a, 2), strict=True):
            (found,) = np.nonzero(line)
            row[: found.size] = found + 5
        return out[:, : sizes.cols]

    _case(
        "gather_compare", f"i, n = {_call}\npl.set_validshape(i, {{r}}, {{c}})", _where, result="INT32", domain="ties",
        boxed=True,
    )  # fmt: skip
    _case(
        "gather_compare", f"i, n = {_call}\nn", lambda a, f=_holds: f(a, 2).sum(1, keepdims=True), out="col",
        result="INT32", domain="ties",
    )  # fmt: skip


def _scattered(a: np.ndarray, columns: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = a.copy()
    np.put_along_axis(out, columns, source, 1)
    return out


def _in_places(sizes: Sizes, a: np.ndarray, places: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = a.copy()
    out[places // sizes.box_cols, places % sizes.box_cols] = source
    return out


def _to_elements(source: np.ndarray, elements: np.ndarray) -> np.ndarray:
    out = np.zeros_like(source)
    out.reshape(-1)[elements] = source
    return out


def _rows(a: np.ndarray, order: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = a.copy()
    out[order[0]] = source
    return out


_case("scatter", "pl.tensor.scatter({0}, dim=-1, index={1}, src={2})", _scattered, ("full", "distinct", "full"))
_case("tile_scatter", "pl.tile.scatter({0}, {2}, {1})", _in_places, ("full", "places", "full"), boxed=True)
_case("mscatter", "out = pl.mscatter({0}, {1}, out)\nNone", _to_elements, ("full", "elements"))
_case("scatter_update", "pl.scatter_update({0}, -2, {1}, {2})", _rows, ("full", "order", "full"))


def _groups(slots: int) -> Reference:
    def reference(a: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        values, order = a.copy(), numbers.copy()
        for first in range(0, a.shape[1], 32):
            part = slice(first, first + 32)
            for row in range(a.shape[0]):
                rank = np.lexsort((numbers[row, part], -a[row, part]))
                values[row, part], order[row, part] = a[row, part][rank], numbers[row, part][rank]
        return pairs(values, order, "FP32" if slots == 2 else "FP16")

    return reference


def _merged(slots: int) -> Reference:
    plain = np.float32 if slots == 2 else np.float16

    def reference(*lists: np.ndarray) -> np.ndarray:
        line = np.concatenate([array.astype(plain) for array in lists], 1).reshape(-1, slots)
        return line[np.argsort(-line[:, 0].astype(np.float64), kind="stable")].reshape(1, -1)

    return reference


for _dtype, _slots, _word in (("FP32", 2, "pairs"), ("FP16", 4, "quads")):
    _case(
        "sort32", "pl.sort32({0}, {1})", _groups(_slots), ("groups", "group numbers"), f"sorted {_word}",
        dtypes=(_dtype,), domain="ties",
    )  # fmt: skip
    _case(
        "mrgsort", "pl.mrgsort({0}, {1})", _merged(_slots), (_word, f"later {_word}"), f"all {_word}",
        dtypes=(_dtype,),
    )  # fmt: skip
