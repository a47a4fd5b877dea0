"""Rules: matrix products."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pypto.frontend import scalars, validity, views
from pypto.frontend.rules import pieces, shape
from pypto.frontend.rules.base import Rule, absent, constant, in_kernel, result, tile_at
from pypto.frontend.rules.levels import tensor_keyword
from pypto.frontend.values import Value, Window
from pypto.ir.exprs import Dim, Expr, index
from pypto.ir.nodes import Var
from pypto.ir.types import TileType
from pypto.language.dtypes import FP32, INT8, INT32, DataType
from pypto.language.enums import MemorySpace

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def matmul(call: BoundCall) -> Value:
    """`lhs @ rhs`."""
    in_kernel(call)
    _keywords(call, call.values[0])
    return _products(call, None, _operand(call, 0, "a_trans"), _operand(call, 1, "b_trans"), ())


def matmul_acc(call: BoundCall) -> Value:
    """`acc + lhs @ rhs`, or `lhs @ rhs` where `init_cond` holds."""
    in_kernel(call)
    _keywords(call, call.values[1])
    acc = tile_at(call, 0)
    a, b = _operand(call, 1, "a_trans"), _operand(call, 2, "b_trans")
    condition = call.given("init_cond")
    if absent(condition):
        return _products(call, acc, a, b, ())
    value = scalars.truth(call.builder, condition, call.node_named("init_cond"), "init_cond")
    return _products(call, acc, a, b, (value,))


def matmul_bias(call: BoundCall) -> Value:
    """`lhs @ rhs + bias`."""
    in_kernel(call)
    product = _products(call, None, tile_at(call, 0), tile_at(call, 1), ())
    bias = tile_at(call, 2)
    type = product.tile
    if bias.tile.physical != (1, type.shape[-1]) or bias.type.dtype is not type.dtype:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the bias of {list(type.shape)} {type.dtype} is [1, {type.shape[-1]}] {type.dtype}, "
            f"got {list(bias.tile.shape)} {bias.type.dtype}",
            call.node_of(2),
            f"convert it: pl.cast(bias, pl.{type.dtype})",
        )
    return result(call, "col_expand_add", type, (product, bias))


def _keywords(call: BoundCall, value: Value) -> None:
    hint = "transpose the tile: pl.tile.transpose_view(t)"
    for name in ("a_trans", "b_trans"):
        tensor_keyword(call, value, name, False, hint)
    tensor_keyword(call, value, "out_dtype", None, "leave it out: the product is FP32 (INT32 of INT8), a store narrows")
    tensor_keyword(call, value, "c_matrix_nz", False, "leave it out")


def _operand(call: BoundCall, position: int, keyword: str) -> Var:
    """An operand; device memory that is to be transposed is read through a transposed view."""
    value = call.values[position]
    if not constant(call, keyword):
        return tile_at(call, position)
    if isinstance(value, Var) and value.is_tensor:
        value = views.whole(value)
    if isinstance(value, Window) and len(value.keep) == 2:
        return views.load_window(call.builder, value, call.node_of(position), transposed=True)
    tile = tile_at(call, position)
    rank = len(tile.tile.shape)
    if rank < 2:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: {keyword} of a value of one axis",
            call.node_of(position),
            "give it two axes: pl.reshape(x, [1, n])",
        )
    return shape.swapped(call, tile, rank - 2, rank - 1)


def _products(call: BoundCall, acc: Var | None, a: Var, b: Var, condition: tuple[Expr, ...]) -> Var:
    """One product, or one for each matrix of a batch."""
    if pieces.is_batch(b.tile):  # of a batch on the left alone the rows are those of one product
        a, b = (pieces.unmerged(call.builder, operand, call.node) for operand in (a, b))
        acc = None if acc is None else pieces.unmerged(call.builder, acc, call.node)
    left, right = _matrix(a.tile.shape), _matrix(b.tile.shape)
    if all(extent == 1 for extent in right[:-2]):
        # The rows of a batch on the left are rows of one product.
        missing = (1,) * (len(right) - len(left))
        return _one(call, acc, a, b, condition, missing + left[:-1], missing + _matrix(a.tile.valid)[:-1])
    batch = _broadcast(call, left[:-2], right[:-2])
    builder, node = call.builder, call.node
    whole = (*batch, left[-2], right[-1])
    dtype = _accumulator(call, a.type.dtype)
    joined = acc
    if joined is None:
        joined = builder.op(
            "create_tile", TileType(whole, dtype, whole, MemorySpace.Acc, a.tile.tensor_level), (), node
        )
    _require_accumulator(call, joined, whole, dtype)
    for at in itertools.product(*map(range, batch)):
        offsets = (*map(index, at), index(0), index(0))
        box = ((1,) * len(batch)) + whole[-2:]
        part = None if acc is None else _plane(call, joined, offsets, box)
        one = _pick(call, a, at)
        product = _one(call, part, one, _pick(call, b, at), condition, (left[-2],), one.tile.valid[:1])
        joined = pieces.put(builder, joined, product, offsets, node)
    valid = (*_batch_valid(call, a.tile, b.tile, batch), _matrix(a.tile.valid)[-2], b.tile.valid[-1])
    return pieces.retyped(builder, joined, replace(joined.tile, valid=valid), node)


def _batch_valid(call: BoundCall, a: TileType, b: TileType, batch: tuple[int, ...]) -> tuple[Dim, ...]:
    """Of a batch the matrices that both operands have; one matrix serves all of them."""
    valid: list[Dim] = list(batch)
    for operand in (a, b):
        parts = list(zip(operand.shape[:-2], operand.valid[:-2], strict=True))
        for axis, (extent, part) in enumerate(parts, len(batch) - len(parts)):
            if extent != 1:
                valid[axis] = validity.smaller(call.builder, valid[axis], part, call.node)
    return tuple(valid)


def _matrix(extents: tuple[Any, ...]) -> tuple[Any, ...]:
    return extents if len(extents) > 1 else (1, *extents)


def _broadcast(call: BoundCall, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Leading axes of both operands together, as numpy broadcasts them."""

    def extents() -> Iterator[int]:
        for x, y in itertools.zip_longest(reversed(left), reversed(right), fillvalue=1):
            if x != y and 1 not in (x, y):
                call.builder.fail(
                    "type",
                    f"{call.form.spelling}: batches {list(left)} and {list(right)} do not broadcast",
                    call.node,
                    "leading extents are equal, or 1",
                )
            yield max(x, y)

    return tuple(reversed(list(extents())))


def _pick(call: BoundCall, tile: Var, at: tuple[int, ...]) -> Var:
    """The matrix of an operand that belongs to one place of the batch."""
    extents = tile.tile.shape
    own = at[len(at) - (len(extents) - 2) :]
    offsets = tuple(index(0 if extent == 1 else place) for place, extent in zip(own, extents, strict=False))
    return _plane(call, tile, (*offsets, index(0), index(0)), ((1,) * len(own)) + extents[-2:])


def _plane(call: BoundCall, tile: Var, offsets: tuple[Expr, ...], box: tuple[int, ...]) -> Var:
    rank = len(box)
    keep = tuple(range(rank)) if not tile.tile.tensor_level else (rank - 2, rank - 1)
    part = pieces.part_of(call.builder, tile, offsets, box, box, keep, call.node)
    # A matrix beyond the valid ones is multiplied, too: what comes of it is not valid either.
    flat = TileType(box[-2:], part.type.dtype, tile.tile.valid[-2:], part.tile.space, part.tile.tensor_level)
    return pieces.retyped(call.builder, part, flat, call.node)


def _one(
    call: BoundCall,
    acc: Var | None,
    a: Var,
    b: Var,
    condition: tuple[Expr, ...],
    leading: tuple[int, ...],
    valid: tuple[Dim, ...],
) -> Var:
    """One product; `leading` are the rows of the result (of a batch more axes), `valid` what is valid of them."""
    type = _product(call, a, b, leading, valid)
    if acc is None:
        return result(call, "matmul", type, (a, b))
    _require_accumulator(call, acc, type.shape, type.dtype)
    return result(call, "matmul_acc", type, (acc, a, b, *condition))


def _require_accumulator(call: BoundCall, acc: Var, wanted: tuple[int, ...], dtype: DataType) -> None:
    if acc.tile.physical != TileType(wanted, dtype, wanted).physical:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the accumulator has shape {list(acc.tile.shape)}, the product {list(wanted)}",
            call.node_of(0),
            f"make it with pl.full({list(wanted)}, pl.{dtype}, {0.0 if dtype.is_float else 0})",
        )
    if acc.type.dtype is not dtype:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the accumulator is {acc.type.dtype}, the product {dtype}",
            call.node_of(0),
            f"convert it: pl.cast({ast.unparse(call.node_of(0))}, pl.{dtype})",
        )


def _product(call: BoundCall, a: Var, b: Var, leading: tuple[int, ...], valid: tuple[Dim, ...]) -> TileType:
    left, right = a.tile, b.tile
    if left.dtype is not right.dtype:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the operands have different dtypes: {left.dtype} and {right.dtype}",
            call.node,
            f"convert one: pl.cast(x, pl.{left.dtype.name})",
        )
    (_, inner), (inner_b, cols) = left.physical, right.physical
    if inner != inner_b:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the inner extents differ: {list(left.shape)} @ {list(right.shape)}",
            call.node,
            "if the right operand is stored as [N, K], say b_trans=True"
            if inner == cols
            else "the columns of the left operand are the rows of the right one",
        )
    space, level = MemorySpace.Acc, left.tensor_level
    return TileType((*leading, cols), _accumulator(call, left.dtype), (*valid, right.valid[-1]), space, level)


def _accumulator(call: BoundCall, dtype: DataType) -> DataType:
    if dtype.is_float:
        return FP32
    if dtype is INT8:
        return INT32
    call.builder.fail(
        "type",
        f"{call.form.spelling} takes FP16, BF16, FP32 or INT8, got {dtype}",
        call.node,
        "convert both operands first: pl.cast(x, pl.FP32)",
    )


RULES: dict[str, Rule] = {"matmul": matmul, "matmul_acc": matmul_acc, "matmul_bias": matmul_bias}
