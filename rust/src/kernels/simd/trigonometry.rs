//! Sine and cosine.
//!
//! `x = n pi/2 + r` with `|r|` at most a bit over pi/4; the result is the sine or the cosine of `r`, by the parity of `n`, with a
//! sign. Beyond [`REACH`] the three parts of pi/2 that the vectors use are too short: those lanes are reduced one by one by 128
//! bits of 1/pi.
//!
//! One polynomial over +-pi/2 instead of two over +-pi/4 would save the selections, a sixth of the time, but its terms are as
//! large as the result, so that their roundings add up to 1.97 units in the last place instead of 1.47.

use super::Simd;

/// Up to here `n` has so few bits that the remainder is exact but for the last place.
const REACH: f32 = 32_768.0;

/// pi/2 in three parts, the first two of 24 bits.
const QUARTER_HIGH: f32 = std::f32::consts::FRAC_PI_2;
const QUARTER_MIDDLE: f32 = -4.371_139e-8;
const QUARTER_LOW: f32 = -1.715_124_5e-15;

/// 1.5 * 2^23: adding it leaves an integer in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// `(sin(r) - r) / r^3` and `(cos(r) - 1) / r^2` in powers of `r^2` for `|r|` up to 0.7876: minimax, weighted by the results, each
/// coefficient rounded before the following were fitted. Their errors are 2^-32 of the results.
const SINE: [f32; 4] = [-0.166_666_67, 0.008_333_379, -0.000_198_530_51, 2.832_265_2e-6];
const COSINE: [f32; 4] = [-0.5, 0.041_666_646, -0.001_388_730_8, 2.443_208_4e-5];

/// `sin(x)`.
#[inline(always)]
pub(crate) unsafe fn sin_f<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let size = S::and(x, S::splat(0x7fff_ffff));
        let sine = shifted_sine::<S>(size, 0);
        or_one_by_one::<S>(x, size, S::xor(sine, S::and(x, S::splat(0x8000_0000))), 0)
    }
}

/// `cos(x)`: the sine a quarter of a turn further on.
#[inline(always)]
pub(crate) unsafe fn cos_f<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let size = S::and(x, S::splat(0x7fff_ffff));
        or_one_by_one::<S>(x, size, shifted_sine::<S>(size, 1), 1 << 126)
    }
}

/// `sin(x + quarters pi/2)`; `x` is not negative and at most [`REACH`].
#[inline(always)]
unsafe fn shifted_sine<S: Simd>(x: S::V, quarters: u32) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let c = |value: f32| S::splat(value.to_bits());
        let count = S::fma_f(x, c(std::f32::consts::FRAC_2_PI), c(MAGIC));
        let n = S::sub_f(count, c(MAGIC));
        let count = S::add_i(count, S::splat(quarters));
        // Exact, since the last bits of both are at the same place; then rounded once. What the lowest part of pi/2 takes away
        // is added to the smaller terms: a second rounding of `r` would show in the result.
        let r = S::fma_f(n, c(-QUARTER_HIGH), x);
        let r = S::fma_f(n, c(-QUARTER_MIDDLE), r);
        let square = S::mul_f(r, r);
        // Both functions are `first + first * square * p`.
        let odd = S::eq_i(S::and(count, S::splat(1)), S::splat(1));
        let either = |i: usize| S::select(odd, c(COSINE[i]), c(SINE[i]));
        let first = S::select(odd, c(1.0), r);
        let p = S::fma_f(either(3), square, either(2));
        let p = S::fma_f(p, square, either(1));
        let p = S::fma_f(p, square, either(0));
        // For the cosine the lowest part is too small to matter, right or wrong.
        let small = S::fma_f(S::mul_f(first, square), p, S::mul_f(n, c(-QUARTER_LOW)));
        // Two quarters change the sign.
        S::xor(S::add_f(first, small), S::shl::<31>(S::sra::<1>(count)))
    }
}

/// `result`, where no lane is beyond the reach of the vectors; else those lanes by themselves, `shift` as in [`large`].
#[inline(always)]
unsafe fn or_one_by_one<S: Simd>(x: S::V, size: S::V, result: S::V, shift: u128) -> S::V {
    // SAFETY: the caller vouches for the instruction set; a vector has at most 16 lanes.
    unsafe {
        if !S::any(S::lt_f(S::splat(REACH.to_bits()), size)) {
            return result;
        }
        let (mut inputs, mut results) = ([0f32; 16], [0f32; 16]);
        S::store(inputs.as_mut_ptr().cast(), x);
        S::store(results.as_mut_ptr().cast(), result);
        one_by_one(&inputs, &mut results, shift);
        S::load(results.as_ptr().cast())
    }
}

#[cold]
#[inline(never)]
fn one_by_one(inputs: &[f32; 16], results: &mut [f32; 16], shift: u128) {
    for (&x, result) in inputs.iter().zip(results) {
        if x.abs() > REACH {
            let sine = if x.is_finite() { large(x.abs(), shift) } else { f32::NAN };
            // The cosine is even.
            *result = if shift == 0 && x < 0.0 { -sine } else { sine };
        }
    }
}

/// 1 / pi in binary after 64 zeros: the binary point is behind the first word.
const INVERSE_PI: [u64; 5] =
    [0, 0x517c_c1b7_2722_0a94, 0xfe13_abe8_fa9a_6ee0, 0x6db1_4acc_9e21_c820, 0xff28_b1d5_ef5d_e2b0];

/// `sin(x + shift pi / 2^127)` of a finite `x` above [`REACH`].
///
/// Half turns are counted in fixed point with 127 bits behind the point and one before it, since whole turns do not
/// matter. `x` has 24 bits and comes no closer to a multiple of pi than 2^-31 or so; 2^24 errors in the last place leave 70 good
/// bits even then.
fn large(x: f32, shift: u128) -> f32 {
    let mantissa = u128::from(x.to_bits() & 0x007f_ffff | 0x0080_0000);
    let exponent = (x.to_bits() >> 23) as usize + 64 - 150;
    // From the bit of weight 2^-exponent on: times the mantissa, that is where the half turns are.
    let (word, bit) = ((exponent - 1) / 64, (exponent - 1) % 64);
    let high = u128::from(INVERSE_PI[word]) << 64 | u128::from(INVERSE_PI[word + 1]);
    let window = high << bit | u128::from(INVERSE_PI[word + 2]) << bit >> 64;
    let turns = window.wrapping_mul(mantissa).wrapping_add(shift);
    // The nearest whole number of half turns, of which only the parity is left, and the signed rest.
    let odd = turns.wrapping_add(1 << 126) >> 127;
    let rest = turns.wrapping_sub(odd << 127) as i128;
    let r = rest as f64 * (std::f64::consts::PI / (1u128 << 127) as f64);
    let square = r * r;
    // Taylor to r^15: what is left out is below 2^-37 of the sine.
    let sine =
        r * [210.0, 156.0, 110.0, 72.0, 42.0, 20.0, 6.0].iter().fold(1.0, |p, divisor| 1.0 - square / divisor * p);
    (if odd == 1 { -sine } else { sine }) as f32
}
