//! Copies, transposes and padding. Only the size of an element matters.

use super::BlockOp;
use super::kernel::{Kernel, Run, by_size, plain, resolve as by_isa};
use super::mat::Args;
use super::squares::{self, Plain, Squares, transpose};
use crate::dtype::DType;
use crate::kernels::Isa;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType], isa: Isa) -> Option<Run> {
    let dtype = *dtypes.first()?;
    Some(by_size!(dtype, T => match op {
        BlockOp::Copy => by_isa::<Copy_<T>>(isa),
        BlockOp::Transpose => match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => by_isa::<Transpose<T, squares::Avx512>>(isa),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => by_isa::<Transpose<T, squares::Avx2>>(isa),
            _ => plain::<Transpose<T, Plain>>,
        },
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

struct Transpose<T, S>(PhantomData<(T, S)>);

impl<T: Copy, S: Squares<T>> Kernel for Transpose<T, S> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [&args.mats[0], &args.mats[1]];
        // What `x` has of the region; the rest of the result is undefined, and is left alone.
        // SAFETY: all these elements exist in both.
        unsafe { transpose::<T, S>(out, x, args.rows.min(x.cols), args.cols.min(x.rows)) }
    }
}
