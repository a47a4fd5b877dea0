//! Elementwise work on 64-bit integers, whose lanes the chain machine has no room for.

use super::element::{Arith, BF16, Element, F16, round};
use super::kernel::{Kernel, Run, by_size, by_type, plain};
use super::mat::Args;
use super::{BlockOp, Combine, Compare};
use crate::dtype::{DType, Rounding};
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType]) -> Option<Run> {
    let dtype = *dtypes.first()?;
    let wide = |dtype: DType| match dtype {
        DType::I64 => Some(true),
        DType::U64 => Some(false),
        _ => None,
    };
    match op {
        BlockOp::RowReduce(f) if wide(dtype)? => reduce::<i64>(f),
        BlockOp::RowReduce(f) => reduce::<u64>(f),
        BlockOp::Combine(f) if wide(dtype)? => combine::<i64>(f),
        BlockOp::Combine(f) => combine::<u64>(f),
        BlockOp::Compare(f) if wide(*dtypes.get(1)?)? => compare::<i64>(f, dtype),
        BlockOp::Compare(f) => compare::<u64>(f, dtype),
        BlockOp::Select => Some(by_size!(dtype, T => by_size!(dtypes.get(1)?, M => plain::<Select<M, T>>))),
        BlockOp::Cast(mode) => cast(*dtypes.get(1)?, dtype, mode),
        _ => None,
    }
}

/// What only integers of 64 bits need here.
trait Wide: Arith + Element<Wide = Self> {
    fn combine(f: Combine, a: Self, b: Self) -> Self;
}

macro_rules! wide {
    ($T:ty, $neg:expr, $abs:expr, $rem:expr) => {
        impl Wide for $T {
            #[inline(always)]
            fn combine(f: Combine, a: Self, b: Self) -> Self {
                let count = u32::try_from(b).ok().filter(|&count| count < 64);
                match f {
                    Combine::Add => a.wrapping_add(b),
                    Combine::Sub => a.wrapping_sub(b),
                    Combine::Mul => a.wrapping_mul(b),
                    Combine::Div => {
                        if b == 0 {
                            0
                        } else {
                            a.wrapping_div(b)
                        }
                    }
                    Combine::Fmod => {
                        if b == 0 {
                            0
                        } else {
                            a.wrapping_rem(b)
                        }
                    }
                    Combine::Rem => {
                        if b == 0 {
                            0
                        } else {
                            $rem(a, b)
                        }
                    }
                    Combine::Max => Arith::max(a, b),
                    Combine::Min => Arith::min(a, b),
                    Combine::And => a & b,
                    Combine::Or => a | b,
                    Combine::Xor => a ^ b,
                    Combine::Shl => count.map_or(0, |count| a << count),
                    Combine::Shr => count.map_or(if a.below(0) { !0 } else { 0 }, |count| a >> count),
                    Combine::Neg => $neg(a),
                    Combine::Abs => $abs(a),
                    Combine::Not => !a,
                }
            }
        }
    };
}

wide!(i64, i64::wrapping_neg, i64::wrapping_abs, |a: i64, b: i64| {
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
});
wide!(u64, u64::wrapping_neg, |a| a, |a: u64, b: u64| a % b);

/// A function as a type.
trait Function {
    const F: Combine;
}

macro_rules! functions {
    ($($name:ident)*) => {
        mod function {
            $(
                pub(super) struct $name;

                impl super::Function for $name {
                    const F: super::Combine = super::Combine::$name;
                }
            )*
        }

        fn combine<T: Wide>(f: Combine) -> Option<Run> {
            Some(match f {
                $(Combine::$name => plain::<Combined<T, function::$name>>,)*
            })
        }
    };
}

functions! { Add Sub Mul Div Fmod Rem Max Min And Or Xor Shl Shr Neg Abs Not }

struct Combined<T, F>(PhantomData<(T, F)>);

impl<T: Wide, F: Function> Kernel for Combined<T, F> {
    unsafe fn run(args: &Args<'_>) {
        let [out, a, b] = [args.mats[0], args.mats[1], args.mats[2]];
        for row in 0..args.rows {
            for col in 0..args.cols {
                // SAFETY: all have the region.
                unsafe { out.set(row, col, T::combine(F::F, a.get(row, col), b.get(row, col))) };
            }
        }
    }
}

fn reduce<T: Wide>(f: Combine) -> Option<Run> {
    Some(match f {
        Combine::Add => plain::<Reduced<T, function::Add>>,
        Combine::Mul => plain::<Reduced<T, function::Mul>>,
        Combine::Max => plain::<Reduced<T, function::Max>>,
        Combine::Min => plain::<Reduced<T, function::Min>>,
        _ => return None,
    })
}

struct Reduced<T, F>(PhantomData<(T, F)>);

impl<T: Wide, F: Function> Kernel for Reduced<T, F> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        let cols = args.count(0, x.cols);
        let start = match F::F {
            Combine::Add => T::ZERO,
            Combine::Mul => T::ONE,
            Combine::Max => T::LOWEST,
            _ => T::HIGHEST,
        };
        for row in 0..args.rows.min(x.rows) {
            // SAFETY: the elements exist.
            unsafe {
                let result = (0..cols).fold(start, |sum, col| T::combine(F::F, sum, x.get(row, col)));
                out.set(row, 0, result);
            }
        }
    }
}

fn compare<T: Wide>(f: Compare, out: DType) -> Option<Run> {
    macro_rules! choose {
        ($U:ty, $one:literal) => {
            Some(match f {
                Compare::Eq => plain::<Compared<T, $U, $one, 0b010>>,
                Compare::Ne => plain::<Compared<T, $U, $one, 0b101>>,
                Compare::Lt => plain::<Compared<T, $U, $one, 0b001>>,
                Compare::Le => plain::<Compared<T, $U, $one, 0b011>>,
                Compare::Gt => plain::<Compared<T, $U, $one, 0b100>>,
                Compare::Ge => plain::<Compared<T, $U, $one, 0b110>>,
            })
        };
    }
    match out {
        DType::F32 => choose!(u32, 0x3f80_0000),
        DType::F16 => choose!(u16, 0x3c00),
        DType::BF16 => choose!(u16, 0x3f80),
        _ => match out.size() {
            1 => choose!(u8, 1),
            2 => choose!(u16, 1),
            4 => choose!(u32, 1),
            _ => choose!(u64, 1),
        },
    }
}

/// `ONE` where bit 0, 1 or 2 of `HOLDS` is set and the first is below, equal to or above the second.
struct Compared<T, U, const ONE: u64, const HOLDS: u8>(PhantomData<(T, U)>);

impl<T: Wide, U: Element, const ONE: u64, const HOLDS: u8> Kernel for Compared<T, U, ONE, HOLDS> {
    unsafe fn run(args: &Args<'_>) {
        let [out, a, b] = [args.mats[0], args.mats[1], args.mats[2]];
        for row in 0..args.rows {
            for col in 0..args.cols {
                // SAFETY: all have the region.
                unsafe {
                    let (a, b): (T, T) = (a.get(row, col), b.get(row, col));
                    let order = u8::from(!a.below(b)) + u8::from(b.below(a));
                    let holds = HOLDS >> order & 1 == 1;
                    out.set(row, col, U::from_int(if holds { ONE as i64 } else { 0 }));
                }
            }
        }
    }
}

struct Select<M, T>(PhantomData<(M, T)>);

impl<M: Element + PartialEq + Default, T: Copy> Kernel for Select<M, T> {
    unsafe fn run(args: &Args<'_>) {
        let [out, mask, a, b] = [args.mats[0], args.mats[1], args.mats[2], args.mats[3]];
        for row in 0..args.rows {
            for col in 0..args.cols {
                // SAFETY: all have the region.
                unsafe {
                    let from = if mask.get::<M>(row, col) != M::default() { a } else { b };
                    out.set(row, col, from.get::<T>(row, col));
                }
            }
        }
    }
}

fn cast(from: DType, to: DType, mode: Rounding) -> Option<Run> {
    macro_rules! to {
        ($S:ty) => {
            match to {
                DType::Bool => Some(plain::<Truth<$S>>),
                _ => by_type!(to, T => Some(plain::<Cast<$S, T, 0>>)),
            }
        };
    }
    macro_rules! float {
        ($S:ty) => {
            match (to, mode) {
                (DType::I64, Rounding::None | Rounding::Trunc) => Some(plain::<Cast<$S, i64, 0>>),
                (DType::I64, Rounding::Rint) => Some(plain::<Cast<$S, i64, 1>>),
                (DType::I64, Rounding::Round) => Some(plain::<Cast<$S, i64, 2>>),
                (DType::I64, Rounding::Floor) => Some(plain::<Cast<$S, i64, 3>>),
                (DType::I64, Rounding::Ceil) => Some(plain::<Cast<$S, i64, 4>>),
                (DType::I64, Rounding::Odd) => Some(plain::<Cast<$S, i64, 5>>),
                (DType::U64, Rounding::None | Rounding::Trunc) => Some(plain::<Cast<$S, u64, 0>>),
                (DType::U64, Rounding::Rint) => Some(plain::<Cast<$S, u64, 1>>),
                (DType::U64, Rounding::Round) => Some(plain::<Cast<$S, u64, 2>>),
                (DType::U64, Rounding::Floor) => Some(plain::<Cast<$S, u64, 3>>),
                (DType::U64, Rounding::Ceil) => Some(plain::<Cast<$S, u64, 4>>),
                (DType::U64, Rounding::Odd) => Some(plain::<Cast<$S, u64, 5>>),
                _ => None,
            }
        };
    }
    match from {
        DType::I64 => to!(i64),
        DType::U64 => to!(u64),
        DType::F32 => float!(f32),
        DType::F16 => float!(F16),
        DType::BF16 => float!(BF16),
        DType::I8 => to!(i8),
        DType::I16 => to!(i16),
        DType::I32 => to!(i32),
        DType::U8 | DType::Bool => to!(u8),
        DType::U16 => to!(u16),
        DType::U32 => to!(u32),
        _ => None,
    }
}

/// The roundings that the last parameter of [`Cast`] stands for.
const MODES: [Rounding; 6] =
    [Rounding::Trunc, Rounding::Rint, Rounding::Round, Rounding::Floor, Rounding::Ceil, Rounding::Odd];

/// How a value becomes an element of type `T`.
trait Into_<T> {
    fn to(self, mode: Rounding) -> T;
}

macro_rules! casts {
    ($($S:ty)*) => {
        $(
            impl<T: FromInteger> Into_<T> for $S {
                #[inline(always)]
                fn to(self, _: Rounding) -> T {
                    T::wrapped(self as i128)
                }
            }
        )*
    };
}

casts! { i8 i16 i32 i64 u8 u16 u32 u64 }

/// What integers are converted to.
trait FromInteger: Copy {
    fn wrapped(value: i128) -> Self;
}

macro_rules! wraps {
    ($($T:ty)*) => {
        $(
            impl FromInteger for $T {
                #[inline(always)]
                fn wrapped(value: i128) -> Self {
                    value as $T
                }
            }
        )*
    };
}

wraps! { i8 i16 i32 i64 u8 u16 u32 u64 f32 }

macro_rules! halves {
    ($($T:ty)*) => {
        $(
            impl FromInteger for $T {
                #[inline(always)]
                fn wrapped(value: i128) -> Self {
                    // By way of binary32, as 32-bit integers go.
                    <$T>::narrow(value as f32)
                }
            }
        )*
    };
}

halves! { F16 BF16 }

macro_rules! from_floats {
    ($($S:ty)*) => {
        $(
            impl Into_<i64> for $S {
                #[inline(always)]
                fn to(self, mode: Rounding) -> i64 {
                    round(self.widen(), mode) as i64
                }
            }

            impl Into_<u64> for $S {
                #[inline(always)]
                fn to(self, mode: Rounding) -> u64 {
                    round(self.widen(), mode) as u64
                }
            }
        )*
    };
}

from_floats! { f32 F16 BF16 }

struct Cast<S, T, const MODE: usize>(PhantomData<(S, T)>);

impl<S: Copy + Into_<T>, T: Copy, const MODE: usize> Kernel for Cast<S, T, MODE> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        for row in 0..args.rows {
            for col in 0..args.cols {
                // SAFETY: both have the region.
                unsafe { out.set(row, col, x.get::<S>(row, col).to(MODES[MODE])) };
            }
        }
    }
}

struct Truth<S>(PhantomData<S>);

impl<S: Arith> Kernel for Truth<S> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        for row in 0..args.rows {
            for col in 0..args.cols {
                // SAFETY: both have the region.
                unsafe { out.set(row, col, u8::from(!x.get::<S>(row, col).equal(S::ZERO))) };
            }
        }
    }
}
