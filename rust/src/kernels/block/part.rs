//! Combining tiles of which only parts are valid.

use super::Combine;
use super::columns::{Fold, Largest, Product, Smallest, Sum};
use super::element::{Arith, Element};
use super::kernel::{Kernel, Run, by_type, plain};
use super::mat::Args;
use crate::dtype::DType;
use std::marker::PhantomData;

pub(super) fn resolve(f: Combine, dtypes: &[DType]) -> Option<Run> {
    by_type!(*dtypes.first()?, T => Some(match f {
        Combine::Add => plain::<Part<T, Sum>>,
        Combine::Mul => plain::<Part<T, Product>>,
        Combine::Max => plain::<Part<T, Largest>>,
        Combine::Min => plain::<Part<T, Smallest>>,
        _ => return None,
    }))
}

struct Part<T, F>(PhantomData<(T, F)>);

impl<T: Element, F: Fold> Kernel for Part<T, F> {
    unsafe fn run(args: &Args<'_>) {
        let [out, a, b] = [args.mats[0], args.mats[1], args.mats[2]];
        let (a_rows, a_cols) = (args.count(0, a.rows), args.count(1, a.cols));
        let (b_rows, b_cols) = (args.count(2, b.rows), args.count(3, b.cols));
        for row in 0..args.rows {
            for col in 0..args.cols {
                let in_a = row < a_rows && col < a_cols;
                let in_b = row < b_rows && col < b_cols;
                // SAFETY: the result has the region, the arguments what is valid of them.
                unsafe {
                    let value = match (in_a, in_b) {
                        (true, true) => T::narrow(F::fold(a.get::<T>(row, col).widen(), b.get::<T>(row, col).widen())),
                        (true, false) => a.get(row, col),
                        (false, true) => b.get(row, col),
                        (false, false) => T::narrow(T::Wide::ZERO),
                    };
                    out.set(row, col, value);
                }
            }
        }
    }
}
