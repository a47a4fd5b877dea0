//! What a product is: element types, transposes, addresses.

use crate::dtype::DType;

/// What is multiplied and what comes out; known when a program is registered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatMulSpec {
    /// Element type of both operands: FP32, FP16, BF16 or INT8.
    pub dtype: DType,
    /// The left operand lies in memory as `[k, m]` instead of `[m, k]`.
    pub a_trans: bool,
    /// The right operand lies in memory as `[n, k]` instead of `[k, n]`.
    pub b_trans: bool,
    /// Element type of the result: FP32, FP16 or BF16 for floating-point operands, INT32 for INT8.
    pub out: DType,
}

/// Where a matrix begins and how far its rows are apart. Elements of a row are adjacent.
#[derive(Clone, Copy, Debug)]
pub struct MatRef {
    /// First element.
    pub data: *const u8,
    /// Bytes from one row to the next; may be 0 or negative.
    pub row_stride: isize,
}

/// A matrix that is written; otherwise as [`MatRef`].
#[derive(Clone, Copy, Debug)]
pub struct MatMut {
    /// First element.
    pub data: *mut u8,
    /// Bytes from one row to the next.
    pub row_stride: isize,
}

/// The right operand of one product.
#[derive(Clone, Copy, Debug)]
pub enum Rhs {
    /// As it lies in memory: `[k, n]`, or `[n, k]` with `b_trans`.
    Plain(MatRef),
    /// A part of what [`super::MatMul::pack_b`] wrote, one that [`super::MatMul::can_use`] accepts.
    Packed(PackedRef),
}

/// A part of a packed right operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedRef {
    /// First byte of the whole packed operand.
    pub data: *const u8,
    /// The `k` that it was packed with.
    pub k_total: usize,
    /// First `k` used.
    pub k_start: usize,
    /// First column used. The packed operand may have more columns than the product.
    pub n_start: usize,
}

/// One product: `c[m, n] = round(sum over k of a * b, + acc, + bias)`.
#[derive(Clone, Copy, Debug)]
pub struct MatMulArgs {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of each sum; 0 is an empty sum.
    pub k: usize,
    /// Left operand, `[m, k]` or with `a_trans` `[k, m]`.
    pub a: MatRef,
    /// Right operand.
    pub b: Rhs,
    /// Result.
    pub c: MatMut,
    /// `[m, n]` accumulators (FP32, or INT32 for INT8) that are added to the sums. May be `c` itself.
    pub acc: Option<MatRef>,
    /// `n` accumulators, adjacent, that are added to every row, after `acc`.
    pub bias: Option<*const u8>,
    /// [`super::MatMul::scratch_bytes`] bytes, 64-byte aligned.
    pub scratch: *mut u8,
}
