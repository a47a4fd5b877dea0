//! Vectors as arrays: what every processor can run, and what the others are compared with. Loops over 16 lanes, which
//! compilers turn into the vectors of the target.

use super::Simd;
use crate::kernels::convert;

/// No instruction set beyond the target's.
#[derive(Clone, Copy)]
pub(crate) struct Generic;

/// 16 lanes.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct V([u32; 16]);

#[inline(always)]
fn map(a: V, f: impl Fn(u32) -> u32) -> V {
    V(std::array::from_fn(|i| f(a.0[i])))
}

#[inline(always)]
fn zip(a: V, b: V, f: impl Fn(u32, u32) -> u32) -> V {
    V(std::array::from_fn(|i| f(a.0[i], b.0[i])))
}

#[inline(always)]
fn map_f(a: V, f: impl Fn(f32) -> f32) -> V {
    map(a, |a| f(f32::from_bits(a)).to_bits())
}

#[inline(always)]
fn zip_f(a: V, b: V, f: impl Fn(f32, f32) -> f32) -> V {
    zip(a, b, |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits())
}

#[inline(always)]
fn compare_f(a: V, b: V, f: impl Fn(f32, f32) -> bool) -> V {
    zip(a, b, |a, b| mask(f(f32::from_bits(a), f32::from_bits(b))))
}

/// All bits or none.
#[inline(always)]
fn mask(truth: bool) -> u32 {
    (truth as u32).wrapping_neg()
}

/// `a * b + c`, rounded once, without an instruction for it and without a call.
///
/// The product is exact in binary64. The sum is rounded to odd there: where it is inexact, its last bit is set to 1 by moving
/// toward the exact value or away from zero. 53 bits are more than twice 24 plus 2, so rounding that to binary32 is
/// the same as rounding the exact sum, subnormal results included.
#[inline(always)]
pub(super) fn fma(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    // Knuth's two-sum: `error` is exactly what `sum` lost. It is NaN where the sum is not finite: then nothing is added.
    let c_part = sum - product;
    let error = (product - (sum - c_part)) + (c - c_part);
    let bits = sum.to_bits();
    let inexact = (error > 0.0) | (error < 0.0);
    let away = (error > 0.0) == (sum > 0.0);
    let step = (inexact & (bits & 1 == 0)) as u64;
    let bits = if away { bits.wrapping_add(step) } else { bits.wrapping_sub(step) };
    f64::from_bits(bits) as f32
}

/// [`Simd::max_num`] of one lane.
#[inline(always)]
fn max_num(a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    if x > y {
        a
    } else if y > x {
        b
    } else {
        a & b
    }
}

/// [`Simd::min_num`] of one lane.
#[inline(always)]
fn min_num(a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    if x < y {
        a
    } else if y < x {
        b
    } else {
        a | b
    }
}

/// Integral part by the rule `f` for the numbers that have a fraction; the others (and NaN) are their own.
#[inline(always)]
fn integral(x: f32, f: impl Fn(f32) -> f32) -> f32 {
    const ALL_INTEGRAL: f32 = 8_388_608.0;
    // The sign is put back for results that are zero.
    if x.abs() < ALL_INTEGRAL { f(x).copysign(x) } else { x }
}

#[inline(always)]
fn trunc(x: f32) -> f32 {
    x as i32 as f32
}

impl Simd for Generic {
    type V = V;
    type H = [u16; 16];
    type B = [u8; 16];
    type M = V;
    type Part = usize;

    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn part(n: usize) -> usize {
        n
    }
    #[inline(always)]
    unsafe fn keep(part: usize, v: V, rest: V) -> V {
        V(std::array::from_fn(|i| if i < part { v.0[i] } else { rest.0[i] }))
    }
    #[inline(always)]
    unsafe fn splat(bits: u32) -> V {
        V([bits; 16])
    }
    #[inline(always)]
    unsafe fn first(v: V) -> u32 {
        v.0[0]
    }
    #[inline(always)]
    unsafe fn down<const K: u32>(v: V) -> V {
        V(std::array::from_fn(|i| v.0[(i + K as usize) % 16]))
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> V {
        // SAFETY: the caller vouches for 16 elements.
        V(unsafe { p.cast::<[u32; 16]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_part(p: *const u8, part: usize) -> V {
        let mut v = V([0; 16]);
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(p, v.0.as_mut_ptr().cast(), part * 4) };
        v
    }
    #[inline(always)]
    unsafe fn store(p: *mut u8, v: V) {
        // SAFETY: the caller vouches for 16 elements.
        unsafe { p.cast::<[u32; 16]>().write_unaligned(v.0) }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut u8, v: V, part: usize) {
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(v.0.as_ptr().cast(), p, part * 4) }
    }
    #[inline(always)]
    unsafe fn stream(p: *mut u8, v: V) {
        // SAFETY: as for `store`.
        unsafe { Self::store(p, v) }
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
    #[inline(always)]
    unsafe fn load_h(p: *const u8) -> [u16; 16] {
        // SAFETY: the caller vouches for 16 elements.
        unsafe { p.cast::<[u16; 16]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_h_part(p: *const u8, part: usize) -> [u16; 16] {
        let mut v = [0; 16];
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(p, v.as_mut_ptr().cast(), part * 2) };
        v
    }
    #[inline(always)]
    unsafe fn store_h(p: *mut u8, v: [u16; 16]) {
        // SAFETY: the caller vouches for 16 elements.
        unsafe { p.cast::<[u16; 16]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_h_part(p: *mut u8, v: [u16; 16], part: usize) {
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(v.as_ptr().cast(), p, part * 2) }
    }
    #[inline(always)]
    unsafe fn stream_h(p: *mut u8, v: [u16; 16]) {
        // SAFETY: as for `store_h`.
        unsafe { Self::store_h(p, v) }
    }
    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> [u8; 16] {
        // SAFETY: the caller vouches for 16 elements.
        unsafe { p.cast::<[u8; 16]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_b_part(p: *const u8, part: usize) -> [u8; 16] {
        let mut v = [0; 16];
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(p, v.as_mut_ptr(), part) };
        v
    }
    #[inline(always)]
    unsafe fn store_b(p: *mut u8, v: [u8; 16]) {
        // SAFETY: the caller vouches for 16 elements.
        unsafe { p.cast::<[u8; 16]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_b_part(p: *mut u8, v: [u8; 16], part: usize) {
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(v.as_ptr(), p, part) }
    }

    #[inline(always)]
    unsafe fn widen_f16(h: [u16; 16]) -> V {
        V(h.map(|h| convert::f16_to_f32(h).to_bits()))
    }
    #[inline(always)]
    unsafe fn widen_bf16(h: [u16; 16]) -> V {
        V(h.map(|h| convert::bf16_to_f32(h).to_bits()))
    }
    #[inline(always)]
    unsafe fn widen_i16(h: [u16; 16]) -> V {
        V(h.map(|h| h as i16 as u32))
    }
    #[inline(always)]
    unsafe fn widen_u16(h: [u16; 16]) -> V {
        V(h.map(u32::from))
    }
    #[inline(always)]
    unsafe fn widen_i8(b: [u8; 16]) -> V {
        V(b.map(|b| b as i8 as u32))
    }
    #[inline(always)]
    unsafe fn widen_u8(b: [u8; 16]) -> V {
        V(b.map(u32::from))
    }
    #[inline(always)]
    unsafe fn narrow_f16(v: V) -> [u16; 16] {
        v.0.map(|v| convert::f32_to_f16(f32::from_bits(v)))
    }
    #[inline(always)]
    unsafe fn narrow_bf16(v: V) -> [u16; 16] {
        v.0.map(|v| convert::f32_to_bf16(f32::from_bits(v)))
    }
    #[inline(always)]
    unsafe fn narrow_16(v: V) -> [u16; 16] {
        v.0.map(|v| v as u16)
    }
    #[inline(always)]
    unsafe fn narrow_8(v: V) -> [u8; 16] {
        v.0.map(|v| v as u8)
    }

    #[inline(always)]
    unsafe fn add_f(a: V, b: V) -> V {
        zip_f(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub_f(a: V, b: V) -> V {
        zip_f(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul_f(a: V, b: V) -> V {
        zip_f(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div_f(a: V, b: V) -> V {
        zip_f(a, b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn sqrt_f(a: V) -> V {
        map_f(a, f32::sqrt)
    }
    #[inline(always)]
    unsafe fn fma_f(a: V, b: V, c: V) -> V {
        V(std::array::from_fn(|i| {
            fma(f32::from_bits(a.0[i]), f32::from_bits(b.0[i]), f32::from_bits(c.0[i])).to_bits()
        }))
    }
    #[inline(always)]
    unsafe fn max_num(a: V, b: V) -> V {
        zip(a, b, max_num)
    }
    #[inline(always)]
    unsafe fn min_num(a: V, b: V) -> V {
        zip(a, b, min_num)
    }
    #[inline(always)]
    unsafe fn at_least_f(x: V, low: V) -> V {
        zip_f(x, low, |x, low| if x < low { low } else { x })
    }
    #[inline(always)]
    unsafe fn at_most_f(x: V, high: V) -> V {
        zip_f(x, high, |x, high| if x > high { high } else { x })
    }
    #[inline(always)]
    unsafe fn relu_f(x: V) -> V {
        map_f(x, |x| if x <= 0.0 { 0.0 } else { x })
    }
    #[inline(always)]
    unsafe fn scale_f(x: V, n: V) -> V {
        // Two factors, since 2^n itself may be out of range; the first product is exact.
        zip_f(x, n, |x, n| {
            let n = n as i32;
            let half = n >> 1;
            let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
            x * power(half) * power(n - half)
        })
    }
    #[inline(always)]
    unsafe fn trunc_f(x: V) -> V {
        map_f(x, |x| integral(x, trunc))
    }
    #[inline(always)]
    unsafe fn floor_f(x: V) -> V {
        map_f(x, |x| integral(x, |x| if trunc(x) > x { trunc(x) - 1.0 } else { trunc(x) }))
    }
    #[inline(always)]
    unsafe fn ceil_f(x: V) -> V {
        map_f(x, |x| integral(x, |x| if trunc(x) < x { trunc(x) + 1.0 } else { trunc(x) }))
    }
    #[inline(always)]
    unsafe fn round_even_f(x: V) -> V {
        // Adding 2^23 to a smaller magnitude leaves no place for a fraction.
        map_f(x, |x| integral(x, |x| x.abs() + 8_388_608.0 - 8_388_608.0))
    }

    #[inline(always)]
    unsafe fn lt_f(a: V, b: V) -> V {
        compare_f(a, b, |a, b| a < b)
    }
    #[inline(always)]
    unsafe fn eq_f(a: V, b: V) -> V {
        compare_f(a, b, |a, b| a == b)
    }
    #[inline(always)]
    unsafe fn unordered_f(a: V, b: V) -> V {
        compare_f(a, b, |a, b| a.is_nan() | b.is_nan())
    }
    #[inline(always)]
    unsafe fn eq_i(a: V, b: V) -> V {
        zip(a, b, |a, b| mask(a == b))
    }
    #[inline(always)]
    unsafe fn select(m: V, a: V, b: V) -> V {
        V(std::array::from_fn(|i| (m.0[i] & a.0[i]) | (!m.0[i] & b.0[i])))
    }
    #[inline(always)]
    unsafe fn any(m: V) -> bool {
        m.0.iter().fold(0, |all, lane| all | lane) != 0
    }
    #[inline(always)]
    unsafe fn or_m(a: V, b: V) -> V {
        zip(a, b, |a, b| a | b)
    }

    #[inline(always)]
    unsafe fn and(a: V, b: V) -> V {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    unsafe fn or(a: V, b: V) -> V {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    unsafe fn xor(a: V, b: V) -> V {
        zip(a, b, |a, b| a ^ b)
    }

    #[inline(always)]
    unsafe fn add_i(a: V, b: V) -> V {
        zip(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    unsafe fn sub_i(a: V, b: V) -> V {
        zip(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    unsafe fn mul_i(a: V, b: V) -> V {
        zip(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    unsafe fn div_i(a: V, b: V) -> V {
        zip(a, b, |a, b| if b == 0 { 0 } else { (a as i32).wrapping_div(b as i32) as u32 })
    }
    #[inline(always)]
    unsafe fn max_i(a: V, b: V) -> V {
        zip(a, b, |a, b| (a as i32).max(b as i32) as u32)
    }
    #[inline(always)]
    unsafe fn min_i(a: V, b: V) -> V {
        zip(a, b, |a, b| (a as i32).min(b as i32) as u32)
    }
    #[inline(always)]
    unsafe fn shl<const K: u32>(a: V) -> V {
        map(a, |a| a << K)
    }
    #[inline(always)]
    unsafe fn sra<const K: u32>(a: V) -> V {
        map(a, |a| ((a as i32) >> K) as u32)
    }
    #[inline(always)]
    unsafe fn i32_to_f32(a: V) -> V {
        map(a, |a| (a as i32 as f32).to_bits())
    }
    #[inline(always)]
    unsafe fn f32_to_i32_raw(a: V) -> V {
        map_to_i32(a)
    }
}

/// Truncates; what the vector instructions give for a number that does not fit is `i32::MIN`.
#[inline(always)]
fn map_to_i32(a: V) -> V {
    map(a, |a| {
        let x = f32::from_bits(a);
        if x.abs() < 2_147_483_648.0 { x as i32 as u32 } else { i32::MIN as u32 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn agrees(a: f32, b: f32, c: f32) {
        let (ours, theirs) = (fma(a, b, c), a.mul_add(b, c));
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
        fn fma_is_rounded_once_to_subnormal_results(a in 1u32..0x80_0000, b in 0x3f00_0000u32..0x4080_0000, c in 0u32..0x100_0000) {
            agrees(f32::from_bits(a), f32::from_bits(b), -f32::from_bits(c));
        }
    }
}
