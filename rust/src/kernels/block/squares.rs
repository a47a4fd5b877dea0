//! Transposes, square by square through registers.
//!
//! A square has as many rows and columns as elements fit a cache line, or a few more, so that what is read and written are
//! whole lines: rows of a matrix often lie a multiple of 4 KiB apart, and then 16 of them do not fit a set of the first-level
//! cache, so that a line of which a part was used would be fetched again.

use super::mat::Mat;
use std::ops::Range;

/// How squares of elements of this type are transposed.
pub(super) trait Squares<T> {
    /// Rows and columns of a square.
    const SIDE: usize;

    /// Transposes the square at `x`, whose rows are `x_row` bytes apart, to `out`.
    ///
    /// # Safety
    /// Both squares exist and are apart, and the processor has the instruction set.
    unsafe fn square(out: *mut u8, out_row: isize, x: *const u8, x_row: isize);
}

/// `out[row, col] = x[col, row]`, for `rows x cols` elements of `out`.
///
/// # Safety
/// All of them exist, and the processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn transpose<T: Copy, S: Squares<T>>(out: &Mat, x: &Mat, rows: usize, cols: usize) {
    let (whole_rows, whole_cols) = (rows - rows % S::SIDE, cols - cols % S::SIDE);
    // SAFETY: the caller's promise.
    unsafe {
        // Along the rows of the argument first: its lines come in the order in which the prefetcher expects them.
        for col in (0..whole_cols).step_by(S::SIDE) {
            for row in (0..whole_rows).step_by(S::SIDE) {
                S::square(out.at(row, col), out.row, x.at(col, row), x.row);
            }
            rest::<T>(out, x, whole_rows..rows, col..col + S::SIDE);
        }
        rest::<T>(out, x, 0..rows, whole_cols..cols);
    }
}

#[inline(always)]
unsafe fn rest<T: Copy>(out: &Mat, x: &Mat, rows: Range<usize>, cols: Range<usize>) {
    for row in rows {
        for col in cols.clone() {
            // SAFETY: as in `transpose`.
            unsafe { out.set(row, col, x.get::<T>(col, row)) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use super::squares_x86::{Avx2, Avx512};

/// What every processor has.
pub(super) struct Plain;

impl<T: Copy + Default> Squares<T> for Plain {
    const SIDE: usize = 16;

    #[inline(always)]
    unsafe fn square(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
        let mut block = [[T::default(); 16]; 16];
        // SAFETY: the caller's promise.
        unsafe {
            for (at, line) in (0..).zip(&mut block) {
                *line = x.offset(at * x_row).cast::<[T; 16]>().read_unaligned();
            }
            let turned: [[T; 16]; 16] = std::array::from_fn(|at| std::array::from_fn(|from| block[from][at]));
            for (at, line) in (0..).zip(turned) {
                out.offset(at * out_row).cast::<[T; 16]>().write_unaligned(line);
            }
        }
    }
}
