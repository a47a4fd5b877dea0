"""Rows: creation, movement, views and access to single elements."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_CREATE = "shape, dtype, layout=TensorLayout.ND, manual_dep=False, init_value=None"
row(
    "create_tensor",
    "Device memory for the time of the launch, undefined unless `init_value`; inside `pl.at` an on-chip value.",
    rule="create_tensor",
    core="undef fill",
    pl=_CREATE,
    tensor=f"create({_CREATE})",
)
_CREATE_TILE = "shape, dtype, target_memory=MemorySpace.Vec, transpose=None, *, flat_layout=None"
row(
    "create_tile",
    "An on-chip value without a defined content.",
    rule="create_tile",
    core="undef",
    pl=_CREATE_TILE,
    tile=f"create({_CREATE_TILE})",
)
row(
    "create_l1",
    "An accumulator for `gather_row`.",
    pl="shape, dtype, transpose=False",
    tensor="shape, dtype, transpose=False",
)
row(
    "full",
    "A value with every element equal to `value`; the shape is static.",
    rule="full",
    core="fill",
    pl="shape, dtype, value",
    tensor="shape, dtype, value",
    tile="shape, dtype, value",
)
_CI = "start, shape, dtype=DataType.INT32, descending=False"
row("arange", "`[1, N]` of consecutive integers.", pl=_CI, tensor=f"ci({_CI})", tile=f"ci({_CI})")
_RANDOM = "key0, key1, counter0, counter1, counter2, counter3, shape, {}dtype=DataType.UINT32, rounds=10"
row(
    "random",
    "Counter-based random bits.",
    pl=_RANDOM.format(""),
    tensor=_RANDOM.format(""),
    tile=_RANDOM.format("valid_shape=None, "),
)
_TRI = "diagonal, shape, valid_shape=None, dtype=DataType.INT32, upper=False"
row("tri", "Ones below or above a diagonal.", pl=_TRI, tile=_TRI)

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
    "Writes the valid region into device memory at `offsets` and returns the destination. A FP32 value stored to a "
    "16-bit float tensor is rounded to nearest even.",
    rule="store",
    core="store",
    pl=_STORE,
    tile=_STORE,
)
_MOVE = "tile, target_memory, blayout=None, slayout=None"
row("move", "A copy in another memory space.", rule="move", core="move", pl=_MOVE, tile=_MOVE)
row("extract", "A copy of part of a tile.", tile="src, index_row, index_col, shape, *, target_memory")
_SLICE = "{}, shape, offset, valid_shape=None, drop_dims=None, pad_value=None, clamp=False"
row(
    "slice",
    "The box at `offset` with extents `shape` (shape comes first): an alias in orchestration, a snapshot in kernels.",
    rule="slice",
    core="load",
    pl=_SLICE.format("input"),
    tensor=_SLICE.format("tensor"),
    tile="tile, shape, offset, valid_shape=None, drop_dims=None, pad_value=None",
)
_ASSEMBLE = "target, source, offset, *, atomic=AtomicType.None_"
row(
    "assemble",
    "Puts `source` into `target` at `offset`: a store if the target is device memory. Returns the target.",
    rule="assemble",
    core="store",
    pl=_ASSEMBLE,
    tensor=_ASSEMBLE,
    tile="target, source, offset",
)
row("concat", "Joins along the last axis.", pl="src0, src1", tensor="src0, src1", tile="src0, src1")
row(
    "reshape",
    "Row-major reinterpretation of the same elements.",
    rule="reshape",
    core="",
    pl="input, shape",
    tensor="tensor, shape",
    tile="tile, shape",
)
row(
    "transpose",
    "Swaps two axes: a view in orchestration code.",
    rule="transpose",
    pl="input, axis1, axis2",
    tensor="tensor, axis1, axis2",
    tile="tile, axis1, axis2, tmp_tile=None",
)
row(
    "transpose_view",
    "The last two axes swapped. Of device memory, for now.",
    rule="transpose_view",
    core="load",
    tile="tile",
)
_REINTERPRET = "data, dtype, *, shape=None"
row("reinterpret_view", "The same bits as another dtype.", pl=_REINTERPRET, tensor=_REINTERPRET, tile=_REINTERPRET)
row("view", "Re-labels device memory.", tensor="tensor, shape=None, valid_shape=None, *, layout=None")
row(
    "set_validshape",
    "Declares another valid region.",
    pl="input, valid_rows, valid_cols",
    tensor="tensor, valid_rows, valid_cols",
    tile="tile, valid_rows, valid_cols",
)
row(
    "fillpad",
    "Fills what is not valid.",
    pl="value, pad_value=PadValue.zero",
    tensor="tensor, pad_value=PadValue.zero",
    tile="tile, pad_value=PadValue.zero",
)
row("fillpad_inplace", "Fills what is not valid, in place.", tile="tile, pad_value=PadValue.zero")
_EXPAND = ", shape, pad_value=PadValue.zero"
row(
    "fillpad_expand",
    "A larger box, filled outside.",
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
    "Writes one element; the scalar has exactly the dtype of the destination.",
    rule="write",
    pl="dst, offset, value",
    tensor="tensor, indices, value",
    tile="tile, indices, value",
)
row("dim", "The extent along an axis.", rule="dim", pl="tensor, axis", tensor="tensor, axis")
row(
    "no_dep",
    "Identity; takes the tensor out of dependency tracking, which is a hint.",
    rule="identity",
    pl="tensor",
    tensor="tensor",
)
row("dump_tag", "Identity; marks the tensor for dumps, which is a hint.", rule="identity", pl="tensor", tensor="tensor")
_GATHER_ROW = "dst, src, dst_offset, src_offset, shapes, transpose=False, *, valid_shape=None"
row(
    "gather_row",
    "Copies one window into an accumulator.",
    pl=_GATHER_ROW,
    tensor=_GATHER_ROW.replace("dst,", "acc,", 1),
    tile=_GATHER_ROW,
)
row("alloc", "A raw buffer in a memory space.", tensor="memory_space, size", tile="memory_space, size, *, pinned=False")
