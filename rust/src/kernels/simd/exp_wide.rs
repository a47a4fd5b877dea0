//! The exponential function where the processor has no fused multiply-add: in binary64.

use super::exp::{COEFFICIENTS, LN2_HIGH, LN2_LOW, NEAR_ZERO, ROOTS};
use super::pair::{self, Pair};

/// 1.5 * 2^48: adding it leaves a multiple of 1/16, with the sixteenths in the low bits.
const MAGIC: f64 = 422_212_465_065_984.0;

/// `2^(i/16)` by the low bits of `i`, that is, with negative `i` in the upper half. Scaling the root of a table of sixteen
/// takes a twelfth longer; of this one, a softmax reads 4 KiB.
static POWERS: [f64; 4096] = {
    let mut powers = [0.0; 4096];
    let mut i = 0;
    while i < 4096 {
        let exponent = (if i < 2048 { i as i64 } else { i as i64 - 4096 }) >> 4;
        powers[i] = f64::from_bits(((ROOTS[i % 16] as f64).to_bits() as i64 + (exponent << 52)) as u64);
        i += 1;
    }
    powers
};

/// Replaces all by their exponentials, the same numbers as [`super::exp_f`] gives, and returns true; where one of them is not
/// near 0, does nothing. Their count is a multiple of eight.
#[inline(always)]
pub(crate) fn exp_all_near(numbers: &mut [f32]) -> bool {
    let near = numbers.iter().fold(true, |near, x| near & (x.abs() <= NEAR_ZERO));
    if near {
        let (groups, rest) = numbers.as_chunks_mut::<2>().0.as_chunks_mut::<16>();
        groups.iter_mut().for_each(exp);
        rest.as_chunks_mut::<4>().0.iter_mut().for_each(exp);
    }
    near
}

/// As [`super::exp_f`], in two rounds, so that the processor has independent work at hand. A product of two binary32 is exact
/// in binary64. The sum with multiples of ln 2, whose two parts are one binary64, and those of the other steps are rounded to
/// 53 bits and then to 24, where a fused multiply-add rounds once; and of two numbers as near the larger is taken, for the square
/// the smaller. For no `x` does any of that change the result: all of them have been compared.
#[allow(clippy::needless_range_loop)] // Several arrays at a time.
#[inline(always)]
fn exp<const PAIRS: usize>(numbers: &mut [[f32; 2]; PAIRS]) {
    let all = |value: f64| pair::new([value; 2]);
    let [c2, c3] = [all(f64::from(COEFFICIENTS[0])), all(f64::from(COEFFICIENTS[1]))];
    let (mut r, mut sixteenths) = ([all(0.0); PAIRS], [all(0.0); PAIRS]);
    for i in 0..PAIRS {
        let x = pair::widen_two(numbers[i]);
        let shifted = pair::add(pair::mul(x, all(f64::from(std::f32::consts::LOG2_E))), all(MAGIC));
        let n = pair::sub(shifted, all(MAGIC));
        r[i] = nearest(pair::sub(x, pair::mul(n, all(LN2_HIGH as f64 + LN2_LOW as f64))));
        sixteenths[i] = shifted;
    }
    for i in 0..PAIRS {
        let square = pair::cut(pair::add_less_than_half(pair::mul(r[i], r[i])));
        let p = nearest(pair::add(pair::mul(r[i], c3), c2));
        let p = nearest(pair::add(pair::mul(p, square), r[i]));
        let [low, high] = pair::low_bits(sixteenths[i]);
        let power = pair::new([POWERS[low as usize % 4096], POWERS[high as usize % 4096]]);
        numbers[i] = pair::narrow_two(pair::add(pair::mul(power, p), power));
    }
}

/// To 24 bits.
#[inline(always)]
fn nearest(a: Pair) -> Pair {
    pair::cut(pair::add_half(a))
}
