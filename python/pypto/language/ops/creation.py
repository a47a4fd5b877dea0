"""Rows: creation."""

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
_L1 = "shape, dtype, transpose=False"
row(
    "create_l1",
    "An accumulator for `gather_row`, without a defined content; `transpose` is a label of its layout.",
    rule="create_l1",
    core="undef",
    pl=_L1,
    tensor=_L1,
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
row(
    "arange",
    "`[1, N]` of consecutive integers from `start` up, or down if `descending`.",
    rule="arange",
    core="iota",
    pl=_CI,
    tensor=f"ci({_CI})",
    tile=f"ci({_CI})",
)
_RANDOM = "key0, key1, counter0, counter1, counter2, counter3, shape, {}dtype=DataType.UINT32, rounds=10"
row(
    "random",
    "Random bits of Philox4x32: element `i`, counted row by row over the valid region, is word `i % 4` of the block at "
    "`counter + i // 4`. UINT32, or INT32 with the same bits.",
    rule="random",
    core="random reinterpret",
    pl=_RANDOM.format(""),
    tensor=_RANDOM.format(""),
    tile=_RANDOM.format("valid_shape=None, "),
)
_TRI = "diagonal, shape, valid_shape=None, dtype=DataType.INT32, upper=False"
row(
    "tri",
    "1 where `column <= row + diagonal` (`upper`: where `column >= row + diagonal`), else 0.",
    rule="tri",
    core="tri",
    pl=_TRI,
    tile=_TRI,
)
row(
    "alloc",
    "A fixed place on chip for `pl.MemRef`: a hint, since this device finds places itself.",
    rule="handle",
    tensor="memory_space, size",
    tile="memory_space, size, *, pinned=False",
)
