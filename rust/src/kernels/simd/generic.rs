//! Vectors of what every processor of the target has: two [`quad`]s.
//!
//! Functions that a quad has no instruction for go lane by lane, and are not inlined: there are eight vectors in a chunk and
//! a hundred instructions of the interpreter.

use super::Simd;
use super::log::split_f;
use super::quad::{self, Quad};
use crate::kernels::convert;
use crate::kernels::fused::fma_lanes;

/// No instruction set beyond the target's.
#[derive(Clone, Copy)]
pub(crate) struct Generic;

const LANES: usize = 8;

/// 8 lanes.
#[derive(Clone, Copy)]
pub(crate) struct V(Quad, Quad);

impl V {
    #[inline(always)]
    fn new(lanes: [u32; LANES]) -> Self {
        let [a, b, c, d, e, f, g, h] = lanes;
        V(quad::new([a, b, c, d]), quad::new([e, f, g, h]))
    }

    #[inline(always)]
    fn lanes(self) -> [u32; LANES] {
        let ([a, b, c, d], [e, f, g, h]) = (quad::lanes(self.0), quad::lanes(self.1));
        [a, b, c, d, e, f, g, h]
    }

    #[inline(always)]
    fn floats(self) -> [f32; LANES] {
        self.lanes().map(f32::from_bits)
    }
}

#[inline(always)]
fn map(a: V, f: impl Fn(Quad) -> Quad) -> V {
    V(f(a.0), f(a.1))
}

#[inline(always)]
fn zip(a: V, b: V, f: impl Fn(Quad, Quad) -> Quad) -> V {
    V(f(a.0, b.0), f(a.1, b.1))
}

#[inline(always)]
fn map_lanes(a: V, f: impl Fn(u32) -> u32) -> V {
    V::new(a.lanes().map(f))
}

#[inline(always)]
fn zip_lanes(a: V, b: V, f: impl Fn(u32, u32) -> u32) -> V {
    let (a, b) = (a.lanes(), b.lanes());
    V::new(std::array::from_fn(|i| f(a[i], b[i])))
}

#[inline(always)]
fn select(mask: Quad, a: Quad, b: Quad) -> Quad {
    quad::or(quad::and(mask, a), quad::and_not(mask, b))
}

/// `a > b` of unsigned integers.
#[inline(always)]
fn gt_u(a: Quad, b: Quad) -> Quad {
    let sign = quad::new([1 << 31; 4]);
    quad::gt_i(quad::xor(a, sign), quad::xor(b, sign))
}

/// Integral part by the rule `f` for the numbers that have a fraction; the others (and NaN) are their own.
#[inline(always)]
fn integral(x: V, f: impl Fn(f32) -> f32) -> V {
    const ALL_INTEGRAL: f32 = 8_388_608.0;
    map_lanes(x, |x| {
        let x = f32::from_bits(x);
        // The sign is put back for results that are zero.
        let rounded = if x.abs() < ALL_INTEGRAL { f(x).copysign(x) } else { x };
        rounded.to_bits()
    })
}

#[inline(always)]
fn trunc(x: f32) -> f32 {
    x as i32 as f32
}

impl Simd for Generic {
    type V = V;
    type H = [u16; LANES];
    type B = [u8; LANES];
    type M = V;
    type Part = usize;

    const LANES: usize = LANES;
    const REGISTERS: usize = 8;
    const FUSES: bool = false;

    #[inline(always)]
    unsafe fn part(n: usize) -> usize {
        n
    }
    #[inline(never)]
    unsafe fn keep(part: usize, v: V, rest: V) -> V {
        let (v, rest) = (v.lanes(), rest.lanes());
        V::new(std::array::from_fn(|i| if i < part { v[i] } else { rest[i] }))
    }
    #[inline(never)]
    unsafe fn pick(table: &[f32; 16], index: V) -> V {
        map_lanes(index, |index| table[index as usize % 16].to_bits())
    }
    #[inline(always)]
    unsafe fn iota() -> V {
        V(quad::new([0, 1, 2, 3]), quad::new([4, 5, 6, 7]))
    }
    #[inline(always)]
    unsafe fn splat(bits: u32) -> V {
        V(quad::new([bits; 4]), quad::new([bits; 4]))
    }
    #[inline(always)]
    unsafe fn first(v: V) -> u32 {
        quad::lanes(v.0)[0]
    }
    #[inline(always)]
    unsafe fn down<const K: u32>(v: V) -> V {
        let v = v.lanes();
        V::new(std::array::from_fn(|i| v[(i + K as usize) % LANES]))
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> V {
        // SAFETY: the caller vouches for 8 elements.
        unsafe { V(p.cast::<Quad>().read_unaligned(), p.add(16).cast::<Quad>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const u8, part: usize) -> V {
        let mut lanes = [0u32; LANES];
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr().cast(), part * 4) };
        V::new(lanes)
    }
    #[inline(always)]
    unsafe fn store(p: *mut u8, v: V) {
        // SAFETY: the caller vouches for 8 elements.
        unsafe {
            p.cast::<Quad>().write_unaligned(v.0);
            p.add(16).cast::<Quad>().write_unaligned(v.1);
        }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut u8, v: V, part: usize) {
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(v.lanes().as_ptr().cast(), p, part * 4) }
    }
    #[inline(always)]
    unsafe fn stream(p: *mut u8, v: V) {
        // SAFETY: as for `store`.
        unsafe { Self::store(p, v) }
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
    #[inline(always)]
    unsafe fn load_h(p: *const u8) -> [u16; LANES] {
        // SAFETY: the caller vouches for 8 elements.
        unsafe { p.cast::<[u16; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_h_part(p: *const u8, part: usize) -> [u16; LANES] {
        let mut v = [0; LANES];
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(p, v.as_mut_ptr().cast(), part * 2) };
        v
    }
    #[inline(always)]
    unsafe fn store_h(p: *mut u8, v: [u16; LANES]) {
        // SAFETY: the caller vouches for 8 elements.
        unsafe { p.cast::<[u16; LANES]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_h_part(p: *mut u8, v: [u16; LANES], part: usize) {
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(v.as_ptr().cast(), p, part * 2) }
    }
    #[inline(always)]
    unsafe fn stream_h(p: *mut u8, v: [u16; LANES]) {
        // SAFETY: as for `store_h`.
        unsafe { Self::store_h(p, v) }
    }
    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> [u8; LANES] {
        // SAFETY: the caller vouches for 8 elements.
        unsafe { p.cast::<[u8; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_b_part(p: *const u8, part: usize) -> [u8; LANES] {
        let mut v = [0; LANES];
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(p, v.as_mut_ptr(), part) };
        v
    }
    #[inline(always)]
    unsafe fn store_b(p: *mut u8, v: [u8; LANES]) {
        // SAFETY: the caller vouches for 8 elements.
        unsafe { p.cast::<[u8; LANES]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_b_part(p: *mut u8, v: [u8; LANES], part: usize) {
        // SAFETY: the caller vouches for `part` elements.
        unsafe { std::ptr::copy_nonoverlapping(v.as_ptr(), p, part) }
    }

    #[inline(never)]
    unsafe fn widen_f16(h: [u16; LANES]) -> V {
        V::new(h.map(|h| convert::f16_to_f32(h).to_bits()))
    }
    #[inline(never)]
    unsafe fn widen_bf16(h: [u16; LANES]) -> V {
        V::new(h.map(|h| u32::from(h) << 16))
    }
    #[inline(never)]
    unsafe fn widen_i16(h: [u16; LANES]) -> V {
        V::new(h.map(|h| h as i16 as u32))
    }
    #[inline(never)]
    unsafe fn widen_u16(h: [u16; LANES]) -> V {
        V::new(h.map(u32::from))
    }
    #[inline(never)]
    unsafe fn widen_i8(b: [u8; LANES]) -> V {
        V::new(b.map(|b| b as i8 as u32))
    }
    #[inline(never)]
    unsafe fn widen_u8(b: [u8; LANES]) -> V {
        V::new(b.map(u32::from))
    }
    #[inline(never)]
    unsafe fn narrow_f16(v: V) -> [u16; LANES] {
        v.floats().map(convert::f32_to_f16)
    }
    #[inline(never)]
    unsafe fn narrow_bf16(v: V) -> [u16; LANES] {
        v.floats().map(convert::f32_to_bf16)
    }
    #[inline(never)]
    unsafe fn narrow_16(v: V) -> [u16; LANES] {
        v.lanes().map(|v| v as u16)
    }
    #[inline(never)]
    unsafe fn narrow_8(v: V) -> [u8; LANES] {
        v.lanes().map(|v| v as u8)
    }

    #[inline(always)]
    unsafe fn add_f(a: V, b: V) -> V {
        zip(a, b, quad::add_f)
    }
    #[inline(always)]
    unsafe fn sub_f(a: V, b: V) -> V {
        zip(a, b, quad::sub_f)
    }
    #[inline(always)]
    unsafe fn mul_f(a: V, b: V) -> V {
        zip(a, b, quad::mul_f)
    }
    #[inline(always)]
    unsafe fn div_f(a: V, b: V) -> V {
        zip(a, b, quad::div_f)
    }
    #[inline(always)]
    unsafe fn sqrt_f(a: V) -> V {
        map(a, quad::sqrt_f)
    }
    #[inline(never)]
    unsafe fn fma_f(a: V, b: V, c: V) -> V {
        V::new(fma_lanes(a.floats(), b.floats(), c.floats()).map(f32::to_bits))
    }
    // Of two zeros, which are equal, both are taken, and the signs combined.
    #[inline(always)]
    unsafe fn max_num(a: V, b: V) -> V {
        zip(a, b, |a, b| quad::and(quad::larger_f(a, b), quad::larger_f(b, a)))
    }
    #[inline(always)]
    unsafe fn min_num(a: V, b: V) -> V {
        zip(a, b, |a, b| quad::or(quad::smaller_f(a, b), quad::smaller_f(b, a)))
    }
    // The second operand is the result where the two are equal or one is NaN.
    #[inline(always)]
    unsafe fn at_least_f(x: V, low: V) -> V {
        zip(low, x, quad::larger_f)
    }
    #[inline(always)]
    unsafe fn at_most_f(x: V, high: V) -> V {
        zip(high, x, quad::smaller_f)
    }
    #[inline(always)]
    unsafe fn relu_f(x: V) -> V {
        let zero = quad::new([0; 4]);
        map(x, |x| quad::and(quad::not_le_f(x, zero), x))
    }
    #[inline(always)]
    unsafe fn split_f(x: V) -> (V, V) {
        // SAFETY: there is no instruction set to have.
        unsafe { split_f::<Self>(x) }
    }
    #[inline(always)]
    unsafe fn scale_f(x: V, n: V) -> V {
        // Two factors, since 2^n itself may be out of range; the first product is exact.
        zip(x, n, |x, n| {
            // A sixteenth as an integer, since the quad has no floor.
            let n = quad::sra::<4>(quad::f32_to_i32_raw(quad::mul_f(n, quad::new([16f32.to_bits(); 4]))));
            let half = quad::sra::<1>(n);
            let bias = quad::new([127; 4]);
            let power = |n: Quad| quad::shl::<23>(quad::add_i(n, bias));
            quad::mul_f(quad::mul_f(x, power(half)), power(quad::sub_i(n, half)))
        })
    }
    #[inline(never)]
    unsafe fn trunc_f(x: V) -> V {
        integral(x, trunc)
    }
    #[inline(never)]
    unsafe fn floor_f(x: V) -> V {
        integral(x, |x| if trunc(x) > x { trunc(x) - 1.0 } else { trunc(x) })
    }
    #[inline(never)]
    unsafe fn ceil_f(x: V) -> V {
        integral(x, |x| if trunc(x) < x { trunc(x) + 1.0 } else { trunc(x) })
    }
    #[inline(never)]
    unsafe fn round_even_f(x: V) -> V {
        // Adding 2^23 to a smaller magnitude leaves no place for a fraction.
        integral(x, |x| x.abs() + 8_388_608.0 - 8_388_608.0)
    }

    #[inline(always)]
    unsafe fn lt_f(a: V, b: V) -> V {
        zip(a, b, quad::lt_f)
    }
    #[inline(always)]
    unsafe fn le_f(a: V, b: V) -> V {
        zip(a, b, quad::le_f)
    }
    #[inline(always)]
    unsafe fn eq_f(a: V, b: V) -> V {
        zip(a, b, quad::eq_f)
    }
    #[inline(always)]
    unsafe fn unordered_f(a: V, b: V) -> V {
        zip(a, b, quad::unordered_f)
    }
    #[inline(always)]
    unsafe fn eq_i(a: V, b: V) -> V {
        zip(a, b, quad::eq_i)
    }
    #[inline(always)]
    unsafe fn gt_i(a: V, b: V) -> V {
        zip(a, b, quad::gt_i)
    }
    #[inline(always)]
    unsafe fn gt_u(a: V, b: V) -> V {
        zip(a, b, gt_u)
    }
    #[inline(always)]
    unsafe fn truth(m: V) -> V {
        map(m, |m| quad::and(m, quad::new([1; 4])))
    }
    #[inline(always)]
    unsafe fn falsehood(m: V) -> V {
        map(m, |m| quad::add_i(m, quad::new([1; 4])))
    }
    #[inline(always)]
    unsafe fn select(m: V, a: V, b: V) -> V {
        V(select(m.0, a.0, b.0), select(m.1, a.1, b.1))
    }
    #[inline(always)]
    unsafe fn any(m: V) -> bool {
        quad::any(quad::or(m.0, m.1))
    }
    #[inline(always)]
    unsafe fn or_m(a: V, b: V) -> V {
        zip(a, b, quad::or)
    }

    #[inline(always)]
    unsafe fn and(a: V, b: V) -> V {
        zip(a, b, quad::and)
    }
    #[inline(always)]
    unsafe fn or(a: V, b: V) -> V {
        zip(a, b, quad::or)
    }
    #[inline(always)]
    unsafe fn xor(a: V, b: V) -> V {
        zip(a, b, quad::xor)
    }

    #[inline(always)]
    unsafe fn add_i(a: V, b: V) -> V {
        zip(a, b, quad::add_i)
    }
    #[inline(always)]
    unsafe fn sub_i(a: V, b: V) -> V {
        zip(a, b, quad::sub_i)
    }
    #[inline(never)]
    unsafe fn mul_i(a: V, b: V) -> V {
        zip_lanes(a, b, u32::wrapping_mul)
    }
    #[inline(never)]
    unsafe fn div_i(a: V, b: V) -> V {
        zip_lanes(a, b, |a, b| if b == 0 { 0 } else { (a as i32).wrapping_div(b as i32) as u32 })
    }
    #[inline(never)]
    unsafe fn div_u(a: V, b: V) -> V {
        zip_lanes(a, b, |a, b| a.checked_div(b).unwrap_or(0))
    }
    #[inline(always)]
    unsafe fn max_i(a: V, b: V) -> V {
        zip(a, b, |a, b| select(quad::gt_i(a, b), a, b))
    }
    #[inline(always)]
    unsafe fn min_i(a: V, b: V) -> V {
        zip(a, b, |a, b| select(quad::gt_i(a, b), b, a))
    }
    #[inline(always)]
    unsafe fn max_u(a: V, b: V) -> V {
        zip(a, b, |a, b| select(gt_u(a, b), a, b))
    }
    #[inline(always)]
    unsafe fn min_u(a: V, b: V) -> V {
        zip(a, b, |a, b| select(gt_u(a, b), b, a))
    }
    #[inline(never)]
    unsafe fn shl_v(a: V, n: V) -> V {
        zip_lanes(a, n, |a, n| a.checked_shl(n).unwrap_or(0))
    }
    #[inline(never)]
    unsafe fn shr_v(a: V, n: V) -> V {
        zip_lanes(a, n, |a, n| a.checked_shr(n).unwrap_or(0))
    }
    #[inline(never)]
    unsafe fn sra_v(a: V, n: V) -> V {
        zip_lanes(a, n, |a, n| ((a as i32) >> n.min(31)) as u32)
    }
    #[inline(always)]
    unsafe fn shl<const K: i32>(a: V) -> V {
        map(a, quad::shl::<K>)
    }
    #[inline(always)]
    unsafe fn sra<const K: i32>(a: V) -> V {
        map(a, quad::sra::<K>)
    }
    #[inline(always)]
    unsafe fn i32_to_f32(a: V) -> V {
        map(a, quad::i32_to_f32)
    }
    #[inline(never)]
    unsafe fn u32_to_f32(a: V) -> V {
        map_lanes(a, |a| (a as f32).to_bits())
    }
    #[inline(never)]
    unsafe fn f32_to_u32_raw(a: V) -> V {
        map_lanes(a, |a| f32::from_bits(a) as u32)
    }
    #[inline(always)]
    unsafe fn f32_to_i32_raw(a: V) -> V {
        map(a, quad::f32_to_i32_raw)
    }
}
