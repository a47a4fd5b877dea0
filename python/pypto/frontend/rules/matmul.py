"""Rules: matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend import scalars, views
from pypto.frontend.rules.base import Rule, constant, in_kernel, reject_keyword, result, tile_at, to_dtype
from pypto.frontend.values import PyValue, Value, Window, describe
from pypto.ir.exprs import Dim, same
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
            f"make it with pl.full({list(type.shape)}, pl.{type.dtype}, 0.0)",
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
    return load_transposed(call, value, position) if constant(call, keyword) else tile_at(call, position)


def load_transposed(call: BoundCall, value: Value, position: int) -> Var:
    """Device memory with its two axes swapped, as an on-chip value."""
    builder = call.builder
    if isinstance(value, Var) and isinstance(value.type, TensorType):
        value = views.whole(value)
    if not isinstance(value, Window) or len(value.keep) != 2:
        builder.fail(
            "unsupported",
            f"{call.form.spelling}: a transposed {describe(value)} is not supported yet",
            call.node_of(position),
            "transpose device memory instead, where it is loaded: pl.matmul(a, w[0:128, 0:64], b_trans=True)",
        )
    return views.load_window(builder, value, call.node_of(position), transposed=True)


def transpose_view(call: BoundCall) -> Value:
    """The last two axes swapped."""
    in_kernel(call)
    return load_transposed(call, call.values[0], 0)


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
        call.builder.fail(
            "unsupported",
            f"{call.form.spelling} of a batch of matrices is not supported yet",
            call.node,
            "loop over the batch and multiply matrix by matrix",
        )
    (rows, inner), (inner_b, cols) = left.physical, right.physical
    if inner != inner_b:
        call.builder.fail(
            "type",
            f"{call.form.spelling}: the inner extents differ: {list(left.shape)} @ {list(right.shape)}",
            call.node,
            "if the right operand is stored as [N, K], say b_trans=True"
            if inner == cols
            else "the columns of the left operand are the rows of the right one",
        )
    k_left, k_right = left.valid[-1], right.valid[-2] if len(right.valid) > 1 else 1
    if isinstance(k_left, int) and isinstance(k_right, int) and not same(k_left, k_right) and k_right < k_left:
        call.builder.fail(
            "value",
            f"{call.form.spelling}: {k_left} valid columns on the left, {k_right} valid rows on the right",
            call.node,
            "make the inner valid extents equal, with pl.set_validshape or pl.fillpad",
        )
    valid: tuple[Dim, ...] = (left.valid[-2] if len(left.valid) > 1 else 1, right.valid[-1])
    return TileType((rows, cols), _accumulator(call, left.dtype), valid, MemorySpace.Acc, left.tensor_level)


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


RULES: dict[str, Rule] = {"matmul": matmul, "matmul_acc": matmul_acc, "transpose_view": transpose_view}
