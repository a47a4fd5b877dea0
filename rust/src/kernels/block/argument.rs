//! Where the extremes are.

use super::element::{Arith, Element};
use super::kernel::{Kernel, Run, by_type, plain, resolve as by_isa};
use super::mat::Args;
use super::{BlockOp, Compare};
use crate::dtype::DType;
use crate::kernels::Isa;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType], isa: Isa) -> Option<Run> {
    let dtype = *dtypes.get(1)?;
    match (op, dtype) {
        (BlockOp::ColArg(Compare::Gt), DType::F32) => return Some(by_isa::<Columns<f32, Above>>(isa)),
        (BlockOp::ColArg(Compare::Lt), DType::F32) => return Some(by_isa::<Columns<f32, Below>>(isa)),
        _ => {}
    }
    by_type!(dtype, T => Some(match op {
        BlockOp::RowArg(Compare::Gt) => plain::<Rows<T, Above>>,
        BlockOp::RowArg(Compare::Lt) => plain::<Rows<T, Below>>,
        BlockOp::ColArg(Compare::Gt) => plain::<Columns<T, Above>>,
        BlockOp::ColArg(Compare::Lt) => plain::<Columns<T, Below>>,
        _ => return None,
    }))
}

trait Order {
    /// Whether `a` takes the place of `b`, which was first.
    fn wins<A: Arith>(a: A, b: A) -> bool;
}

struct Above;
struct Below;

impl Order for Above {
    #[inline(always)]
    fn wins<A: Arith>(a: A, b: A) -> bool {
        (b.below(a) | a.is_nan()) & !b.is_nan()
    }
}

impl Order for Below {
    #[inline(always)]
    fn wins<A: Arith>(a: A, b: A) -> bool {
        (a.below(b) | a.is_nan()) & !b.is_nan()
    }
}

struct Rows<T, O>(PhantomData<(T, O)>);

impl<T: Element, O: Order> Kernel for Rows<T, O> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        let cols = args.count(0, x.cols);
        for row in 0..args.rows.min(x.rows) {
            let mut place = 0i32;
            // SAFETY: the elements exist.
            unsafe {
                if cols > 0 {
                    let mut best = x.get::<T>(row, 0).widen();
                    for col in 1..cols {
                        let next = x.get::<T>(row, col).widen();
                        if O::wins(next, best) {
                            (best, place) = (next, col as i32);
                        }
                    }
                }
                out.set(row, 0, place);
            }
        }
    }
}

/// Columns that are looked at together: their best and its place stay in registers or the first-level cache.
const WIDTH: usize = 256;

struct Columns<T, O>(PhantomData<(T, O)>);

impl<T: Element, O: Order> Kernel for Columns<T, O> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        let rows = args.count(0, x.rows);
        let (mut best, mut place) = ([T::Wide::ZERO; WIDTH], [0i32; WIDTH]);
        for start in (0..args.cols.min(x.cols)).step_by(WIDTH) {
            let width = WIDTH.min(args.cols.min(x.cols) - start);
            // SAFETY: the elements exist.
            unsafe {
                for col in 0..width {
                    place[col] = 0;
                    if rows > 0 {
                        best[col] = x.get::<T>(0, start + col).widen();
                    }
                }
                for row in 1..rows {
                    for col in 0..width {
                        let next = x.get::<T>(row, start + col).widen();
                        let wins = O::wins(next, best[col]);
                        best[col] = if wins { next } else { best[col] };
                        place[col] = if wins { row as i32 } else { place[col] };
                    }
                }
                for (col, &place) in place[..width].iter().enumerate() {
                    out.set(0, start + col, place);
                }
            }
        }
    }
}
