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

/// Numbers that are worked on together: step after step for all of them, so that the steps become vectors.
const LANES: usize = 8;

/// Replaces all by their exponentials, the same numbers as [`super::exp_f`] gives, and returns true; where one of them is not
/// near 0, does nothing. Their count is a multiple of eight.
#[inline(always)]
pub(crate) fn exp_all_near(numbers: &mut [f32]) -> bool {
    let near = numbers.iter().fold(true, |near, x| near & (x.abs() <= NEAR_ZERO));
    if near {
        numbers.as_chunks_mut::<LANES>().0.iter_mut().for_each(exp);
    }
    near
}

/// As [`super::exp_f`], step by step. A product of two binary32 is exact in binary64, and so are the sums up to `r`; the other three
/// are rounded twice where there is one rounding in a fused multiply-add. For no `x` does that change the result: all of them
/// have been compared.
#[allow(clippy::needless_range_loop)] // Several arrays at a time.
#[inline(always)]
fn exp(x: &mut [f32; LANES]) {
    let [c2, c3] = COEFFICIENTS;
    let (mut powers, mut r) = ([0; LANES], [0.0; LANES]);
    for i in 0..LANES {
        let x = f64::from(x[i]);
        let sixteenths = x * f64::from(std::f32::consts::LOG2_E) + MAGIC;
        let n = sixteenths - MAGIC;
        powers[i] = sixteenths.to_bits();
        r[i] = ((x - n * f64::from(LN2_HIGH)) - n * f64::from(LN2_LOW)) as f32;
    }
    for i in 0..LANES {
        let p = (f64::from(r[i]) * f64::from(c3) + f64::from(c2)) as f32;
        x[i] = (f64::from(p) * f64::from(r[i] * r[i]) + f64::from(r[i])) as f32;
    }
    for power in &mut powers {
        *power = SHIFTED_ROOTS[*power as usize % 16].wrapping_add(*power << SIXTEENTHS_TO_EXPONENT);
    }
    for i in 0..LANES {
        let power = f64::from_bits(powers[i]);
        x[i] = (power * f64::from(x[i]) + power) as f32;
    }
}
