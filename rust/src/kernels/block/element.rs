//! What the bits of an element mean: arithmetic on each type.

use crate::dtype::Rounding;
use crate::kernels::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// binary16 as it lies in memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F16(u16);

/// bfloat16 as it lies in memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct BF16(u16);

/// A type of elements.
pub(super) trait Element: Copy + 'static {
    /// What arithmetic is done in.
    type Wide: Arith;
    /// Exact.
    fn widen(self) -> Self::Wide;
    /// Rounded to nearest even.
    fn narrow(wide: Self::Wide) -> Self;
    /// An integer, wrapped or rounded.
    fn from_int(value: i64) -> Self;
}

/// Arithmetic on `f32` and on integers.
pub(super) trait Arith: Copy + 'static {
    const ZERO: Self;
    const ONE: Self;
    const LOWEST: Self;
    const HIGHEST: Self;
    fn add(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// The larger; NaN if either is; +0 is larger than -0.
    fn max(self, b: Self) -> Self;
    /// The smaller; NaN if either is; -0 is smaller than +0.
    fn min(self, b: Self) -> Self;
    fn equal(self, b: Self) -> bool;
    fn below(self, b: Self) -> bool;
    fn is_nan(self) -> bool;
}

impl Arith for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const LOWEST: Self = f32::NEG_INFINITY;
    const HIGHEST: Self = f32::INFINITY;
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self + b
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self * b
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        let equal = f32::from_bits(self.to_bits() & b.to_bits());
        let larger = if self > b { self } else { b };
        let number = if self == b { equal } else { larger };
        if self.is_nan() { self } else { number }
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        let equal = f32::from_bits(self.to_bits() | b.to_bits());
        let smaller = if self < b { self } else { b };
        let number = if self == b { equal } else { smaller };
        if self.is_nan() { self } else { number }
    }
    #[inline(always)]
    fn equal(self, b: Self) -> bool {
        self == b
    }
    #[inline(always)]
    fn below(self, b: Self) -> bool {
        self < b
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

macro_rules! integers {
    ($($T:ty)*) => {
        $(
            impl Arith for $T {
                const ZERO: Self = 0;
                const ONE: Self = 1;
                const LOWEST: Self = <$T>::MIN;
                const HIGHEST: Self = <$T>::MAX;
                #[inline(always)]
                fn add(self, b: Self) -> Self {
                    self.wrapping_add(b)
                }
                #[inline(always)]
                fn mul(self, b: Self) -> Self {
                    self.wrapping_mul(b)
                }
                #[inline(always)]
                fn max(self, b: Self) -> Self {
                    Ord::max(self, b)
                }
                #[inline(always)]
                fn min(self, b: Self) -> Self {
                    Ord::min(self, b)
                }
                #[inline(always)]
                fn equal(self, b: Self) -> bool {
                    self == b
                }
                #[inline(always)]
                fn below(self, b: Self) -> bool {
                    self < b
                }
                #[inline(always)]
                fn is_nan(self) -> bool {
                    false
                }
            }

            impl Element for $T {
                type Wide = $T;
                #[inline(always)]
                fn widen(self) -> $T {
                    self
                }
                #[inline(always)]
                fn narrow(wide: $T) -> Self {
                    wide
                }
                #[inline(always)]
                fn from_int(value: i64) -> Self {
                    value as $T
                }
            }
        )*
    };
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl Element for f32 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        wide
    }
    #[inline(always)]
    fn from_int(value: i64) -> Self {
        value as f32
    }
}

macro_rules! halves {
    ($($T:ident $widen:ident $narrow:ident)*) => {
        $(
            impl Element for $T {
                type Wide = f32;
                #[inline(always)]
                fn widen(self) -> f32 {
                    $widen(self.0)
                }
                #[inline(always)]
                fn narrow(wide: f32) -> Self {
                    $T($narrow(wide))
                }
                #[inline(always)]
                fn from_int(value: i64) -> Self {
                    $T($narrow(value as f32))
                }
            }
        )*
    };
}

halves! { F16 f16_to_f32 f32_to_f16 BF16 bf16_to_f32 f32_to_bf16 }

/// A number rounded to an integral one.
pub(super) fn round(x: f32, mode: Rounding) -> f32 {
    match mode {
        Rounding::None | Rounding::Trunc => x.trunc(),
        Rounding::Rint => x.round_ties_even(),
        Rounding::Round => x.round(),
        Rounding::Floor => x.floor(),
        Rounding::Ceil => x.ceil(),
        // Where something is lost, the odd one of the two neighbours; numbers with a fraction are below 2^23.
        Rounding::Odd if x == x.trunc() || x.is_nan() => x,
        Rounding::Odd if x.floor() as i64 % 2 != 0 => x.floor(),
        Rounding::Odd => x.ceil(),
    }
}
