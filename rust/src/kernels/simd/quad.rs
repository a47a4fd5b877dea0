//! Four lanes of 32 bits, in the vectors that every processor of the target has: SSE2 on x86-64. Elsewhere they are arrays.
//!
//! Written as arrays everywhere, the optimiser takes them apart into lanes with a register of their own: the same chain of
//! operations ran eight times as long and took four minutes to compile.

#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::*;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use arrays::*;

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::*;

    pub(crate) type Quad = __m128;

    macro_rules! functions {
        ($(fn $name:ident $(<const $K:ident: i32>)? ($($arg:ident: $type:ty),*) -> $ret:ty $body:block)*) => {
            $(
                #[inline(always)]
                pub(crate) fn $name $(<const $K: i32>)? ($($arg: $type),*) -> $ret {
                    // SAFETY: every x86-64 has SSE2.
                    unsafe { $body }
                }
            )*
        };
    }

    functions! {
        fn new(lanes: [u32; 4]) -> Quad { std::mem::transmute::<[u32; 4], Quad>(lanes) }
        fn lanes(a: Quad) -> [u32; 4] { std::mem::transmute::<Quad, [u32; 4]>(a) }
        fn add_f(a: Quad, b: Quad) -> Quad { _mm_add_ps(a, b) }
        fn sub_f(a: Quad, b: Quad) -> Quad { _mm_sub_ps(a, b) }
        fn mul_f(a: Quad, b: Quad) -> Quad { _mm_mul_ps(a, b) }
        fn div_f(a: Quad, b: Quad) -> Quad { _mm_div_ps(a, b) }
        fn sqrt_f(a: Quad) -> Quad { _mm_sqrt_ps(a) }
        fn larger_f(a: Quad, b: Quad) -> Quad { _mm_max_ps(a, b) }
        fn smaller_f(a: Quad, b: Quad) -> Quad { _mm_min_ps(a, b) }
        fn lt_f(a: Quad, b: Quad) -> Quad { _mm_cmplt_ps(a, b) }
        fn le_f(a: Quad, b: Quad) -> Quad { _mm_cmple_ps(a, b) }
        fn not_le_f(a: Quad, b: Quad) -> Quad { _mm_cmpnle_ps(a, b) }
        fn eq_f(a: Quad, b: Quad) -> Quad { _mm_cmpeq_ps(a, b) }
        fn unordered_f(a: Quad, b: Quad) -> Quad { _mm_cmpunord_ps(a, b) }
        fn and(a: Quad, b: Quad) -> Quad { _mm_and_ps(a, b) }
        fn or(a: Quad, b: Quad) -> Quad { _mm_or_ps(a, b) }
        fn xor(a: Quad, b: Quad) -> Quad { _mm_xor_ps(a, b) }
        fn and_not(mask: Quad, a: Quad) -> Quad { _mm_andnot_ps(mask, a) }
        fn any(mask: Quad) -> bool { _mm_movemask_ps(mask) != 0 }
        fn add_i(a: Quad, b: Quad) -> Quad { _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(a), _mm_castps_si128(b))) }
        fn sub_i(a: Quad, b: Quad) -> Quad { _mm_castsi128_ps(_mm_sub_epi32(_mm_castps_si128(a), _mm_castps_si128(b))) }
        fn eq_i(a: Quad, b: Quad) -> Quad { _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_castps_si128(a), _mm_castps_si128(b))) }
        fn gt_i(a: Quad, b: Quad) -> Quad { _mm_castsi128_ps(_mm_cmpgt_epi32(_mm_castps_si128(a), _mm_castps_si128(b))) }
        fn shl<const K: i32>(a: Quad) -> Quad { _mm_castsi128_ps(_mm_slli_epi32::<K>(_mm_castps_si128(a))) }
        fn sra<const K: i32>(a: Quad) -> Quad { _mm_castsi128_ps(_mm_srai_epi32::<K>(_mm_castps_si128(a))) }
        fn i32_to_f32(a: Quad) -> Quad { _mm_cvtepi32_ps(_mm_castps_si128(a)) }
        fn f32_to_i32_raw(a: Quad) -> Quad { _mm_castsi128_ps(_mm_cvttps_epi32(a)) }
    }
}

/// What other targets use; tests compare it with SSE2.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod arrays {
    pub(crate) type Quad = [u32; 4];

    macro_rules! functions {
        ($(fn $name:ident $(<const $K:ident: i32>)? ($($arg:ident),*) $($kind:ident)? => $body:expr;)*) => {
            $(functions!(@ $name [$($K)?] ($($arg),*) [$($kind)?] $body);)*
        };
        (@ $name:ident [$($K:ident)?] ($($arg:ident),*) [] $body:expr) => {
            #[inline(always)]
            pub(crate) fn $name $(<const $K: i32>)? ($($arg: Quad),*) -> Quad {
                std::array::from_fn(|i| { $(let $arg = $arg[i];)* $body })
            }
        };
        (@ $name:ident [] ($($arg:ident),*) [float] $body:expr) => {
            #[inline(always)]
            pub(crate) fn $name($($arg: Quad),*) -> Quad {
                std::array::from_fn(|i| { $(let $arg = f32::from_bits($arg[i]);)* $body.to_bits() })
            }
        };
        (@ $name:ident [] ($($arg:ident),*) [compare] $body:expr) => {
            #[inline(always)]
            pub(crate) fn $name($($arg: Quad),*) -> Quad {
                std::array::from_fn(|i| { $(let $arg = f32::from_bits($arg[i]);)* mask($body) })
            }
        };
    }

    /// All bits or none.
    #[inline(always)]
    fn mask(truth: bool) -> u32 {
        (truth as u32).wrapping_neg()
    }

    #[inline(always)]
    pub(crate) fn new(lanes: [u32; 4]) -> Quad {
        lanes
    }

    #[inline(always)]
    pub(crate) fn lanes(a: Quad) -> [u32; 4] {
        a
    }

    #[inline(always)]
    pub(crate) fn any(mask: Quad) -> bool {
        mask.iter().any(|&lane| lane != 0)
    }

    functions! {
        fn add_f(a, b) float => a + b;
        fn sub_f(a, b) float => a - b;
        fn mul_f(a, b) float => a * b;
        fn div_f(a, b) float => a / b;
        fn sqrt_f(a) float => a.sqrt();
        fn larger_f(a, b) float => if a > b { a } else { b };
        fn smaller_f(a, b) float => if a < b { a } else { b };
        fn lt_f(a, b) compare => a < b;
        fn le_f(a, b) compare => a <= b;
        fn not_le_f(a, b) compare => (a > b) | a.is_nan() | b.is_nan();
        fn eq_f(a, b) compare => a == b;
        fn unordered_f(a, b) compare => a.is_nan() | b.is_nan();
        fn and(a, b) => a & b;
        fn or(a, b) => a | b;
        fn xor(a, b) => a ^ b;
        fn and_not(m, a) => !m & a;
        fn add_i(a, b) => a.wrapping_add(b);
        fn sub_i(a, b) => a.wrapping_sub(b);
        fn eq_i(a, b) => mask(a == b);
        fn gt_i(a, b) => mask(a as i32 > b as i32);
        fn shl<const K: i32>(a) => a << K;
        fn sra<const K: i32>(a) => (a as i32 >> K) as u32;
        fn i32_to_f32(a) => (a as i32 as f32).to_bits();
        fn f32_to_i32_raw(a) => {
            let x = f32::from_bits(a);
            if x.abs() < 2_147_483_648.0 { x as i32 as u32 } else { i32::MIN as u32 }
        };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{arrays, sse2};
    use proptest::prelude::*;

    /// Bits, or NaN of any kind.
    fn same(name: &str, a: [u32; 4], b: [u32; 4]) {
        for (a, b) in a.into_iter().zip(b) {
            let nan = |bits: u32| f32::from_bits(bits).is_nan();
            assert!(a == b || (nan(a) && nan(b)), "{name}: {a:#010x} and {b:#010x}");
        }
    }

    proptest! {
        #[test]
        fn arrays_do_what_the_vectors_of_the_processor_do(a: [u32; 4], b: [u32; 4], small in prop::array::uniform4(-1e10f32..1e10)) {
            let small = small.map(f32::to_bits);
            macro_rules! check {
                ($($name:ident),*; $($unary:ident),*) => {
                    for (a, b) in [(a, b), (a, a), (small, b), (a, [0; 4]), ([0x8000_0000; 4], [0; 4]), (a, [0x7fc0_0000; 4])] {
                        let (x, y) = (sse2::new(a), sse2::new(b));
                        $(same(stringify!($name), sse2::lanes(sse2::$name(x, y)), arrays::$name(a, b));)*
                        $(same(stringify!($unary), sse2::lanes(sse2::$unary(x)), arrays::$unary(a));)*
                        same("shl", sse2::lanes(sse2::shl::<7>(x)), arrays::shl::<7>(a));
                        same("sra", sse2::lanes(sse2::sra::<7>(x)), arrays::sra::<7>(a));
                        let mask = arrays::gt_i(a, b);
                        assert_eq!(sse2::any(sse2::new(mask)), arrays::any(arrays::new(arrays::lanes(mask))));
                    }
                };
            }
            check!(
                add_f, sub_f, mul_f, div_f, larger_f, smaller_f, lt_f, le_f, not_le_f, eq_f, unordered_f, and, or, xor, and_not, add_i, sub_i,
                eq_i, gt_i;
                sqrt_f, i32_to_f32, f32_to_i32_raw
            );
        }
    }
}
