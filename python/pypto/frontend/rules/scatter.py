"""Rules: putting elements by index or by pattern, and sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend import validity, views
from pypto.frontend.rules.base import Rule, absent, constant, in_kernel, result, tensor_at, tile_at
from pypto.frontend.rules.gather import (
    index_tile,
    pattern,
    position_of,
    require_axis,
    rows_of,
    signed,
    static_width,
    table,
)
from pypto.frontend.values import Value, Window, describe, is_scalar
from pypto.ir.exprs import index
from pypto.ir.nodes import OpStmt, Var
from pypto.ir.types import TileType
from pypto.language.dtypes import FP16, FP32, UINT32
from pypto.language.ops.gather import PATTERNS

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def scatter(call: BoundCall) -> Value:
    """By column index, or by pattern over `dst`."""
    in_kernel(call)
    if not absent(call.given("mask_pattern")):
        target, source = tile_at(call, position_of(call, "dst")), tile_at(call, 0)
        _same_dtype(call, target, source)
        number = _spread(call, target, source)
        validity.require_rows(call, source.tile.shape, source.tile.valid)
        return result(call, "scatter_mask", target.tile, (target, source), mask_pattern=number, blend=True)
    for name in ("index", "src"):
        if absent(call.given(name)):
            call.builder.fail(
                "type",
                f"{call.form.spelling} needs {name!r}",
                call.node,
                "write pl.scatter(x, dim=-1, index=idx, src=y), or pl.scatter(y, mask_pattern=1, dst=x)",
            )
    target = tile_at(call, 0)
    where, source = index_tile(call, position_of(call, "index")), tile_at(call, position_of(call, "src"))
    require_axis(call, -1, len(target.tile.shape))
    _same_dtype(call, target, source)
    _same_extent(call, where, source)
    validity.require_rows(call, source.tile.shape, source.tile.valid)
    return result(call, "scatter", target.tile, (target, where, source))


def _same_dtype(call: BoundCall, target: Var, source: Var) -> None:
    if target.type.dtype is not source.type.dtype:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {source.type.dtype} elements into {target.type.dtype.with_article} value",
            call.node,
            f"convert them: pl.cast(x, pl.{target.type.dtype})",
        )


def _same_extent(call: BoundCall, where: Var, source: Var) -> None:
    if where.tile.physical != source.tile.physical:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {list(where.tile.shape)} indices for {list(source.tile.shape)} elements",
            call.node,
            "there is one index for each element",
        )


def _spread(call: BoundCall, target: Var, source: Var) -> int:
    number = pattern(call)
    start, stride = PATTERNS[number]
    (rows, cols), (source_rows, source_cols) = target.tile.physical, source.tile.physical
    if source_rows > rows or (source_cols - 1) * stride + start >= cols:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {list(source.tile.shape)} spread over every {stride}. column exceeds "
            f"{list(target.tile.shape)}",
            call.node,
            "the destination has 2 or 4 times as many columns",
        )
    return number


def _in_place(call: BoundCall, op: str, target: Var, args: tuple[object, ...], **attrs: object) -> Var:
    """An operation that changes its destination, under all its names."""
    call.builder.emit(OpStmt(op, target, args, call.builder.loc(call.node), dict(attrs)))  # type: ignore[arg-type]
    return target


def tile_scatter(call: BoundCall) -> Value:
    """By the number of the element in the whole tile."""
    in_kernel(call)
    target, source, where = tile_at(call, 0), tile_at(call, 1), index_tile(call, 2)
    _same_dtype(call, target, source)
    _same_extent(call, where, source)
    validity.require_rows(call, where.tile.shape, where.tile.valid)
    return _in_place(call, "tile_scatter", target, (target, source, where))


def scatter_mask(call: BoundCall) -> Value:
    """By pattern; what the pattern does not name becomes 0."""
    in_kernel(call)
    target, source = tile_at(call, 0), tile_at(call, 1)
    _same_dtype(call, target, source)
    number = _spread(call, target, source)
    validity.require_rows(call, source.tile.shape, source.tile.valid)
    return _in_place(call, "scatter_mask", target, (target, source), mask_pattern=number, blend=False)


def scatter_update(call: BoundCall) -> Value:
    """Whole rows."""
    in_kernel(call)
    target, (dim, where, source) = call.values[0], call.values[1:4]
    at = 2
    if not is_scalar(dim) and not isinstance(dim, int):  # scatter_update(x, index, src)
        third = 2 if absent(source) else 3
        where, source = dim, call.values[third]
        call.values[1:4] = [-2, where, source]
        call.nodes[1:4] = [None, call.nodes[1], call.nodes[third]]
    if absent(where) or absent(source):
        call.builder.fail(
            "type",
            f"{call.form.spelling} needs 'index' and 'src'",
            call.node,
            "write pl.scatter_update(x, -2, index, src)",
        )
    numbers, rows = signed(call, index_tile(call, at)), tile_at(call, at + 1)
    validity.require_rows(call, rows.tile.shape, rows.tile.valid)
    count = numbers.tile.physical
    if count[0] * count[1] != rows.tile.physical[0]:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {list(numbers.tile.shape)} indices for {list(rows.tile.shape)} rows",
            call.node,
            "there is one index for each row of src",
        )
    if isinstance(target, Window) or (isinstance(target, Var) and target.is_tensor):
        memory = table(call, 0)
        width = static_width(call, memory, 0)
        if rows.tile.physical[1] != width:
            _wrong_width(call, rows, width)
        elements = rows_of(call, numbers, width, index(0), width, at)
        return _scatter_memory(call, rows, elements, memory)
    tile = tile_at(call, 0)
    require_axis(call, -2, len(tile.tile.shape))
    _same_dtype(call, tile, rows)
    if rows.tile.physical[1] != tile.tile.physical[1]:
        _wrong_width(call, rows, tile.tile.physical[1])
    return result(call, "scatter_update", tile.tile, (tile, numbers, rows))


def _wrong_width(call: BoundCall, rows: Var, width: int) -> None:
    call.builder.fail(
        "type",
        f"{call.form.spelling}: rows of {rows.tile.physical[1]} elements replace rows of {width}",
        call.node_of(3),
        "whole rows are replaced; for a part of one use pl.scatter or pl.assemble",
    )


def _scatter_memory(call: BoundCall, tile: Var, elements: Var, memory: Var) -> Var:
    builder = call.builder
    validity.require_rows(call, tile.tile.shape, tile.tile.valid)
    if tile.type.dtype is not memory.type.dtype:
        builder.fail(
            "type",
            f"{call.form.spelling}: {tile.type.dtype} elements into the {memory.type.dtype} tensor {memory.name!r}",
            call.node,
            f"convert them: pl.cast(x, pl.{memory.type.dtype})",
        )
    builder.emit(OpStmt("mscatter", None, (tile, elements, memory), builder.loc(call.node)))
    return memory


def mscatter(call: BoundCall) -> Value:
    """Elements or rows, into device memory."""
    in_kernel(call)
    tile, numbers = tile_at(call, 0), signed(call, index_tile(call, 1))
    target = tensor_at(call, 2)
    memory = views.view_of(call.builder, target, call.node_of(2)) if isinstance(target, Window) else target
    if numbers.tile.physical != tile.tile.physical:
        rows, cols = tile.tile.physical
        if sorted(numbers.tile.physical) != sorted((1, rows)):
            call.builder.fail(
                "type",
                f"{call.form.spelling}: {list(numbers.tile.shape)} indices for {list(tile.tile.shape)} elements",
                call.node_of(1),
                "give one index for each element, or one for each row",
            )
        numbers = rows_of(call, numbers, static_width(call, memory, 2), index(0), cols, 1)
    return _scatter_memory(call, tile, numbers, memory)


def sort32(call: BoundCall) -> Value:
    """Each 32 columns in descending order, with their indices."""
    in_kernel(call)
    source, numbers = tile_at(call, 0), tile_at(call, 1)
    dtype = source.type.dtype
    if dtype not in (FP32, FP16) or numbers.type.dtype is not UINT32:
        call.builder.fail(
            "type",
            f"{call.form.spelling} sorts FP32 or FP16 with UINT32 indices, got {dtype} and {numbers.type.dtype}",
            call.node,
            "make the indices with pl.arange(0, [1, n], dtype=pl.UINT32)",
        )
    if numbers.tile.physical != source.tile.physical:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {list(numbers.tile.shape)} indices for {list(source.tile.shape)} elements",
            call.node_of(1),
            "there is one index for each element; pl.col_expand spreads a row of them",
        )
    factor = 2 if dtype is FP32 else 4
    shape = (*source.tile.shape[:-1], source.tile.shape[-1] * factor)
    valid = (*source.tile.valid[:-1], validity.scaled(call.builder, source.tile.valid[-1], factor, call.node))
    type = TileType(shape, dtype, valid, tensor_level=source.tile.tensor_level)
    return result(call, "sort32", type, (source, numbers))


def mrgsort(call: BoundCall) -> Value:
    """Groups of four runs of one row, or two to four lists."""
    in_kernel(call)
    builder, node = call.builder, call.node
    lists = [position for position in range(4) if not absent(call.values[position])]
    tiles = [tile_at(call, position) for position in lists]
    first = tiles[0].tile
    for tile in tiles:
        if tile.tile.physical[0] != 1 or tile.type.dtype is not first.dtype or first.dtype not in (FP32, FP16):
            builder.fail(
                "type",
                f"{call.form.spelling} merges rows of FP32 or FP16 pairs, got {describe(tile)}",
                node,
                "take one row: x[i : i + 1, :]",
            )
    length = constant(call, "block_len")
    if length is not None:
        if len(tiles) != 1 or not isinstance(length, int) or isinstance(length, bool) or length <= 0:
            builder.fail(
                "value",
                f"{call.form.spelling}: block_len {length!r} with {len(tiles)} lists",
                call.node_named("block_len"),
                "block_len merges the runs of one list; it counts columns, two per element (64 = 32 elements)",
            )
        return result(call, "mrgsort", first, (tiles[0],), block_len=length)
    if len(tiles) < 2:
        builder.fail(
            "type",
            f"{call.form.spelling} of one list needs block_len",
            node,
            "write block_len=64 to merge runs of 32 elements, or give two to four lists",
        )
    shape = (1, sum(tile.tile.physical[1] for tile in tiles))
    valid = validity.total(builder, tuple(tile.tile.valid[-1] for tile in tiles), node)
    type = TileType(shape, first.dtype, (1, valid), tensor_level=first.tensor_level)
    return result(call, "mrgsort", type, tuple(tiles), block_len=None)


RULES: dict[str, Rule] = {
    "scatter": scatter,
    "tile_scatter": tile_scatter,
    "scatter_mask": scatter_mask,
    "scatter_update": scatter_update,
    "mscatter": mscatter,
    "sort32": sort32,
    "mrgsort": mrgsort,
}
