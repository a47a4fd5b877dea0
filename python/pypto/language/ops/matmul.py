"""Rows: matrix products."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

_MATMUL = "lhs, rhs, out_dtype=None, a_trans=False, b_trans=False, c_matrix_nz=False"
row(
    "matmul",
    "Matrix product of equal dtypes, accumulated and returned in FP32 (INT32 for INT8); `out_dtype` does not narrow "
    "the value, a store does. Leading axes of tensors are a batch and broadcast as in numpy. Each element is one sum "
    "in ascending order, over the valid columns of `lhs` that are valid rows of `rhs`: of `k` products of floats it is "
    "off by at most `k + 1` roundings of FP32 of the sum of magnitudes, and exact of integers.",
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
row(
    "batch_matmul",
    "Products of a batch of matrices.",
    rule="matmul",
    core="matmul",
    pl="lhs, rhs",
    tile="lhs, rhs",
)
row(
    "batch_matmul_acc",
    "Products of a batch of matrices, added to an accumulator.",
    rule="matmul_acc",
    core="matmul_acc",
    tile="acc, lhs, rhs",
)
row(
    "matmul_bias",
    "`lhs @ rhs + bias`, with a bias `[1, N]` in the dtype of the accumulator.",
    rule="matmul_bias",
    core="matmul add",
    pl="lhs, rhs, bias",
    tile="lhs, rhs, bias",
)
for _name, _signature in (
    ("matmul_mx", "lhs, lhs_scale, rhs, rhs_scale"),
    ("matmul_mx_acc", "acc, lhs, lhs_scale, rhs, rhs_scale"),
    ("matmul_mx_bias", "lhs, lhs_scale, rhs, rhs_scale, bias"),
):
    row(
        _name,
        "Block-scaled matrix product.",
        lacks="block-scaled FP8 and FP4 matrix products",
        pl=_signature,
        tile=_signature,
    )
for _name, _signature, _rule, _core in (
    ("gemv", "lhs, rhs", "matmul", "matmul"),
    ("gemv_acc", "acc, lhs, rhs", "matmul_acc", "matmul_acc"),
    ("gemv_bias", "lhs, rhs, bias", "matmul_bias", "matmul add"),
):
    row(
        _name,
        f"`{_rule}` of a row `[1, K]` with a matrix; `acc_phase` is a hint.",
        rule=_rule,
        core=_core,
        pl=_signature + ", acc_phase='unspecified'",
        tile=_signature + ", acc_phase='unspecified'",
    )
