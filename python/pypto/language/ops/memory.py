"""Rows: movement, views and access to single elements."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_LOAD = "tensor, offsets, shapes, valid_shape=None, target_memory=MemorySpace.Vec, clamp=False"
row(
    "load",
    "Copies the box at `offsets` with extents `shapes` from device memory onto the chip; leading axes merge into rows. "
    "Only `valid_shape` is read, so the box may reach past the tensor.",
    rule="load",
    core="load",
    pl=_LOAD,
    tile=_LOAD,
)
_STORE = "tile, offsets, output_tensor, shapes=None, *, atomic=AtomicType.None_"
row(
    "store",
    "Writes the valid region into device memory at `offsets` and returns the destination. An FP32 value stored to a "
    "16-bit float tensor is rounded to nearest even. `atomic=Add` adds to what is there, each element rounded to the "
    "dtype of the tensor; blocks add in ascending order.",
    rule="store",
    core="store store_add",
    pl=_STORE,
    tile=_STORE,
)
_MOVE = "tile, target_memory, blayout=None, slayout=None"
row("move", "A copy in another memory space.", rule="move", core="move", pl=_MOVE, tile=_MOVE)
row(
    "extract",
    "A copy of the part of a tile that begins at `index_row`, `index_col`.",
    rule="extract",
    core="extract",
    tile="src, index_row, index_col, shape, *, target_memory",
)
_SLICE = "{}, shape, offset, valid_shape=None, drop_dims=None, pad_value=None, clamp=False"
row(
    "slice",
    "The box at `offset` with extents `shape` (shape comes first): an alias in orchestration, a snapshot in kernels. "
    "What is valid is what the source has valid there, cut to `valid_shape`. `pad_value` fills the rest of a slice of "
    "an on-chip value; of device memory it is dropped.",
    rule="slice",
    core="load extract fillpad",
    pl=_SLICE.format("input"),
    tensor=_SLICE.format("tensor"),
    tile="tile, shape, offset, valid_shape=None, drop_dims=None, pad_value=None",
)
_ASSEMBLE = "target, source, offset, *, atomic=AtomicType.None_"
row(
    "assemble",
    "Puts the valid region of `source` into `target` at `offset`: a store if the target is device memory, else a new "
    "value. Returns the target.",
    rule="assemble",
    core="store store_add insert",
    pl=_ASSEMBLE,
    tensor=_ASSEMBLE,
    tile="target, source, offset",
)
row(
    "concat",
    "Joins along the last axis: the second value follows the valid columns of the first.",
    rule="concat",
    core="undef insert",
    pl="src0, src1",
    tensor="src0, src1",
    tile="src0, src1",
)
row(
    "reshape",
    "Row-major reinterpretation of the same elements.",
    rule="reshape",
    core="reinterpret",
    pl="input, shape",
    tensor="tensor, shape",
    tile="tile, shape",
)
row(
    "transpose",
    "Swaps two axes: a view in orchestration code, a new value in kernels.",
    rule="transpose",
    core="transpose extract insert",
    pl="input, axis1, axis2",
    tensor="tensor, axis1, axis2",
    tile="tile, axis1, axis2, tmp_tile=None",
)
row(
    "transpose_view",
    "The last two axes swapped.",
    rule="transpose_view",
    core="load transpose",
    tile="tile",
)
_REINTERPRET = "data, dtype, *, shape=None"
row(
    "reinterpret_view",
    "The same bits as another dtype: the last extent changes with the size of an element, unless `shape` says how. Of "
    "device memory in orchestration code it is an alias, in a kernel a new value.",
    rule="reinterpret_view",
    core="reinterpret",
    pl=_REINTERPRET,
    tensor=_REINTERPRET,
    tile=_REINTERPRET,
)
row(
    "view",
    "Device memory in another shape, or with less of it valid; layouts are labels.",
    rule="view",
    tensor="tensor, shape=None, valid_shape=None, *, layout=None",
)
row(
    "set_validshape",
    "The same value with another valid region. It may widen: what lies there shows again.",
    rule="set_validshape",
    core="reinterpret",
    pl="input, valid_rows, valid_cols",
    tensor="tensor, valid_rows, valid_cols",
    tile="tile, valid_rows, valid_cols",
)
_PAD = (
    "`zero`, `min` and `max` are the values of the dtype, infinite for floats as in the simulator; a number is 0 or an "
    "infinity."
)
row(
    "fillpad",
    f"The same value with what is not valid filled, so that all of the box is valid. {_PAD}",
    rule="fillpad",
    core="fillpad",
    pl="value, pad_value=PadValue.zero",
    tensor="tensor, pad_value=PadValue.zero",
    tile="tile, pad_value=PadValue.zero",
)
row(
    "fillpad_inplace",
    f"`fillpad` that reuses the tile. {_PAD}",
    rule="fillpad",
    core="fillpad",
    tile="tile, pad_value=PadValue.zero",
)
_EXPAND = ", shape, pad_value=PadValue.zero"
row(
    "fillpad_expand",
    f"A larger box with the valid region in its upper left corner, filled elsewhere. {_PAD}",
    rule="fillpad_expand",
    core="fillpad",
    pl="value" + _EXPAND,
    tensor="tensor" + _EXPAND,
    tile="tile" + _EXPAND,
)
row(
    "read",
    "One element as a scalar. In orchestration code this waits for whoever produces it.",
    rule="read",
    pl="src, offset",
    tensor="tensor, indices",
    tile="tile, indices",
)
row(
    "write",
    "Writes one element; the scalar has exactly the dtype of the destination, also where it is a number: `1.5` is "
    "FP32, `1` is INDEX, which in memory is INT64. Convert others: `pl.cast(0, pl.FP16)`.",
    rule="write",
    pl="dst, offset, value",
    tensor="tensor, indices, value",
    tile="tile, indices, value",
)
row("dim", "The extent along an axis.", rule="dim", pl="tensor, axis", tensor="tensor, axis")
row(
    "no_dep",
    "Identity; no task waits for another because of this argument.",
    rule="no_dep",
    pl="tensor",
    tensor="tensor",
)
row(
    "dump_tag",
    "Identity; `RunConfig(enable_dump_args=1)` writes the parameter that is marked, or of which a part is.",
    rule="dump_tag",
    pl="tensor",
    tensor="tensor",
)
_GATHER_ROW = "dst, src, dst_offset, src_offset, shapes, transpose=False, *, valid_shape=None"
row(
    "gather_row",
    "Copies one window of device memory into the accumulator at `dst_offset`; `transpose` places `[r, c]` as `[c, r]`. "
    "Changes the accumulator and returns it.",
    rule="gather_row",
    core="load insert",
    pl=_GATHER_ROW,
    tensor=_GATHER_ROW.replace("dst,", "acc,", 1),
    tile=_GATHER_ROW,
)
