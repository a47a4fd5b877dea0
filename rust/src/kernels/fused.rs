//! `fma` in binary32 where the processor has no instruction for it: rounded once, without a call, in a form that vectorises.

/// `a * b + c` of each lane, rounded once.
///
/// The product is exact in binary64, so only the sum is rounded twice: to 53 bits and to 24. That differs from rounding once
/// where the first rounding lands on the middle between two numbers of 24 bits, or where the result is subnormal and has
/// fewer. Both are rare and take [`to_odd`].
#[inline(always)]
pub(crate) fn fma_lanes<const N: usize>(a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
    let sums: [f64; N] = std::array::from_fn(|i| f64::from(a[i]) * f64::from(b[i]) + f64::from(c[i]));
    let risky = sums.iter().fold(false, |risky, sum| {
        let middle = sum.to_bits() as u32 & 0x1fff_ffff == 0x1000_0000;
        let subnormal = (sum.abs() < f64::from(f32::MIN_POSITIVE)) & (*sum != 0.0);
        risky | middle | subnormal
    });
    if risky { to_odd(a, b, c) } else { sums.map(|sum| sum as f32) }
}

/// As [`fma_lanes`], for any operands.
#[cold]
#[inline(never)]
fn to_odd<const N: usize>(a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
    std::array::from_fn(|i| sum_once(f64::from(a[i]) * f64::from(b[i]), f64::from(c[i])))
}

/// `product + c`, rounded once to binary32; `product` is one of two binary32, and `c` a binary32.
///
/// The sum is rounded to odd, that is, where it is inexact, its last bit is set to 1 by moving toward the exact value or away
/// from zero. 53 bits are more than twice 24 plus 2, so rounding that to binary32 is the same as rounding the exact sum,
/// subnormal results included.
#[inline(always)]
pub(crate) fn sum_once(product: f64, c: f64) -> f32 {
    let sum = product + c;
    // Knuth's two-sum: `error` is exactly what `sum` lost. It is NaN where the sum is not finite: then nothing is added.
    let c_part = sum - product;
    let error = (product - (sum - c_part)) + (c - c_part);
    let bits = sum.to_bits();
    let inexact = (error > 0.0) | (error < 0.0);
    let away = (error > 0.0) == (sum > 0.0);
    let step = (inexact & (bits & 1 == 0)) as u64;
    f64::from_bits(if away { bits.wrapping_add(step) } else { bits.wrapping_sub(step) }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LANES: usize = 8;

    fn agrees(a: f32, b: f32, c: f32) {
        let (ours, theirs) = (fma_lanes([a; LANES], [b; LANES], [c; LANES])[0], a.mul_add(b, c));
        let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
        assert!(same, "fma({a:?}, {b:?}, {c:?}) is {ours:?}, not {theirs:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn fma_is_rounded_once(a: u32, b: u32, c: u32) {
            agrees(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
        }

        #[test]
        fn fma_is_rounded_once_where_product_and_addend_meet(a: u32, b: u32, near in -30i32..30, sign: bool) {
            let (a, b) = (f32::from_bits(a), f32::from_bits(b));
            // The addend is the rounded product, scaled, so that ties and cancellation are common.
            let c = a * b * 2f32.powi(near);
            agrees(a, b, if sign { -c } else { c });
        }

        #[test]
        fn fma_is_rounded_once_where_the_addend_is_near_the_negated_product(a: u32, b: u32, near in 0u32..64) {
            let (a, b) = (f32::from_bits(a), f32::from_bits(b));
            agrees(a, b, f32::from_bits((-(a * b)).to_bits() ^ near));
        }

        #[test]
        fn fma_is_rounded_once_to_subnormal_results(a in 1u32..0x80_0000, b in 0x3f00_0000u32..0x4080_0000, c in 0u32..0x100_0000) {
            agrees(f32::from_bits(a), f32::from_bits(b), -f32::from_bits(c));
        }
    }
}
