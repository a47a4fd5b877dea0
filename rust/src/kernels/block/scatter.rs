//! Elements put where indices say, in ascending order of rows and columns.

use super::BlockOp;
use super::element::{Arith, Element};
use super::gather::Index;
use super::kernel::{Kernel, Run, by_size, by_type, plain};
use super::mat::Args;
use crate::dtype::DType;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType]) -> Option<Run> {
    let dtype = *dtypes.first()?;
    let index = match op {
        BlockOp::ScatterStride => return Some(by_size!(dtype, T => plain::<Strided<T>>)),
        BlockOp::ScatterFlat => *dtypes.get(2)?,
        _ => *dtypes.get(1)?,
    };
    macro_rules! choose {
        ($I:ty) => {
            match op {
                BlockOp::ScatterCols => Some(by_size!(dtype, T => plain::<Cols<T, $I>>)),
                BlockOp::ScatterFlat => Some(by_size!(dtype, T => plain::<Flat<T, $I>>)),
                BlockOp::ScatterRows => Some(plain::<Rows<$I>>),
                _ => by_type!(dtype, T => Some(plain::<Tensor<T, $I>>)),
            }
        };
    }
    match index {
        DType::I32 => choose!(i32),
        DType::U32 => choose!(u32),
        _ => None,
    }
}

struct Cols<T, I>(PhantomData<(T, I)>);

impl<T: Copy, I: Index> Kernel for Cols<T, I> {
    unsafe fn run(args: &Args<'_>) {
        let [out, index, src] = [args.mats[0], args.mats[1], args.mats[2]];
        let rows = args.count(0, index.rows.min(src.rows));
        let cols = args.count(1, index.cols.min(src.cols));
        for row in 0..rows {
            for col in 0..cols {
                // SAFETY: index and source have these rows and columns; `find` gives elements that exist.
                unsafe {
                    if let Some(to) = out.find::<T>(row as i64, index.get::<I>(row, col).into()) {
                        to.write_unaligned(src.get(row, col));
                    }
                }
            }
        }
    }
}

struct Flat<T, I>(PhantomData<(T, I)>);

impl<T: Copy, I: Index> Kernel for Flat<T, I> {
    unsafe fn run(args: &Args<'_>) {
        let [out, src, index] = [args.mats[0], args.mats[1], args.mats[2]];
        let rows = args.count(0, index.rows.min(src.rows));
        let cols = args.count(1, index.cols.min(src.cols));
        let width = out.cols as i64;
        for row in 0..rows {
            for col in 0..cols {
                // SAFETY: index and source have these rows and columns; `find` gives elements that exist.
                unsafe {
                    let at: i64 = index.get::<I>(row, col).into();
                    if at >= 0
                        && let Some(to) = out.find::<T>(at / width, at % width)
                    {
                        to.write_unaligned(src.get(row, col));
                    }
                }
            }
        }
    }
}

struct Strided<T>(PhantomData<T>);

impl<T: Copy> Kernel for Strided<T> {
    unsafe fn run(args: &Args<'_>) {
        let [out, src] = [args.mats[0], args.mats[1]];
        let (start, stride) = (args.int(0), args.int(1));
        for row in 0..args.count(2, src.rows) {
            for col in 0..args.count(3, src.cols) {
                let at = (col as i64).saturating_mul(stride).saturating_add(start);
                // SAFETY: the source has these rows and columns; `find` gives elements that exist.
                unsafe {
                    if let Some(to) = out.find::<T>(row as i64, at) {
                        to.write_unaligned(src.get(row, col));
                    }
                }
            }
        }
    }
}

struct Rows<I>(PhantomData<I>);

impl<I: Index> Kernel for Rows<I> {
    unsafe fn run(args: &Args<'_>) {
        let [out, index, src] = [args.mats[0], args.mats[1], args.mats[2]];
        let bytes = args.count(1, src.cols.min(out.cols)) * out.col as usize;
        // Without columns there is no index.
        let rows = if index.cols == 0 { 0 } else { args.count(0, src.rows) };
        for from in 0..rows {
            let place = (from / index.cols, from % index.cols);
            // SAFETY: `find` gives elements that exist; source and result have rows of these bytes, and do not overlap.
            unsafe {
                let Some(at) = index.find::<I>(place.0 as i64, place.1 as i64) else { return };
                if let Some(to) = out.find::<u8>(at.read_unaligned().into(), 0) {
                    std::ptr::copy_nonoverlapping(src.at::<u8>(from, 0), to, bytes);
                }
            }
        }
    }
}

struct Tensor<T, I>(PhantomData<(T, I)>);

impl<T: Element, I: Index> Kernel for Tensor<T, I> {
    unsafe fn run(args: &Args<'_>) {
        let [src, index] = [args.mats[0], args.mats[1]];
        let tensor = args.tensor.expect("a scatter to a tensor has one");
        let adds = args.int(0) == 1;
        let (rows, cols) = (args.rows.min(src.rows).min(index.rows), args.cols.min(src.cols).min(index.cols));
        for row in 0..rows {
            for col in 0..cols {
                // SAFETY: index and source have these rows and columns; `find` gives elements that exist.
                unsafe {
                    let Some(to) = tensor.find::<T>(index.get::<I>(row, col).into()) else { continue };
                    let value: T = src.get(row, col);
                    let sum = || T::narrow(to.read_unaligned().widen().add(value.widen()));
                    to.write_unaligned(if adds { sum() } else { value });
                }
            }
        }
    }
}
