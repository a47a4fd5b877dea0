//! The natural logarithm.

use super::Simd;

/// ln 2 in two parts. The upper one is rounded down, so that the lower one is positive: an infinite exponent times either is
/// the same infinity.
const LN2_HIGH: f32 = f32::from_bits(0x3f31_7217);
const LN2_LOW: f32 = 5.769_999e-8;

/// `(log(1 + f) - f) / f^2` over [-0.25, 0.5): minimax with weight `max(|f|, 0.12)`, each coefficient rounded before the
/// following were fitted. Its error is 2^-27 of the logarithm.
const COEFFICIENTS: [f32; 9] = [
    -0.5,
    0.333_334_45,
    -0.250_000_75,
    0.199_908_4,
    -0.166_484_58,
    0.144_824_24,
    -0.131_523_56,
    0.104_166_23,
    -0.044_640_195,
];

/// `log(x)`: `x = m * 2^e` with `m` near 1, a polynomial in `m - 1`, plus `e ln 2`.
#[inline(always)]
pub(crate) unsafe fn log_f<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let c = |value: f32| S::splat(value.to_bits());
        let (m, e) = S::split_f(x);
        let f = S::sub_f(m, c(1.0));
        let [c0, c1, c2, c3, c4, c5, c6, c7, c8] = COEFFICIENTS;
        let p = S::fma_f(c(c8), f, c(c7));
        let p = S::fma_f(p, f, c(c6));
        let p = S::fma_f(p, f, c(c5));
        let p = S::fma_f(p, f, c(c4));
        let p = S::fma_f(p, f, c(c3));
        let p = S::fma_f(p, f, c(c2));
        let p = S::fma_f(p, f, c(c1));
        let p = S::fma_f(p, f, c(c0));
        // Where `e` is 0, `f` itself is the leading term, and exact: the result near 1 is as good as anywhere.
        let small = S::fma_f(S::mul_f(f, f), p, S::mul_f(e, c(LN2_LOW)));
        S::fma_f(e, c(LN2_HIGH), S::add_f(f, small))
    }
}

/// [`Simd::split_f`] by integers, for instruction sets that have nothing better.
#[inline(always)]
pub(super) unsafe fn split_f<S: Simd>(x: S::V) -> (S::V, S::V) {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let c = |value: f32| S::splat(value.to_bits());
        let zero = S::splat(0);
        let subnormal = S::lt_f(x, c(f32::MIN_POSITIVE));
        let y = S::select(subnormal, S::mul_f(x, c(16_777_216.0)), x);
        let exponent = S::sra::<23>(S::sub_i(y, c(0.75)));
        let m = S::sub_i(y, S::shl::<23>(exponent));
        let e = S::sub_f(S::i32_to_f32(exponent), S::select(subnormal, c(24.0), zero));
        let e = S::select(S::eq_f(x, zero), c(f32::NEG_INFINITY), e);
        let e = S::select(S::eq_f(x, c(f32::INFINITY)), x, e);
        (S::select(S::le_f(zero, x), m, c(f32::NAN)), e)
    }
}
