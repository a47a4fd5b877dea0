"""Rows: gather, scatter and sort."""

from __future__ import annotations

from typing import Final

from pypto.language.ops.table import Rows

row = Rows()

PATTERNS: Final = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
"""The first column and the distance of the columns that a mask pattern names."""

_OUTSIDE = "An index outside reads 0."
_PATTERN = (
    "`mask_pattern` names the columns, read from right to left: 1 (P0101) even ones, 2 (P1010) odd ones, 3 to 6 "
    "(P0001, P0010, P0100, P1000) every fourth from 0, 1, 2, 3, and 7 (P1111) all."
)
_BITS = "`output_dtype` gives the same bits another dtype."
_COMPARED = (
    "the columns of each row whose element compares true with `kvalue`, plus `offset`, in ascending order, up to "
    "`out_cols` of them (0 after the last), and how many there are: two values, `[M, out_cols]` and `[M, 1]`"
)
row(
    "gather",
    f"Of tensors. With `index`: `out[b, k] = x[b, index[b, k]]`. {_OUTSIDE} With `mask_pattern`: the columns that it "
    f"names. {_PATTERN} {_BITS} With `kvalue`: {_COMPARED}.",
    rule="gather",
    core="gather_cols gather_stride gather_cmp_index gather_cmp_count reinterpret",
    pl=(
        "input, dim=None, index=None, *, mask_pattern=None, output_dtype=None, kvalue=None, cmp_mode=None, "
        "out_cols=None, offset=0, count_dtype=None"
    ),
    tensor=(
        "input, dim=None, index=None, *, mask_pattern=None, output_dtype=None, kvalue=None, cmp_mode=None, "
        "out_cols=None, offset=0, count_dtype=None"
    ),
)
row(
    "tile_gather",
    f"`out[r, c]` is the element of the whole tile, counted row by row, that `indices[r, c]` names. {_OUTSIDE}",
    rule="tile_gather",
    core="gather_flat",
    tile="gather(src, indices, tmp)",
)
row(
    "gatherb",
    "Blocks of 32 bytes: block `k` of a row begins at byte `offset[r, k]` of the tile.",
    rule="gatherb",
    core="gather_bytes",
    pl="src, offset, *, output_dtype=None",
    tile="src, offset, *, output_dtype=None",
)
row(
    "gather_mask",
    f"The columns that a pattern names. {_PATTERN} {_BITS}",
    rule="gather_mask",
    core="gather_stride reinterpret",
    tile="src, mask_pattern, *, output_dtype=None",
)
row(
    "gather_compare",
    f"Of tiles: {_COMPARED}.",
    rule="gather_compare",
    core="gather_cmp_index gather_cmp_count",
    tile="src, kvalue, tmp, *, cmp_mode='eq', offset=0, out_cols, count_dtype=None",
)
_PAGED = (
    "src, indices, block_table, block_size, size, max_indices, *, space=MemorySpace.Mat, col_off=0, is_trans=False, "
    "is_b_matrix=False"
)
row(
    "paged_gather",
    "Rows through a page table: row `k` of the result is `size` columns from `col_off` on of row "
    "`block_table[i // block_size] * block_size + i % block_size` of `src`, where `i = indices[k]`. `is_trans` swaps "
    "the axes of the result.",
    rule="paged_gather",
    core="gather_tensor",
    pl=_PAGED,
    tensor=_PAGED,
)
_SCATTER = "input, dim=None, index=None, src=None, *, mask_pattern=None, dst=None"
row(
    "scatter",
    "Of tensors. With `index`: a copy of `input` with `out[b, index[b, k]] = src[b, k]`, `k` ascending. With "
    "`mask_pattern`: the columns of `input` spread over the marked columns of `dst`; the others keep `dst`. "
    f"{_PATTERN}",
    rule="scatter",
    core="scatter_cols scatter_stride",
    pl=_SCATTER,
    tensor=_SCATTER,
)
row(
    "tile_scatter",
    "`dst` with `src[r, c]` at the place that `indexes[r, c]` counts row by row. Changes `dst` and returns it.",
    rule="tile_scatter",
    core="scatter_flat",
    tile="scatter(dst, src, indexes)",
)
row(
    "scatter_mask",
    "The columns of `src` spread over the marked columns of `dst`; the others become 0, as in the simulator. "
    f"{_PATTERN} Changes `dst` and returns it.",
    rule="scatter_mask",
    core="fill scatter_stride",
    tile="dst, src, mask_pattern",
)
_UPDATE = "input, *args, **kwargs"
row(
    "scatter_update",
    "`scatter_update(input, dim=-2, index[b, s], src)`: `input` with whole rows replaced, row `index.flat[k]` by "
    "`src[k]`. Device memory is written in place.",
    rule="scatter_update",
    core="scatter_rows",
    accepts="input, dim=-2, index=None, src=None",
    pl=_UPDATE,
    tensor=_UPDATE,
    tile=_UPDATE,
)
row(
    "mscatter",
    "Writes to device memory: `src[r, c]` at element `idx[r, c]`, or row `src[r]` at row `idx[r]` where `idx` has one "
    "number per row. An index outside writes nothing. Returns the tensor.",
    rule="mscatter",
    core="scatter_tensor",
    pl="src, idx, output_tensor",
    tile="src, idx, output_tensor",
)
_MGATHER = (
    "mem, idx, coalesce='row', *, gather_oob='undefined', target_memory=MemorySpace.Vec, scratch=None, valid_shape=None"
)
row(
    "mgather",
    "Reads from device memory: row `idx[r]` for each number (`coalesce='row'`), or element `idx[r, c]` ('elem'). "
    "`gather_oob` says what an index outside reads: 'undefined' or 'zero' 0, 'clamp' the nearest, 'wrap' modulo.",
    rule="mgather",
    core="gather_tensor",
    pl=_MGATHER,
    tile=_MGATHER,
)
row(
    "sort32",
    "Sorts each 32 columns of the valid region, descending, ties by the smaller index. The result holds pairs of a "
    "value and the bits of its index: 2 columns per element of FP32, 4 of FP16 (value, 0, low half, high half).",
    rule="sort32",
    core="sort32",
    pl="src, idx",
    tensor="src, idx",
    tile="src, idx",
)
_MERGE = "src0, src1=None, src2=None, src3=None, {}exhausted=False, {}block_len=None"
row(
    "mrgsort",
    "Merges sorted runs of pairs, ties prefer the earlier run. With `block_len`: groups of four runs of `block_len` "
    "columns of one row; an incomplete group stays as it is. Else two to four lists; `exhausted` is a hint.",
    rule="mrgsort",
    core="merge_sort merge_lists",
    pl=_MERGE.format("tmp=None, *, ", ""),
    tensor=_MERGE.format("*, ", ""),
    tile=_MERGE.format("tmp=None, ", "*, "),
)
