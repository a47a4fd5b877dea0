//! Functions of binary16 numbers whose results, rounded from binary32 to binary16, are the nearest there are.
//!
//! Rounding twice goes wrong where the result is so close to the middle of two binary16 numbers that it is the middle in
//! binary32: then the tie decides. Of all 65,536 inputs that happens to those listed here, and to none of `rsqrt`, `recip` and
//! `sqrt`; bfloat16 has no such input. A bias of a unit in the last place instead of the comparisons breaks more inputs than it
//! mends.

use super::{Simd, cos_f, exp_f, log_f, sin_f};

/// An input, and the binary32 beside the middle that is on the side of the exact result.
type Near = (f32, f32);

const EXP: [Near; 1] = [(0.007_297_516, 1.007_324_1)];
const LOG: [Near; 1] = [(0.005_340_576, -5.232_421_4)];
const SIN: [Near; 2] = [(0.209_350_59, 0.207_824_72), (300.0, -0.999_755_8)];
const COS: [Near; 1] = [(0.058_471_68, 0.998_291_1)];

/// `exp(x)` of a binary16 number.
#[inline(always)]
pub(crate) unsafe fn exp_h<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { corrected::<S>(&EXP, x, exp_f::<S>(x)) }
}

/// `log(x)` of a binary16 number.
#[inline(always)]
pub(crate) unsafe fn log_h<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { corrected::<S>(&LOG, x, log_f::<S>(x)) }
}

/// `sin(x)` of a binary16 number.
#[inline(always)]
pub(crate) unsafe fn sin_h<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let sign = S::and(x, S::splat(0x8000_0000));
        let size = S::xor(x, sign);
        S::xor(corrected::<S>(&SIN, size, sin_f::<S>(size)), sign)
    }
}

/// `cos(x)` of a binary16 number.
#[inline(always)]
pub(crate) unsafe fn cos_h<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let size = S::and(x, S::splat(0x7fff_ffff));
        corrected::<S>(&COS, size, cos_f::<S>(size))
    }
}

/// `result`, but at the inputs listed what is listed.
#[inline(always)]
unsafe fn corrected<S: Simd>(list: &[Near], x: S::V, mut result: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        for &(input, near) in list {
            result = S::select(S::eq_i(x, S::splat(input.to_bits())), S::splat(near.to_bits()), result);
        }
        result
    }
}
