//! Functions of one or two lanes that take more than one instruction, written once for all instruction sets.

use super::Simd;
use crate::dtype::Rounding;

/// `-x`.
#[inline(always)]
pub(crate) unsafe fn neg_f<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { S::xor(x, S::splat(0x8000_0000)) }
}

/// `-x`, wrapping.
#[inline(always)]
pub(crate) unsafe fn neg_i<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { S::sub_i(S::splat(0), x) }
}

/// `|x|`, wrapping.
#[inline(always)]
pub(crate) unsafe fn abs_i<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { S::max_i(x, neg_i::<S>(x)) }
}

/// The larger; NaN if either is; +0 above -0.
#[inline(always)]
pub(crate) unsafe fn max_f<S: Simd>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { S::select(S::unordered_f(a, b), S::splat(f32::NAN.to_bits()), S::max_num(a, b)) }
}

/// The smaller; NaN if either is; -0 below +0.
#[inline(always)]
pub(crate) unsafe fn min_f<S: Simd>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { S::select(S::unordered_f(a, b), S::splat(f32::NAN.to_bits()), S::min_num(a, b)) }
}

/// An integral number by the given rounding; for `Odd` the floor.
#[inline(always)]
unsafe fn integral<S: Simd>(rounding: Rounding, x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        match rounding {
            // Conversions do it themselves.
            Rounding::None | Rounding::Trunc => x,
            Rounding::Rint => S::round_even_f(x),
            Rounding::Floor | Rounding::Odd => S::floor_f(x),
            Rounding::Ceil => S::ceil_f(x),
            Rounding::Round => {
                // The distance to the truncated value is exact; adding 0.5 first is not (0.49999997 would become 1).
                let toward_zero = S::trunc_f(x);
                let distance = S::and(S::sub_f(x, toward_zero), S::splat(0x7fff_ffff));
                let sign = S::and(x, S::splat(0x8000_0000));
                let one = S::or(S::splat(1f32.to_bits()), sign);
                let away = S::add_f(toward_zero, one);
                S::select(S::lt_f(distance, S::splat(0.5f32.to_bits())), toward_zero, away)
            }
        }
    }
}

/// binary32 to unsigned integer: rounds as asked, saturates, NaN becomes 0.
#[inline(always)]
pub(crate) unsafe fn f32_to_u32<S: Simd>(rounding: Rounding, x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let zero = S::splat(0);
        let integral = integral::<S>(rounding, x);
        // A negative number and NaN become 0; `relu_f` lets a NaN pass.
        let positive = S::lt_f(zero, integral);
        let result = S::f32_to_u32_raw(S::select(positive, integral, zero));
        if rounding == Rounding::Odd {
            // The odd one of the two neighbours is the floor with its lowest bit set; 0 is the floor of a fraction.
            let exact = S::or_m(S::eq_f(integral, x), S::lt_f(x, zero));
            let result = S::select(exact, result, S::or(result, S::splat(1)));
            S::select(S::unordered_f(x, x), zero, result)
        } else {
            result
        }
    }
}

/// binary32 to signed integer: rounds as asked, saturates, NaN becomes 0.
#[inline(always)]
pub(crate) unsafe fn f32_to_i32<S: Simd>(rounding: Rounding, x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let integral = integral::<S>(rounding, x);
        let result = S::f32_to_i32_raw(integral);
        let result = if rounding == Rounding::Odd {
            // The odd one of the two neighbours is the floor with its lowest bit set.
            S::select(S::eq_f(integral, x), result, S::or(result, S::splat(1)))
        } else {
            result
        };
        let too_large = S::lt_f(S::splat(2_147_483_520f32.to_bits()), integral);
        let result = S::select(too_large, S::splat(i32::MAX as u32), result);
        S::select(S::unordered_f(x, x), S::splat(0), result)
    }
}

/// What division toward zero leaves; 0 where `b` is 0.
#[inline(always)]
pub(crate) unsafe fn fmod_i<S: Simd>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let zero = S::splat(0);
        S::select(S::eq_i(b, zero), zero, S::sub_i(a, S::mul_i(S::div_i(a, b), b)))
    }
}

/// As [`fmod_i`], for unsigned integers.
#[inline(always)]
pub(crate) unsafe fn fmod_u<S: Simd>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let zero = S::splat(0);
        S::select(S::eq_i(b, zero), zero, S::sub_i(a, S::mul_i(S::div_u(a, b), b)))
    }
}

/// What division toward minus infinity leaves; 0 where `b` is 0.
#[inline(always)]
pub(crate) unsafe fn rem_i<S: Simd>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let left = fmod_i::<S>(a, b);
        // All ones where the signs differ; then `b` is what is missing, unless nothing was left.
        let differ = S::sra::<31>(S::xor(left, b));
        S::select(S::eq_i(left, S::splat(0)), left, S::add_i(left, S::and(differ, b)))
    }
}
