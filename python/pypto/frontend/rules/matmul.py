"""Rules: matrix products."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pypto.frontend import scalars, views
from pypto.frontend.rules.base import Rule, constant, in_kernel, reject_keyword, result, tile_at, to_dtype
from pypto.frontend.values import PyValue, Value, Window, describe
from pypto.ir.exprs import Dim, index, same
from pypto.ir.nodes import Var
from pypto.ir.types import TensorType, TileType
from pypto.language.dtypes import FP32, INT8, INT32, DataType
from pypto.language.enums import MemorySpace

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def matmul(call: BoundCall) -> Value:
    """`lhs @ rhs`."""
    in_kernel(call)
    reject_keyword(call, "c_matrix_nz", False)
    a, b = _operand(call, 0, "a_trans"), _operand(call, 1, "b_trans")
    return result(call, "matmul", _product(call, a, b), (a, b))


def matmul_acc(call: BoundCall) -> Value:
    """`acc + lhs @ rhs`, or `lhs @ rhs` where `init_cond` holds."""
    in_kernel(call)
    acc = tile_at(call, 0)
    a, b = _operand(call, 1, "a_trans"), _operand(call, 2, "b_trans")
    type = _product(call, a, b)
    if acc.tile.physical != type.physical:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the accumulator has shape {list(acc.tile.shape)}, the product {list(type.shape)}",
            call.node_of(0),
        )
    if acc.type.dtype is not type.dtype:
        acc = to_dtype(call.builder, acc, type.dtype, call.node_of(0))
    condition = call.given("init_cond")
    if condition is None or (isinstance(condition, PyValue) and condition.obj is None):
        return result(call, "matmul_acc", type, (acc, a, b))
    value = scalars.truth(call.builder, condition, call.node_named("init_cond"), "init_cond")
    return result(call, "matmul_acc", type, (acc, a, b, value))


def _operand(call: BoundCall, position: int, keyword: str) -> Var:
    """An operand; device memory that is to be transposed is read through a transposed view."""
    value = call.values[position]
    if not constant(call, keyword):
        return tile_at(call, position)
    if isinstance(value, Var) and isinstance(value.type, TensorType):
        shape = value.type.shape
        value = Window(value, tuple(index(0) for _ in shape), shape, shape, tuple(range(len(shape))))
    if not isinstance(value, Window) or len(value.keep) != 2:
        call.builder.fail(
            "unsupported",
            f"{call.form.spelling}({keyword}=True) of {describe(value)} is not supported yet",
            call.node_named(keyword),
            "give it the slice of device memory itself: pl.matmul(a, w[0:128, 0:64], b_trans=True)",
        )
    return _load_transposed(call, value, call.node_of(position))


def _load_transposed(call: BoundCall, window: Window, node: ast.AST) -> Var:
    builder = call.builder
    view = views.view_of(builder, window, node)
    rows, cols = view.tensor.shape
    flipped = builder.op(
        "transpose", TensorType((cols, rows), view.type.dtype), (view,), node, {"axes": (0, 1)}, view.name
    )
    return views.load_whole(builder, flipped, node)


def _product(call: BoundCall, a: Var, b: Var) -> TileType:
    left, right = a.tile, b.tile
    if left.dtype is not right.dtype:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the operands have different dtypes: {left.dtype} and {right.dtype}",
            call.node,
            f"convert one: pl.cast(x, pl.{left.dtype.name})",
        )
    if len(left.shape) > 2 and left.shape[:-2] != (1,) * (len(left.shape) - 2):
        call.builder.fail("unsupported", f"{call.form.spelling} of a batch of matrices is not supported yet", call.node)
    (rows, inner), (inner_b, cols) = left.physical, right.physical
    if inner != inner_b:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the inner extents differ: {list(left.shape)} @ {list(right.shape)}",
            call.node,
            "if the right operand is stored as [N, K], say b_trans=True" if inner == cols else "",
        )
    k_left, k_right = left.valid[-1], right.valid[-2] if len(right.valid) > 1 else 1
    if isinstance(k_left, int) and isinstance(k_right, int) and not same(k_left, k_right) and k_right < k_left:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {k_left} valid columns on the left, {k_right} valid rows on the right",
            call.node,
        )
    valid: tuple[Dim, ...] = (left.valid[-2] if len(left.valid) > 1 else 1, right.valid[-1])
    return TileType((rows, cols), _accumulator(call, left.dtype), valid, MemorySpace.Acc, left.tensor_level)


def _accumulator(call: BoundCall, dtype: DataType) -> DataType:
    if dtype.is_float:
        return FP32
    if dtype is INT8:
        return INT32
    call.builder.fail("type", f"{call.form.spelling} takes FP16, BF16, FP32 or INT8, got {dtype}", call.node)


RULES: dict[str, Rule] = {"matmul": matmul, "matmul_acc": matmul_acc}
