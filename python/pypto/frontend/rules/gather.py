"""Rules: picking elements by index, by pattern or by comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend import scalars, validity
from pypto.frontend.rules import shape
from pypto.frontend.rules.base import (
    Rule,
    absent,
    constant,
    dtype_at,
    in_kernel,
    result,
    scalar_operand,
    tensor_at,
    tile_at,
    valid_shape,
)
from pypto.frontend.rules.compare import comparison
from pypto.frontend.values import Value, Window, describe
from pypto.frontend.views import view_of
from pypto.ir.exprs import Const, Dim, Expr, binary, index, of_dim
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import INDEX, INT32, INT64, UINT32, DataType
from pypto.language.ops.gather import PATTERNS

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def index_tile(call: BoundCall, position: int) -> Var:
    """The argument as indices."""
    tile = tile_at(call, position)
    if tile.type.dtype not in (INT32, UINT32):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: indices are INT32 or UINT32, got {tile.type.dtype}",
            call.node_of(position),
            "convert them: pl.cast(x, pl.INT32)",
        )
    return tile


def position_of(call: BoundCall, name: str) -> int:
    """Where the parameter of this name stands."""
    return next(at for at, param in enumerate(call.form.accepted) if param.name == name)


def require_axis(call: BoundCall, wanted: int, rank: int) -> None:
    """Refuses `dim=` of another axis."""
    axis = constant(call, "dim")
    if axis is not None and axis not in (wanted, rank + wanted):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: dim is {axis!r}",
            call.node_named("dim"),
            f"only dim={wanted} exists; transpose the value to work along another axis",
        )


def gather(call: BoundCall) -> Value:
    """The three forms of `gather` of tensors."""
    in_kernel(call)
    forms = [name for name in ("index", "mask_pattern", "kvalue") if not absent(call.given(name))]
    if len(forms) != 1:
        call.builder.fail(
            "type",
            f"{call.form.spelling} takes one of index, mask_pattern and kvalue, got {' and '.join(forms) or 'none'}",
            call.node,
            "write pl.gather(x, dim=-1, index=idx), or pl.gather(x, mask_pattern=1)",
        )
    if forms == ["mask_pattern"]:
        return gather_mask(call)
    if forms == ["kvalue"]:
        return gather_compare(call)
    source, where = tile_at(call, 0), index_tile(call, position_of(call, "index"))
    require_axis(call, -1, len(source.tile.shape))
    _same_rows(call, source, where)
    type = TileType(where.tile.shape, source.type.dtype, where.tile.valid, tensor_level=source.tile.tensor_level)
    return result(call, "gather", type, (source, where))


def _same_rows(call: BoundCall, source: Var, where: Var) -> None:
    if where.tile.physical[0] > source.tile.physical[0]:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {list(where.tile.shape)} indices have more rows than {list(source.tile.shape)}",
            call.node,
            "row k of the result picks from row k of the value",
        )


def tile_gather(call: BoundCall) -> Value:
    """By the number of the element in the whole tile."""
    in_kernel(call)
    source, where = tile_at(call, 0), index_tile(call, 1)
    type = TileType(where.tile.shape, source.type.dtype, where.tile.valid)
    return result(call, "tile_gather", type, (source, where))


def gatherb(call: BoundCall) -> Value:
    """Blocks of 32 bytes."""
    in_kernel(call)
    source, where = tile_at(call, 0), index_tile(call, 1)
    dtype = source.type.dtype if absent(call.given("output_dtype")) else dtype_at(call, 2)
    if dtype.bits != source.type.dtype.bits:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {source.type.dtype} elements as {dtype}, which has another size",
            call.node_named("output_dtype"),
            "choose a dtype of the same size",
        )
    each = 32 // dtype.get_byte()
    shape = (*where.tile.shape[:-1], where.tile.shape[-1] * each)
    valid = (*where.tile.valid[:-1], validity.scaled(call.builder, where.tile.valid[-1], each, call.node))
    picked = result(call, "gatherb", TileType(shape, source.type.dtype, valid), (source, where))
    return _as(call, picked, dtype)


def pattern(call: BoundCall) -> int:
    """The number that `mask_pattern` gives."""
    value = constant(call, "mask_pattern")
    if isinstance(value, bool) or value not in PATTERNS:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: mask_pattern is {value!r}",
            call.node_named("mask_pattern"),
            "1 names even columns, 2 odd ones, 3 to 6 every fourth from 0 to 3, 7 all",
        )
    return int(value)


def gather_mask(call: BoundCall) -> Value:
    """The columns that a pattern names."""
    in_kernel(call)
    source = tile_at(call, 0)
    number = pattern(call)
    start, stride = PATTERNS[number]
    builder, node = call.builder, call.node
    cols = source.tile.shape[-1]
    if cols % stride:
        builder.fail(
            "value",
            f"{call.form.spelling}: {cols} columns are no multiple of {stride}",
            call.node_of(0),
            "a pattern takes every second or fourth column of a multiple of that",
        )
    shape = (*source.tile.shape[:-1], cols // stride)
    picked_valid = source.tile.valid[-1]
    if stride > 1:
        ahead = binary("add", of_dim(picked_valid), index(stride - 1 - start), INDEX)
        picked_valid = builder.dim(binary("floordiv", ahead, index(stride), INDEX), node)
    valid = (*source.tile.valid[:-1], picked_valid)
    type = TileType(shape, source.type.dtype, valid, tensor_level=source.tile.tensor_level)
    picked = result(call, "gather_mask", type, (source,), mask_pattern=number)
    given = call.given("output_dtype")
    return picked if absent(given) else _as(call, picked, dtype_at(call, position_of(call, "output_dtype")))


def _as(call: BoundCall, tile: Var, dtype: DataType) -> Var:
    """The same bits as another dtype."""
    old = tile.tile
    if old.dtype is dtype:
        return tile
    last, rest = divmod(old.shape[-1] * old.dtype.get_byte(), dtype.get_byte())
    if rest:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: rows of {old.shape[-1]} {old.dtype} are no whole number of {dtype}",
            call.node_named("output_dtype"),
            "choose a dtype of the same size",
        )
    cols: Dim = old.valid[-1]
    if last != old.shape[-1]:
        have = validity.scaled(call.builder, cols, old.dtype.get_byte(), call.node)
        cols = validity.divided(call.builder, have, dtype.get_byte(), call.node)
    type = TileType((*old.shape[:-1], last), dtype, (*old.valid[:-1], cols), old.space, old.tensor_level)
    return result(call, "reinterpret_view", type, (tile,), dtype=dtype)


def gather_compare(call: BoundCall) -> Value:
    """Indices of what satisfies a comparison, and their number."""
    in_kernel(call)
    tile, value = scalar_operand(call, position_of(call, "kvalue"), tile_at(call, 0))
    kind = 0 if absent(call.given("cmp_mode")) else comparison(call, "cmp_mode")
    cols = constant(call, "out_cols")
    if not isinstance(cols, int) or isinstance(cols, bool) or cols <= 0:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: out_cols is {cols!r}",
            call.node_named("out_cols"),
            "say how many indices a row of the result has room for",
        )
    start = call.given("offset")
    offset = scalars.integer(
        call.builder,
        start if not isinstance(start, int) else index(start),
        call.node_named("offset"),
        f"'offset' of {call.form.spelling}",
    )
    counted = INT32 if absent(call.given("count_dtype")) else dtype_at(call, position_of(call, "count_dtype"))
    if counted not in (INT32, UINT32):
        call.builder.fail(
            "type",
            f"{call.form.spelling}: counts are INT32 or UINT32, not {counted}",
            call.node_named("count_dtype"),
            "leave 'count_dtype' out",
        )
    old = tile.tile
    rows, rows_valid = old.shape[:-1], old.valid[:-1]
    keywords = {"cmp_mode": kind, "out_cols": cols}
    indices = TileType((*rows, cols), INT32, (*rows_valid, cols), tensor_level=old.tensor_level)
    counts = TileType((*rows, 1), counted, (*rows_valid, 1), tensor_level=old.tensor_level)
    args = (tile, value, offset)
    return (
        result(call, "gather_compare", indices, args, count_dtype=None, **keywords),
        result(call, "gather_compare", counts, args, count_dtype=counted, **keywords),
    )


def rows_of(call: BoundCall, numbers: Var, width: int, start: Expr, wanted: int, node_position: int) -> Var:
    """Element numbers of `wanted` columns from `start` on, of each row that `numbers` names, in rows of `width`."""
    count = numbers.tile.physical
    if 1 not in count and not numbers.tile.is_full:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: partly valid row numbers are one row or one column, got {list(numbers.tile.shape)}",
            call.node_of(node_position),
            "one number for each row of the result",
        )
    rows = count[0] * count[1]
    region = validity.require_rows(call, numbers.tile.shape, numbers.tile.valid)
    valid: Dim = rows if numbers.tile.is_full else region[1] if count[0] == 1 else region[0]
    column = TileType((rows, 1), INT32, (valid, 1))
    if numbers.tile.shape != column.shape:
        numbers = result(call, "reshape", column, (numbers, (index(rows), index(1))))
    grid = TileType((rows, wanted), INT32, (valid, wanted))
    box = result(call, "create_tile", TileType((rows, wanted), INT32, (rows, wanted)), ())
    line = TileType((1, wanted), INT32, (1, wanted))
    columns = result(call, "arange", line, (start,), descending=False)
    base = result(call, "muls", column, (numbers, Const(width, INT32)))
    spread = result(call, "expand_clone", grid, (base, box))
    return result(call, "col_expand_add", grid, (spread, columns))


def signed(call: BoundCall, numbers: Var) -> Var:
    """Indices as INT32."""
    old = numbers.tile
    if old.dtype is INT32:
        return numbers
    if old.dtype is INT64:
        type = TileType(old.shape, INT32, old.valid, old.space, old.tensor_level)
        return result(call, "cast", type, (numbers,), target_type=INT32, mode="rint")
    return _as(call, numbers, INT32)


def table(call: BoundCall, position: int) -> Var:
    """A tensor in device memory from which elements are picked by number: it is contiguous."""
    source = tensor_at(call, position)
    return view_of(call.builder, source, call.node_of(position)) if isinstance(source, Window) else source


def static_width(call: BoundCall, source: Var, position: int) -> int:
    """The last extent of a tensor."""
    width = source.type.shape[-1]
    if not isinstance(width, int):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: the last extent of {source.name!r} is only known at run time",
            call.node_of(position),
            "give it a constant in the annotation",
        )
    return width


def mgather(call: BoundCall) -> Value:
    """Rows or elements of device memory."""
    in_kernel(call)
    source, numbers = table(call, 0), signed(call, index_tile(call, 1))
    how = constant(call, "coalesce")
    if how not in ("row", "elem"):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: coalesce is {how!r}",
            call.node_named("coalesce"),
            "write coalesce='row' or coalesce='elem'",
        )
    limit: Expr = index(1)
    for extent in source.type.shape[:-1] if how == "row" else source.type.shape:
        limit = binary("mul", limit, of_dim(extent), INDEX)
    numbers = _bounded(call, numbers, limit)
    if how == "row":
        width = static_width(call, source, 0)
        numbers = rows_of(call, numbers, width, index(0), width, 1)
    old = numbers.tile
    valid = valid_shape(call, old.shape) if not absent(call.given("valid_shape")) else old.valid
    type = TileType(old.shape, source.type.dtype, valid)
    return result(call, "mgather", type, (source, numbers), coalesce="elem")


def _bounded(call: BoundCall, numbers: Var, limit: Expr) -> Var:
    policy = constant(call, "gather_oob")
    type = TileType(numbers.tile.shape, INT32, numbers.tile.valid)
    if policy in ("undefined", "zero"):
        return numbers
    if policy == "clamp":
        numbers = result(call, "maximums", type, (numbers, Const(0, INT32)))
        return result(call, "minimums", type, (numbers, binary("sub", limit, index(1), INDEX)))
    if policy == "wrap":
        return result(call, "rems", type, (numbers, limit))
    call.builder.fail(
        "value",
        f"{call.form.spelling}: gather_oob is {policy!r}",
        call.node_named("gather_oob"),
        "write 'undefined', 'zero', 'clamp' or 'wrap'",
    )


def paged_gather(call: BoundCall) -> Value:
    """Rows through a page table."""
    in_kernel(call)
    builder = call.builder
    source = table(call, 0)
    width = static_width(call, source, 0)
    numbers = tile_at(call, 1)
    pages = call.values[2]
    if isinstance(pages, Window) or (isinstance(pages, Var) and pages.is_tensor):
        pages = table(call, 2)
    else:
        builder.fail(
            "type",
            f"{call.form.spelling}: 'block_table' must be a tensor in device memory, got {describe(pages)}",
            call.node_of(2),
            "pass the table itself, not a loaded part of it",
        )
    block, size, rows = (scalars.integer(builder, call.values[at], call.node_of(at), "a size") for at in (3, 4, 5))
    shape_sizes = [item.value if isinstance(item, Const) else 0 for item in (block, size, rows)]
    if any(item <= 0 for item in shape_sizes):
        builder.fail(
            "value",
            f"{call.form.spelling}: block_size, size and max_indices are constants above 0",
            call.node,
            "on-chip values have static shapes",
        )
    each, wanted, count = map(int, shape_sizes)
    numbers = signed(call, numbers)
    have = numbers.tile.physical[0] * numbers.tile.physical[1]
    if have != count:
        builder.fail(
            "value",
            f"{call.form.spelling}: {have} indices, max_indices is {count}",
            call.node_of(1),
            "give as many indices as max_indices, and say how many are valid",
        )
    old = numbers.tile
    type = TileType(old.shape, INT32, old.valid)
    page = result(call, "divs", type, (numbers, Const(each, INT32)))
    inside = result(call, "fmods", type, (numbers, Const(each, INT32)))
    if pages.type.dtype is not INT32:
        builder.fail(
            "type", f"{call.form.spelling}: the table is INT32, got {pages.type.dtype}", call.node_of(2), "convert it"
        )
    found = result(call, "mgather", type, (pages, page), coalesce="elem")
    row = result(call, "add", type, (result(call, "muls", type, (found, Const(each, INT32))), inside))
    start = scalars.integer(builder, _plain(call.given("col_off")), call.node_named("col_off"), "'col_off'")
    elements = rows_of(call, row, width, start, wanted, 1)
    space = constant(call, "space")
    grid = elements.tile
    picked = TileType(grid.shape, source.type.dtype, grid.valid, space, True)
    value = result(call, "mgather", picked, (source, elements), coalesce="elem")
    return shape.swapped(call, value, 0, 1) if constant(call, "is_trans") else value


def _plain(value: Value) -> Value:
    return index(value) if isinstance(value, int) and not isinstance(value, bool) else value


RULES: dict[str, Rule] = {
    "gather": gather,
    "tile_gather": tile_gather,
    "gatherb": gatherb,
    "gather_mask": gather_mask,
    "gather_compare": gather_compare,
    "mgather": mgather,
    "paged_gather": paged_gather,
}
