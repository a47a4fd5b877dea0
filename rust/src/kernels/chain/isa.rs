//! The interpreter instantiated for each instruction set.

use super::calls::{self, CALLS, CallFn, Calls};
use super::code::Op;
use super::compile::{RowOp, Tables};
use super::loops::LoopFn;
use super::{interpret, loops, row};
use crate::kernels::Isa;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::{Avx2, Avx512};
use crate::kernels::simd::{Generic, Simd as _};

/// Runs the code for a row; see [`interpret::pass`].
pub(super) type Pass = unsafe fn(code: *const Op, tables: &Tables, frame: *mut u8, plan: &Plan);

/// Everything that depends on the instruction set.
pub(super) struct Kernels {
    /// Columns of one vector, as a base 2 logarithm.
    lanes: u32,
    /// Vectors in the smallest whole chunk, as a base 2 logarithm.
    smallest: u32,
    /// The same of the largest that stays in registers.
    roomy: u32,
    /// Run whole chunks of 1, 2, 4 and 8 vectors; the smaller ones serve rows that are as short.
    whole: [Pass; 4],
    /// Run what is left of a row in one chunk of 1, 2, 4 or 8 vectors.
    tail: [Pass; 4],
}

macro_rules! kernels {
    ($isa:ident, $simd:ident, $smallest:literal, $tail:expr, $roomy:expr $(, $features:literal)?) => {
        mod $isa {
            use super::*;

            $(#[target_feature(enable = $features)])?
            unsafe fn whole<const N: usize>(code: *const Op, tables: &Tables, frame: *mut u8, plan: &Plan) {
                // SAFETY: passed on to the caller.
                unsafe { interpret::pass::<$simd, N, false>(code, tables, frame, plan) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn tail<const N: usize>(code: *const Op, tables: &Tables, frame: *mut u8, plan: &Plan) {
                // SAFETY: passed on to the caller.
                unsafe { interpret::pass::<$simd, N, true>(code, tables, frame, plan) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn row_op(op: &RowOp, frame: *mut u8) {
                // SAFETY: passed on to the caller.
                unsafe { row::row::<$simd>(op, frame) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn call<const F: usize>(a: *mut u8, b: *const u8, vectors: usize) {
                // SAFETY: passed on to the caller.
                unsafe { calls::run::<$simd>(CALLS[F], a, b, vectors) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn looped<const L: usize>(ops: *const Op, frame: *mut u8, to: usize, pace: usize) {
                // SAFETY: passed on to the caller.
                unsafe { loops::run::<$simd>(L, ops, frame, to, pace) }
            }

            impl Calls for $simd {
                const TABLE: [CallFn; CALLS.len()] = [
                    call::<0>, call::<1>, call::<2>, call::<3>, call::<4>, call::<5>, call::<6>, call::<7>,
                    call::<8>, call::<9>, call::<10>, call::<11>, call::<12>, call::<13>, call::<14>, call::<15>,
                    call::<16>, call::<17>, call::<18>, call::<19>, call::<20>, call::<21>, call::<22>,
                ];
                const LOOPS: [LoopFn; loops::COUNT] = [
                    looped::<0>, looped::<1>, looped::<2>, looped::<3>, looped::<4>, looped::<5>, looped::<6>,
                    looped::<7>, looped::<8>, looped::<9>, looped::<10>, looped::<11>, looped::<12>, looped::<13>,
                ];
                const ROW: unsafe fn(op: &RowOp, frame: *mut u8) = row_op;
            }

            /// Vectors of the chunk at each place in the tables; the first ones repeat where the smallest is larger.
            const fn vectors(place: u32, smallest: u32) -> usize {
                if smallest > place { 1 << smallest } else { 1 << place }
            }

            pub static KERNELS: Kernels = Kernels {
                lanes: $simd::LANES.trailing_zeros(),
                smallest: $smallest,
                roomy: $roomy,
                whole: [
                    whole::<{ vectors(0, $smallest) }>,
                    whole::<{ vectors(1, $smallest) }>,
                    whole::<{ vectors(2, $smallest) }>,
                    whole::<{ vectors(3, $smallest) }>,
                ],
                tail: [
                    tail::<{ vectors(0, $tail) }>,
                    tail::<{ vectors(1, $tail) }>,
                    tail::<{ vectors(2, $tail) }>,
                    tail::<{ vectors(3, $tail) }>,
                ],
            };
        }
    };
}

/// Eight vectors in the largest chunk, as a base 2 logarithm: 4 lose half to dispatch, 16 spill and take three times as long.
const LARGEST: u32 = 3;

#[cfg(target_arch = "x86_64")]
kernels!(avx512, Avx512, 0, 0, LARGEST, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
kernels!(avx2, Avx2, 0, 0, LARGEST, "avx2,fma,f16c");
// Few sizes, since they are long to compile and seldom run. Eight of its vectors are all registers of the processor: eight
// operations took 30 ns for 64 columns in such chunks, 23 in those of four.
kernels!(generic, Generic, 2, LARGEST, 2);

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

    /// How to pass over rows of `cols` columns: whole chunks up to a column, then the tail. `any_chunk`: whether chunks may be
    /// smaller than the largest.
    pub fn plan(&self, cols: usize, streams: bool, any_chunk: bool) -> Plan {
        // Shifts and masks: divisions would be a third of the time of the smallest runs.
        let largest = self.lanes + if any_chunk { self.roomy } else { LARGEST };
        let size = if cols.is_power_of_two() {
            cols.trailing_zeros().clamp(self.lanes + self.smallest, largest)
        } else {
            largest
        };
        let split = cols >> size << size;
        let rest = (cols - split + (1 << self.lanes) - 1) >> self.lanes;
        Plan {
            whole: self.whole[(size - self.lanes) as usize],
            split,
            tail: self.tail[rest.next_power_of_two().trailing_zeros() as usize],
            cols,
            streams,
        }
    }
}

/// How to pass over a row.
pub(super) struct Plan {
    /// For the columns before `split`, if there are any.
    pub whole: Pass,
    pub split: usize,
    /// For the columns from `split` on, if there are any.
    pub tail: Pass,
    pub cols: usize,
    /// Whether results go past the caches.
    pub streams: bool,
}
