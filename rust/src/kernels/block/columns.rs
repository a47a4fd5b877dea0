//! Reductions of columns: rows are combined one after the other, in ascending order, into a row of accumulators.

use super::Combine;
use super::element::{Arith, BF16, Element, F16};
use super::kernel::{Kernel, Run, by_type, plain, resolve as by_isa};
use super::mat::Args;
use crate::dtype::DType;
use crate::kernels::Isa;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

pub(super) fn resolve(f: Combine, dtypes: &[DType], isa: Isa) -> Option<Run> {
    let dtype = *dtypes.get(1)?;
    // Floats are what models reduce; integers make do with one form each, to spare the compiler.
    match dtype {
        DType::F32 => of_float::<f32>(f, isa),
        DType::F16 => of_float::<F16>(f, isa),
        DType::BF16 => of_float::<BF16>(f, isa),
        _ => by_type!(dtype, T => Some(match f {
            Combine::Add => plain::<Columns<T, Sum>>,
            Combine::Mul => plain::<Columns<T, Product>>,
            Combine::Max => plain::<Columns<T, Largest>>,
            Combine::Min => plain::<Columns<T, Smallest>>,
            _ => return None,
        })),
    }
}

fn of_float<T: Element>(f: Combine, isa: Isa) -> Option<Run> {
    Some(match f {
        Combine::Add => by_isa::<Columns<T, Sum>>(isa),
        Combine::Mul => by_isa::<Columns<T, Product>>(isa),
        Combine::Max => by_isa::<Columns<T, Largest>>(isa),
        Combine::Min => by_isa::<Columns<T, Smallest>>(isa),
        _ => return None,
    })
}

/// A function that combines the elements of a column.
pub(super) trait Fold {
    fn identity<A: Arith>() -> A;
    fn fold<A: Arith>(a: A, b: A) -> A;
}

macro_rules! folds {
    ($($name:ident $identity:ident $f:ident)*) => {
        $(
            pub(super) struct $name;

            impl Fold for $name {
                #[inline(always)]
                fn identity<A: Arith>() -> A {
                    A::$identity
                }
                #[inline(always)]
                fn fold<A: Arith>(a: A, b: A) -> A {
                    a.$f(b)
                }
            }
        )*
    };
}

folds! { Sum ZERO add Product ONE mul Largest LOWEST max Smallest HIGHEST min }

/// Columns that are accumulated together: 16 KiB of binary32 stay in the first-level cache. Strips of a quarter of that took
/// 1.2 times as long from memory, since each row of a strip was a new page for the prefetcher.
const WIDTH: usize = 4096;

struct Columns<T, F>(PhantomData<(T, F)>);

impl<T: Element, F: Fold> Kernel for Columns<T, F> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        let rows = args.count(0, x.rows);
        // What the argument does not have is undefined.
        let cols = args.cols.min(x.cols);
        // Left as it is beyond the columns there are: clearing all of it would take as long as a small sum.
        let mut room = [const { MaybeUninit::<T::Wide>::uninit() }; WIDTH];
        for start in (0..cols).step_by(WIDTH) {
            let width = WIDTH.min(cols - start);
            for sum in &mut room[..width] {
                sum.write(F::identity());
            }
            // SAFETY: the loop has written all of them.
            let acc = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<T::Wide>(), width) };
            // SAFETY: the argument has these rows and columns, the result has one row of the region.
            unsafe {
                let line = |row: usize| std::slice::from_raw_parts(x.at::<Packed<T>>(row, start), width);
                let mut row = 0;
                if rows > 0 {
                    for (to, from) in acc.iter_mut().zip(line(0)) {
                        *to = from.0.widen();
                    }
                    row = 1;
                }
                // Four rows for each time that the accumulators are read and written.
                while row + 4 <= rows {
                    let (a, b, c, d) = (line(row), line(row + 1), line(row + 2), line(row + 3));
                    for (((to, a), b), (c, d)) in acc.iter_mut().zip(a).zip(b).zip(c.iter().zip(d)) {
                        let two = F::fold(F::fold(*to, a.0.widen()), b.0.widen());
                        *to = F::fold(F::fold(two, c.0.widen()), d.0.widen());
                    }
                    row += 4;
                }
                while row < rows {
                    for (to, from) in acc.iter_mut().zip(line(row)) {
                        *to = F::fold(*to, from.0.widen());
                    }
                    row += 1;
                }
                let result = std::slice::from_raw_parts_mut(out.at::<Packed<T>>(0, start), width);
                for (to, from) in result.iter_mut().zip(&*acc) {
                    *to = Packed(T::narrow(*from));
                }
            }
        }
    }
}

/// An element of any alignment.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(super) struct Packed<T>(pub T);
