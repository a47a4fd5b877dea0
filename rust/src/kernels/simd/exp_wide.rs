//! The exponential function where the processor has no fused multiply-add: in binary64.

use super::exp::{COEFFICIENTS, LN2_HIGH, LN2_LOW, NEAR_ZERO, ROOTS};

/// 1.5 * 2^48: adding it leaves a multiple of 1/16, with the sixteenths in the low bits.
const MAGIC: f64 = 422_212_465_065_984.0;

/// Where the exponent of binary64 begins, less the four bits of sixteenths.
const SIXTEENTHS_TO_EXPONENT: u32 = 52 - 4;

/// The bits of [`ROOTS`] in binary64, without what their own index, shifted to the exponent, adds to it.
const SHIFTED_ROOTS: [u64; 16] = {
    let mut roots = [0; 16];
    let mut i = 0;
    while i < 16 {
        roots[i] = (ROOTS[i] as f64).to_bits() - ((i as u64) << SIXTEENTHS_TO_EXPONENT);
        i += 1;
    }
    roots
};

/// Replaces all by their exponentials, the same numbers as [`super::exp_f`] gives, and returns true; where one of them is not
/// near 0, does nothing.
#[inline(always)]
pub(crate) fn exp_all_near(numbers: &mut [f32]) -> bool {
    let near = numbers.iter().fold(true, |near, x| near & (x.abs() <= NEAR_ZERO));
    if near {
        numbers.iter_mut().for_each(|x| *x = exp(*x));
    }
    near
}

/// As [`super::exp_f`], step by step. A product of two binary32 is exact in binary64, and so are the sums up to `r`; the other three
/// are rounded twice where there is one rounding in a fused multiply-add. For no `x` does that change the result: all of them
/// have been compared.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = f64::from(x);
    let sixteenths = x * f64::from(std::f32::consts::LOG2_E) + MAGIC;
    let n = sixteenths - MAGIC;
    let r = ((x - n * f64::from(LN2_HIGH)) - n * f64::from(LN2_LOW)) as f32;
    let [c2, c3] = COEFFICIENTS.map(f64::from);
    let p = (f64::from(r) * c3 + c2) as f32;
    let p = (f64::from(p) * f64::from(r * r) + f64::from(r)) as f32;
    let bits = sixteenths.to_bits();
    let power = SHIFTED_ROOTS[bits as usize % 16].wrapping_add(bits << SIXTEENTHS_TO_EXPONENT);
    let power = f64::from_bits(power);
    (power * f64::from(p) + power) as f32
}
