//! The interpreter instantiated for each instruction set.

use super::code::Op;
use super::compile::RowOp;
use super::interpret;
use crate::kernels::Isa;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::{Avx2, Avx512};
use crate::kernels::simd::{Generic, Simd};

/// Runs a pass over the columns `from..to`; see [`interpret::pass`].
pub(super) type Pass = unsafe fn(code: *const Op, frame: *mut u8, from: usize, to: usize);

/// Everything that depends on the instruction set.
pub(super) struct Kernels {
    /// Columns of a whole chunk.
    pub chunk: usize,
    /// Columns of one vector.
    pub lanes: usize,
    /// Runs whole chunks.
    pub whole: Pass,
    /// Run what is left of a row in a chunk of 1, 2, 4 and 8 vectors, so that short rows do not pay for empty ones.
    pub tails: [Pass; 4],
    /// Runs instructions on row scalars.
    pub rows: unsafe fn(ops: &[RowOp], frame: *mut u8),
}

macro_rules! kernels {
    ($isa:ident, $simd:ident, $vectors:literal, tails($($tail:literal),*) $(, $features:literal)?) => {
        mod $isa {
            use super::*;

            $(#[target_feature(enable = $features)])?
            unsafe fn whole(code: *const Op, frame: *mut u8, from: usize, to: usize) {
                // SAFETY: passed on to the caller.
                unsafe { interpret::pass::<$simd, $vectors, false>(code, frame, from, to) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn tail<const N: usize>(code: *const Op, frame: *mut u8, from: usize, to: usize) {
                // SAFETY: passed on to the caller.
                unsafe { interpret::pass::<$simd, N, true>(code, frame, from, to) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn rows(ops: &[RowOp], frame: *mut u8) {
                // SAFETY: passed on to the caller.
                unsafe { interpret::rows::<$simd>(ops, frame) }
            }

            pub static KERNELS: Kernels = Kernels {
                chunk: $vectors * $simd::LANES,
                lanes: $simd::LANES,
                whole,
                tails: [$(tail::<$tail>),*],
                rows,
            };
        }
    };
}

// Eight registers: 4 lose to dispatch, 16 spill. Two thirds of what is measured at 8 is lost at 16.
#[cfg(target_arch = "x86_64")]
kernels!(avx512, Avx512, 8, tails(1, 2, 4, 8), "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
kernels!(avx2, Avx2, 8, tails(1, 2, 4, 8), "avx2,fma,f16c");
// Its vectors have 16 lanes: the chunk is that of AVX2.
kernels!(generic, Generic, 4, tails(1, 2, 4, 4));

impl Kernels {
    pub fn of(isa: Isa) -> &'static Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => &avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => &avx2::KERNELS,
            _ => &generic::KERNELS,
        }
    }

    /// The pass for the last `cols` columns of a row, `0 < cols < chunk`.
    pub fn tail(&self, cols: usize) -> Pass {
        self.tails[cols.div_ceil(self.lanes).next_power_of_two().trailing_zeros() as usize]
    }
}
