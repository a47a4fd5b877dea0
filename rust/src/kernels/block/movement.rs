//! Copies, transposes and padding. Only the size of an element matters.

use super::BlockOp;
use super::kernel::{Kernel, Run, by_size, resolve as by_isa};
use super::mat::{Args, Mat};
use crate::dtype::DType;
use crate::kernels::Isa;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType], isa: Isa) -> Option<Run> {
    let dtype = *dtypes.first()?;
    Some(by_size!(dtype, T => match op {
        BlockOp::Copy => by_isa::<Copy_<T>>(isa),
        BlockOp::Transpose => by_isa::<Transpose<T>>(isa),
        _ => by_isa::<FillPad<T>>(isa),
    }))
}

struct Copy_<T>(PhantomData<T>);

impl<T: Copy> Kernel for Copy_<T> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        for row in 0..args.rows {
            // SAFETY: both have the region.
            unsafe {
                if x.col == 0 && args.cols > 0 {
                    fill(out.at(row, 0), args.cols, x.get::<T>(row, 0));
                } else {
                    // A box may be stored to where it was loaded from.
                    std::ptr::copy(x.at::<u8>(row, 0), out.at(row, 0), args.cols * size_of::<T>());
                }
            }
        }
    }
}

/// Sets `count` elements.
///
/// # Safety
/// They exist, and nobody else uses them.
#[inline(always)]
unsafe fn fill<T: Copy>(first: *mut T, count: usize, value: T) {
    for at in 0..count {
        // SAFETY: the caller's promise.
        unsafe { first.add(at).write_unaligned(value) };
    }
}

struct FillPad<T>(PhantomData<T>);

impl<T: Copy> Kernel for FillPad<T> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        let rows = args.count(0, x.rows.min(args.rows));
        let cols = args.count(1, x.cols.min(args.cols));
        // SAFETY: the scalar holds an element in its low bytes.
        let value = unsafe { (&raw const args.scalars[2]).cast::<T>().read_unaligned() };
        for row in 0..args.rows {
            let valid = if row < rows { cols } else { 0 };
            // SAFETY: `out` has the region, `x` the part that is copied.
            unsafe {
                if out.data != x.data && x.col == 0 {
                    fill(out.at(row, 0), valid, x.get::<T>(row, 0));
                } else if out.data != x.data {
                    std::ptr::copy_nonoverlapping(x.at::<u8>(row, 0), out.at(row, 0), valid * size_of::<T>());
                }
                fill(out.at(row, valid), args.cols - valid, value);
            }
        }
    }
}

/// Rows and columns that are transposed together: 16 rows of 64 bytes are what the first-level cache takes from and gives to
/// memory in whole lines.
const SIDE: usize = 16;

struct Transpose<T>(PhantomData<T>);

impl<T: Copy + Default> Kernel for Transpose<T> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        // What `x` has of the region; the rest of the result is undefined, and is left alone.
        let (rows, cols) = (args.rows.min(x.cols), args.cols.min(x.rows));
        let (whole_rows, whole_cols) = (rows - rows % SIDE, cols - cols % SIDE);
        // SAFETY: all elements below exist in both.
        unsafe {
            // Along the rows of the argument first: the lines that are written stay in the cache for the next block.
            for col in (0..whole_cols).step_by(SIDE) {
                for row in (0..whole_rows).step_by(SIDE) {
                    square::<T>(&out, &x, row, col);
                }
                rest::<T>(&out, &x, whole_rows..rows, col..col + SIDE);
            }
            rest::<T>(&out, &x, 0..rows, whole_cols..cols);
        }
    }
}

/// Transposes a square of [`SIDE`] elements through registers.
#[inline(always)]
unsafe fn square<T: Copy + Default>(out: &Mat, x: &Mat, row: usize, col: usize) {
    let mut block = [[T::default(); SIDE]; SIDE];
    // SAFETY: as in `run`.
    unsafe {
        for (at, line) in block.iter_mut().enumerate() {
            *line = x.at::<[T; SIDE]>(col + at, row).read_unaligned();
        }
        for at in 0..SIDE {
            let mut line = [T::default(); SIDE];
            for (to, from) in line.iter_mut().zip(&block) {
                *to = from[at];
            }
            out.at::<[T; SIDE]>(row + at, col).write_unaligned(line);
        }
    }
}

#[inline(always)]
unsafe fn rest<T: Copy>(out: &Mat, x: &Mat, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) {
    for row in rows {
        for col in cols.clone() {
            // SAFETY: as in `run`.
            unsafe { out.set(row, col, x.get::<T>(col, row)) };
        }
    }
}
