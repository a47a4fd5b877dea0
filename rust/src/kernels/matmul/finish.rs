//! The end of a tile for every processor: accumulators in memory are added to, rounded and stored one by one.
#![allow(unsafe_code)] // writes matrices by address

use super::tile::{Finish, Out};
use half::{bf16, f16};

/// All NaN results have this one form. Which of several NaN operands an instruction passes on, and with which sign an
/// invalid operation answers, differs between instruction sets.
const NAN: f32 = f32::from_bits(0x7fc0_0000);

/// An accumulator: binary32 or a 32-bit integer.
pub(super) trait Acc: Copy + Default {
    /// One rounding, or wrapping around.
    fn plus(self, other: Self) -> Self;

    /// Stores as `out`.
    ///
    /// # Safety
    /// `c` is valid for a write of `out.size()` bytes.
    unsafe fn store(self, c: *mut u8, out: Out);
}

impl Acc for f32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    unsafe fn store(self, c: *mut u8, out: Out) {
        let value = if self.is_nan() { NAN } else { self };
        // SAFETY: the caller gives an address for an element of type `out`.
        unsafe {
            match out {
                Out::F16 => c.cast::<f16>().write_unaligned(f16::from_f32(value)),
                Out::Bf16 => c.cast::<bf16>().write_unaligned(bf16::from_f32(value)),
                Out::F32 | Out::I32 => c.cast::<f32>().write_unaligned(value),
            }
        }
    }
}

impl Acc for i32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    unsafe fn store(self, c: *mut u8, _: Out) {
        // SAFETY: the caller gives an address for an INT32.
        unsafe { c.cast::<i32>().write_unaligned(self) }
    }
}

/// Finishes `rows` of at most `NR` accumulators.
///
/// # Safety
/// The addresses of `finish` are valid for `rows.len()` rows and `cols` columns.
pub(super) unsafe fn finish<A: Acc, const NR: usize>(finish: &Finish, rows: &[[A; NR]], cols: usize) {
    let width = size_of::<A>();
    for (i, row) in rows.iter().enumerate() {
        for (j, &sum) in row[..cols].iter().enumerate() {
            let mut value = sum;
            // SAFETY: row i < rows and column j < cols are inside the three matrices.
            unsafe {
                if !finish.acc.is_null() {
                    let acc = finish.acc.offset(i as isize * finish.acc_row).add(j * width);
                    value = value.plus(acc.cast::<A>().read_unaligned());
                }
                if !finish.bias.is_null() {
                    value = value.plus(finish.bias.add(j * width).cast::<A>().read_unaligned());
                }
                value.store(finish.c.offset(i as isize * finish.c_row).add(j * finish.out.size()), finish.out);
            }
        }
    }
}
