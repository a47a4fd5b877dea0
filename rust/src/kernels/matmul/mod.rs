//! Matrix products.
//!
//! One meaning on every instruction set, bit for bit: an element of the result is one sum in ascending `k`, starting
//! from 0, of exact products with one rounding to binary32 per step (`s = fma(a, b, s)`); then `acc` is added, then `bias`,
//! with one rounding each; then the result is rounded once to its type, to nearest even. Every NaN result is the canonical quiet
//! NaN. INT8 products are summed in INT32 and wrap around. How a product is blocked, split over cores, or whether its
//! right operand was packed before never shows in a result.
//!
//! A [`MatMul`] is made when a program is registered. `driver` cuts a product into tiles for the micro-kernels of the
//! instruction set (`generic`, `avx2`, `avx512*`), which work on operands in place or packed (`pack`); `tile` is the
//! contract between them.
#![allow(unsafe_code)] // its functions work on matrices by address

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_dot;
#[cfg(target_arch = "x86_64")]
mod avx512_stream;
mod driver;
mod emulated;
mod finish;
mod generic;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pack_avx512;
mod panels;
mod spec;
mod tile;
#[cfg(target_arch = "x86_64")]
pub(in crate::kernels) mod transpose_avx512;
mod way;

#[cfg(test)]
mod tests;

pub use spec::{MatMulArgs, MatMulSpec, MatMut, MatRef, PackedRef, Rhs};

use super::isa::Isa;
use crate::dtype::DType;
use tile::{Kernels, Out};

/// A kind of product, resolved for one instruction set.
#[derive(Clone, Copy)]
pub struct MatMul {
    spec: MatMulSpec,
    out: Out,
    kernels: &'static Kernels,
}

impl MatMul {
    /// Resolves `spec` for `isa`; `None` where the types cannot be combined.
    pub fn new(spec: MatMulSpec, isa: Isa) -> Option<MatMul> {
        let out = Out::new(spec.out)?;
        if (spec.dtype == DType::I8) != (out == Out::I32) {
            return None;
        }
        let kernels = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::kernels(spec.dtype)?,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::kernels(spec.dtype)?,
            _ => generic::kernels(spec.dtype)?,
        };
        Some(MatMul { spec, out, kernels })
    }

    /// What is multiplied.
    pub fn spec(&self) -> MatMulSpec {
        self.spec
    }

    /// Columns that are computed together: a split of `n` over cores costs least at multiples of it, and columns of a packed operand
    /// must be split there.
    pub fn n_step(&self) -> usize {
        self.kernels.packed.nr
    }

    /// Rows that are computed together: a split of `m` over cores costs least at multiples of it.
    pub fn m_step(&self) -> usize {
        self.kernels.packed.rows
    }

    /// Scratch for one product of these extents or smaller ones, in bytes. Grows with `m` only up to a block of rows, and
    /// not with `n`: columns are worked on panel by panel.
    pub fn scratch_bytes(&self, m: usize, _n: usize, k: usize) -> usize {
        way::scratch_bytes(self.kernels, m, k)
    }

    /// Computes one product.
    ///
    /// # Safety
    /// The addresses in `args` are valid for the extents, `scratch` for [`MatMul::scratch_bytes`] bytes aligned to 64, and a packed
    /// operand was made by a `MatMul` of the same operand types and instruction set and [`MatMul::can_use`] accepts the part. `c` overlaps
    /// neither `a` nor `b`; it overlaps `acc` only if both are the same matrix.
    pub unsafe fn run(&self, args: &MatMulArgs) {
        // SAFETY: the caller's promise.
        unsafe { driver::run(self, args) }
    }

    /// Bytes of the packed form of a right operand `[k, n]`.
    pub fn packed_bytes(&self, k: usize, n: usize) -> usize {
        n.div_ceil(self.kernels.packed.nr) * self.kernels.packed.panel_bytes(k)
    }

    /// Whether a product over `k` can use this part of a packed operand. Columns must begin at a panel; a part of `k` must
    /// begin and end where groups of `k` do, and there is none for a form that carries sums over all `k` (INT8 for dot
    /// instructions, whose operand has an offset).
    pub fn can_use(&self, part: &PackedRef, k: usize) -> bool {
        let packed = &self.kernels.packed;
        let whole = part.k_start == 0 && k == part.k_total;
        let end = part.k_start + k;
        let sums = packed.header > 0 && packed.exact.is_none();
        let groups =
            part.k_start.is_multiple_of(packed.k_group) && (end == part.k_total || end.is_multiple_of(packed.k_group));
        part.n_start.is_multiple_of(packed.nr) && end <= part.k_total && (whole || (groups && !sums))
    }

    /// Packs a right operand, so that products with it need not.
    ///
    /// # Safety
    /// `b` is valid for `[k, n]` (`[n, k]` with `b_trans`), `dst` for [`MatMul::packed_bytes`] bytes aligned to 64; they do not overlap.
    pub unsafe fn pack_b(&self, b: MatRef, k: usize, n: usize, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { panels::pack_all(self, b, k, n, dst) }
    }
}
