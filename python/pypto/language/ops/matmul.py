"""Rows: matrix products."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_MATMUL = "lhs, rhs, out_dtype=None, a_trans=False, b_trans=False, c_matrix_nz=False"
row(
    "matmul",
    "Matrix product of equal dtypes, accumulated and returned in FP32 (INT32 for INT8); `out_dtype` does not narrow "
    "the value, a store does.",
    rule="matmul",
    core="matmul",
    pl=_MATMUL,
    tensor=_MATMUL,
    tile="lhs, rhs",
)
_ACC = "acc, lhs, rhs, a_trans=False, b_trans=False, init_cond=None"
row(
    "matmul_acc",
    "`acc + lhs @ rhs`; where `init_cond` is true, `lhs @ rhs`.",
    rule="matmul_acc",
    core="matmul_acc",
    pl=_ACC,
    tensor=_ACC,
    tile="acc, lhs, rhs, init_cond=None",
)
row("batch_matmul", "Products of a batch of matrices.", pl="lhs, rhs", tile="lhs, rhs")
row("batch_matmul_acc", "Products of a batch of matrices, added to an accumulator.", tile="acc, lhs, rhs")
row("matmul_bias", "`lhs @ rhs + bias`.", pl="lhs, rhs, bias", tile="lhs, rhs, bias")
for _name, _signature in (
    ("matmul_mx", "lhs, lhs_scale, rhs, rhs_scale"),
    ("matmul_mx_acc", "acc, lhs, lhs_scale, rhs, rhs_scale"),
    ("matmul_mx_bias", "lhs, lhs_scale, rhs, rhs_scale, bias"),
):
    row(_name, "Block-scaled matrix product.", pl=_signature, tile=_signature)
for _name, _signature in (("gemv", "lhs, rhs"), ("gemv_acc", "acc, lhs, rhs"), ("gemv_bias", "lhs, rhs, bias")):
    row(
        _name,
        "Product of a row with a matrix.",
        pl=_signature + ", acc_phase='unspecified'",
        tile=_signature + ", acc_phase='unspecified'",
    )
