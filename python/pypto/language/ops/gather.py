"""Rows: gather, scatter and sort."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_GATHER = (
    "input, dim=None, index=None, *, mask_pattern=None, output_dtype=None, kvalue=None, cmp_mode=None, out_cols=None, "
    "offset=0, count_dtype=None"
)
row("gather", "Picks elements by column index.", pl=_GATHER, tensor=_GATHER)
row("tile_gather", "Picks elements by flat index.", tile="gather(src, indices, tmp)")
row(
    "gatherb",
    "Picks blocks of 32 bytes.",
    pl="src, offset, *, output_dtype=None",
    tile="src, offset, *, output_dtype=None",
)
row("gather_mask", "Picks columns by a pattern.", tile="src, mask_pattern, *, output_dtype=None")
row(
    "gather_compare",
    "Picks what satisfies a comparison.",
    tile="src, kvalue, tmp, *, cmp_mode='eq', offset=0, out_cols, count_dtype=None",
)
_PAGED = (
    "src, indices, block_table, block_size, size, max_indices, *, space=MemorySpace.Mat, col_off=0, is_trans=False, "
    "is_b_matrix=False"
)
row("paged_gather", "Picks rows through a page table.", pl=_PAGED, tensor=_PAGED)
_SCATTER = "input, dim=None, index=None, src=None, *, mask_pattern=None, dst=None"
row("scatter", "Puts elements by column index.", pl=_SCATTER, tensor=_SCATTER)
row("tile_scatter", "Puts elements by flat index.", tile="scatter(dst, src, indexes)")
row("scatter_mask", "Spreads columns by a pattern.", tile="dst, src, mask_pattern")
_UPDATE = "input, *args, **kwargs"
row("scatter_update", "Replaces whole rows.", pl=_UPDATE, tensor=_UPDATE, tile=_UPDATE)
row("mscatter", "Scatters into device memory.", pl="src, idx, output_tensor", tile="src, idx, output_tensor")
_MGATHER = (
    "mem, idx, coalesce='row', *, gather_oob='undefined', target_memory=MemorySpace.Vec, scratch=None, valid_shape=None"
)
row("mgather", "Gathers from device memory.", pl=_MGATHER, tile=_MGATHER)
row("sort32", "Sorts each 32 columns, descending, with indices.", pl="src, idx", tensor="src, idx", tile="src, idx")
_MERGE = "src0, src1=None, src2=None, src3=None, {}exhausted=False, {}block_len=None"
row(
    "mrgsort",
    "Merges sorted runs.",
    pl=_MERGE.format("tmp=None, *, ", ""),
    tensor=_MERGE.format("*, ", ""),
    tile=_MERGE.format("tmp=None, ", "*, "),
)
