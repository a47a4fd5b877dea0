//! Elements picked by index. An index is 32 bits wide; as INT32 it may be negative, as UINT32 it may not.

use super::BlockOp;
use super::columns::Packed;
use super::element::{Arith, Element};
use super::kernel::{Kernel, Run, by_size, by_type, plain};
use super::mat::{Args, Mat};
use crate::dtype::DType;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType]) -> Option<Run> {
    let dtype = *dtypes.first()?;
    if let BlockOp::GatherCompare { count } = op {
        return by_type!(*dtypes.get(1)?, T => Some(match count {
            true => plain::<GatherCompare<T, true>>,
            false => plain::<GatherCompare<T, false>>,
        }));
    }
    if let BlockOp::GatherStride = op {
        return Some(by_size!(dtype, T => plain::<Strided<T>>));
    }
    match op {
        // With vectors the compiler would use their gathers, which take twice as long as single loads on Zen 4.
        BlockOp::GatherCols => Some(by_size!(dtype, T => plain::<Cols<T>>)),
        BlockOp::GatherFlat => with_index(op, *dtypes.get(2)?, dtype),
        BlockOp::GatherTensor => with_index(op, *dtypes.get(1)?, dtype),
        _ => match dtypes.get(2)? {
            DType::I32 => Some(plain::<Bytes<i32>>),
            DType::U32 => Some(plain::<Bytes<u32>>),
            _ => None,
        },
    }
}

/// The gathers that tell negative indices from large ones.
fn with_index(op: BlockOp, index: DType, dtype: DType) -> Option<Run> {
    macro_rules! choose {
        ($I:ty) => {
            Some(by_size!(dtype, T => match op {
                BlockOp::GatherFlat => plain::<Flat<T, $I>>,
                _ => plain::<Tensor<T, $I>>,
            }))
        };
    }
    match index {
        DType::I32 => choose!(i32),
        DType::U32 => choose!(u32),
        _ => None,
    }
}

/// A 32-bit index.
pub(super) trait Index: Copy + Into<i64> + 'static {}
impl Index for i32 {}
impl Index for u32 {}

/// The element, or 0 where there is none.
#[inline(always)]
unsafe fn read<T: Copy + Default>(x: &Mat, row: i64, col: i64) -> T {
    // SAFETY: `find` gives elements that exist.
    x.find::<T>(row, col).map_or(T::default(), |at| unsafe { at.read_unaligned() })
}

/// The part of the region that has an index; the rest of the result is undefined.
#[inline(always)]
fn indexed(args: &Args<'_>, index: &Mat) -> (usize, usize) {
    (args.rows.min(index.rows), args.cols.min(index.cols))
}

struct Cols<T>(PhantomData<T>);

impl<T: Copy + Default> Kernel for Cols<T> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x, index] = [args.mats[0], args.mats[1], args.mats[2]];
        let (rows, cols) = indexed(args, &index);
        for row in 0..rows {
            let limit = if row < x.rows { args.count(0, x.cols) } else { 0 };
            // SAFETY: the result and the index have these columns, `x` those below the limit.
            unsafe {
                let from = std::slice::from_raw_parts(x.at::<Packed<T>>(row, 0), limit);
                let to = std::slice::from_raw_parts_mut(out.at::<Packed<T>>(row, 0), cols);
                // No tile has 2^31 columns, so a negative index is one that is too large.
                let at = std::slice::from_raw_parts(index.at::<Packed<u32>>(row, 0), cols);
                for (to, at) in to.iter_mut().zip(at) {
                    *to = from.get(at.0 as usize).copied().unwrap_or(Packed(T::default()));
                }
            }
        }
    }
}

struct Flat<T, I>(PhantomData<(T, I)>);

impl<T: Copy + Default, I: Index> Kernel for Flat<T, I> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x, index] = [args.mats[0], args.mats[1], args.mats[2]];
        let width = args.int(0);
        let (rows, cols) = indexed(args, &index);
        for row in 0..rows {
            for col in 0..cols {
                // SAFETY: the result and the index have these.
                unsafe {
                    let at: i64 = index.get::<I>(row, col).into();
                    let value = if at < 0 || width <= 0 { T::default() } else { read(&x, at / width, at % width) };
                    out.set(row, col, value);
                }
            }
        }
    }
}

struct Tensor<T, I>(PhantomData<(T, I)>);

impl<T: Copy + Default, I: Index> Kernel for Tensor<T, I> {
    unsafe fn run(args: &Args<'_>) {
        let [out, index] = [args.mats[0], args.mats[1]];
        let tensor = args.tensor.expect("a gather from a tensor has one");
        let (rows, cols) = indexed(args, &index);
        for row in 0..rows {
            for col in 0..cols {
                // SAFETY: the result and the index have these; `find` gives elements that exist.
                unsafe {
                    let found = tensor.find::<T>(index.get::<I>(row, col).into());
                    out.set(row, col, found.map_or(T::default(), |at| at.read_unaligned()));
                }
            }
        }
    }
}

struct Strided<T>(PhantomData<T>);

impl<T: Copy + Default> Kernel for Strided<T> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        let (start, stride) = (args.int(0), args.int(1));
        for row in 0..args.rows {
            for col in 0..args.cols {
                // Saturated, an index is outside as it was.
                let at = (col as i64).saturating_mul(stride).saturating_add(start);
                // SAFETY: the result has the region.
                unsafe { out.set(row, col, read::<T>(&x, row as i64, at)) };
            }
        }
    }
}

/// Bytes of a block.
const BLOCK: usize = 32;

struct Bytes<I>(PhantomData<I>);

impl<I: Index> Kernel for Bytes<I> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x, offsets] = [args.mats[0], args.mats[1], args.mats[2]];
        let row_bytes = args.cols * out.col as usize;
        // The rows of a tile follow each other, so its bytes are one piece; of a box or a window it is the rows that exist.
        let x_row = x.cols as i64 * x.col as i64;
        for row in 0..args.rows {
            for byte in 0..row_bytes {
                // SAFETY: the result has the region; elements of the others are found first.
                unsafe {
                    let offset = offsets.find::<I>(row as i64, (byte / BLOCK) as i64);
                    let offset: Option<i64> = offset.map(|at| at.read_unaligned().into());
                    let at = offset.map_or(-1, |offset| if offset < 0 { -1 } else { offset + (byte % BLOCK) as i64 });
                    let exists = at >= 0 && x_row > 0 && at / x_row < x.rows as i64;
                    let value = if exists {
                        x.data.offset((at / x_row) as isize * x.row + (at % x_row) as isize).read()
                    } else {
                        0
                    };
                    out.at::<u8>(row, 0).add(byte).write(value);
                }
            }
        }
    }
}

struct GatherCompare<T, const COUNT: bool>(PhantomData<T>);

impl<T: Element, const COUNT: bool> Kernel for GatherCompare<T, COUNT> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        // SAFETY: the scalar holds an element in its low bytes.
        let k = unsafe { (&raw const args.scalars[0]).cast::<T>().read_unaligned() }.widen();
        let (compare, offset, cols) = (args.int(1), args.int(2), args.count(3, x.cols));
        for row in 0..args.rows {
            let mut found = 0;
            for col in 0..if row < x.rows { cols } else { 0 } {
                // SAFETY: the element exists.
                let value = unsafe { x.get::<T>(row, col) }.widen();
                let holds = match compare {
                    0 => value.equal(k),
                    1 => !value.equal(k),
                    2 => value.below(k),
                    3 => value.below(k) || value.equal(k),
                    4 => k.below(value),
                    _ => k.below(value) || value.equal(k),
                };
                if holds {
                    if !COUNT && found < args.cols {
                        // SAFETY: the result has the region.
                        unsafe { out.set(row, found, offset.wrapping_add(col as i64) as u32) };
                    }
                    found += 1;
                }
            }
            // SAFETY: the result has the region.
            unsafe {
                if COUNT && args.cols > 0 {
                    out.set(row, 0, found as u32);
                }
                for rest in if COUNT { args.cols } else { found.min(args.cols) }..args.cols {
                    out.set(row, rest, 0u32);
                }
            }
        }
    }
}
