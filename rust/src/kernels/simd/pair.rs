//! Two lanes of binary64, in the vectors that every processor of the target has: SSE2 on x86-64. Elsewhere they are arrays.
//!
//! What a fused multiply-add of binary32 is made of where the processor has no instruction for it.

#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::*;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use arrays::*;

/// The bits that binary64 has behind the 24 of binary32.
const REST: u64 = 0x1fff_ffff;

/// [`REST`] of a number in the middle between two of 24 bits.
const MIDDLE: u64 = 0x1000_0000;

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use super::{MIDDLE, REST};
    use std::arch::x86_64::*;

    pub(crate) type Pair = __m128d;

    /// What [`watch`] has seen.
    pub(crate) type Watch = __m128i;

    macro_rules! functions {
        ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty $body:block)*) => {
            $(
                $(#[$doc])*
                #[inline(always)]
                pub(crate) fn $name($($arg: $type),*) -> $ret {
                    // SAFETY: every x86-64 has SSE2.
                    unsafe { $body }
                }
            )*
        };
    }

    functions! {
        fn new(lanes: [f64; 2]) -> Pair { std::mem::transmute::<[f64; 2], Pair>(lanes) }
        fn lanes(a: Pair) -> [f64; 2] { std::mem::transmute::<Pair, [f64; 2]>(a) }
        fn add(a: Pair, b: Pair) -> Pair { _mm_add_pd(a, b) }
        fn sub(a: Pair, b: Pair) -> Pair { _mm_sub_pd(a, b) }
        fn mul(a: Pair, b: Pair) -> Pair { _mm_mul_pd(a, b) }
        fn or(a: Pair, b: Pair) -> Pair { _mm_or_pd(a, b) }
        fn and(a: Pair, b: Pair) -> Pair { _mm_and_pd(a, b) }
        fn any(mask: Pair) -> bool { _mm_movemask_epi8(_mm_castpd_si128(mask)) != 0 }
        fn widen(a: [f32; 4]) -> [Pair; 2] {
            let a = std::mem::transmute::<[f32; 4], __m128>(a);
            [_mm_cvtps_pd(a), _mm_cvtps_pd(_mm_movehl_ps(a, a))]
        }
        fn widen_two(a: [f32; 2]) -> Pair { _mm_cvtps_pd(_mm_castpd_ps(_mm_set_sd(std::mem::transmute::<[f32; 2], f64>(a)))) }
        /// As [`narrow`].
        fn narrow_two(a: Pair) -> [f32; 2] {
            std::mem::transmute::<f64, [f32; 2]>(_mm_cvtsd_f64(_mm_castps_pd(_mm_cvtpd_ps(a))))
        }
        /// The 16 lowest bits of each lane.
        fn low_bits(a: Pair) -> [u16; 2] {
            let a = _mm_castpd_si128(a);
            [_mm_extract_epi16::<0>(a) as u16, _mm_extract_epi16::<4>(a) as u16]
        }
        /// Each lane in both lanes of a pair.
        fn widen_twice(a: [f32; 4]) -> [Pair; 4] {
            let [low, high] = widen(a);
            [_mm_unpacklo_pd(low, low), _mm_unpackhi_pd(low, low), _mm_unpacklo_pd(high, high), _mm_unpackhi_pd(high, high)]
        }
        /// To the nearest binary32; of two that are as near, to the even one.
        fn narrow(a: [Pair; 2]) -> [f32; 4] {
            let a = _mm_movelh_ps(_mm_cvtpd_ps(a[0]), _mm_cvtpd_ps(a[1]));
            std::mem::transmute::<__m128, [f32; 4]>(a)
        }
        /// As [`narrow`], and widened again.
        fn round(a: Pair) -> Pair { _mm_cvtps_pd(_mm_cvtpd_ps(a)) }
        /// Half a unit of 24 bits further from zero.
        fn add_half(a: Pair) -> Pair {
            _mm_castsi128_pd(_mm_add_epi64(_mm_castpd_si128(a), _mm_set1_epi64x(MIDDLE as i64)))
        }
        /// One bit less than half a unit of 24 bits further from zero.
        fn add_less_than_half(a: Pair) -> Pair {
            _mm_castsi128_pd(_mm_add_epi64(_mm_castpd_si128(a), _mm_set1_epi64x(MIDDLE as i64 - 1)))
        }
        /// To 24 bits, toward zero: behind [`add_half`] that is the nearest number unless it began in the middle of two.
        fn cut(a: Pair) -> Pair { _mm_and_pd(a, _mm_castsi128_pd(_mm_set1_epi64x(!REST as i64))) }
        fn watch_none() -> Watch { _mm_set1_epi16(i16::MAX) }
        /// [`REST`] of four lanes.
        fn rest(a: Pair, b: Pair) -> Watch {
            let low = _mm_shuffle_ps::<0b10_00_10_00>(_mm_castpd_ps(a), _mm_castpd_ps(b));
            _mm_and_si128(_mm_castps_si128(low), _mm_set1_epi32(REST as i32))
        }
        /// Looks out for lanes whose [`rest`] is 0, which is what [`add_half`] makes of those in the middle.
        fn watch(seen: Watch, a: Watch, b: Watch) -> Watch {
            // Narrowing saturates: no number that is not 0 becomes 0, and none is below.
            _mm_min_epi16(seen, _mm_packs_epi32(a, b))
        }
        /// Whether there was one.
        fn saw(seen: Watch) -> bool { _mm_movemask_epi8(_mm_cmpeq_epi16(seen, _mm_setzero_si128())) != 0 }
        /// Where the magnitude is not below `limit`.
        fn beyond(a: Pair, limit: Pair) -> Pair { _mm_cmpnlt_pd(_mm_andnot_pd(_mm_set1_pd(-0.0), a), limit) }
        /// Where `sum` is not exactly `a + b`: of the two differences the one from the larger operand is exact.
        fn inexact(a: Pair, b: Pair, sum: Pair) -> Pair {
            _mm_or_pd(_mm_cmpneq_pd(_mm_sub_pd(sum, a), b), _mm_cmpneq_pd(_mm_sub_pd(sum, b), a))
        }
        /// Where [`REST`] is [`MIDDLE`].
        fn middle(a: Pair) -> Pair {
            // The upper half of a lane never equals.
            let upper = !0 << 32;
            let rest = _mm_or_si128(_mm_castpd_si128(a), _mm_set1_epi64x((upper | !REST) as i64));
            _mm_castsi128_pd(_mm_cmpeq_epi32(rest, _mm_set1_epi64x((!REST as u32 as u64 | MIDDLE) as i64)))
        }
        /// Where the magnitude is below that of normal binary32 numbers.
        fn subnormal(a: Pair) -> Pair {
            _mm_cmplt_pd(_mm_andnot_pd(_mm_set1_pd(-0.0), a), _mm_set1_pd(f32::MIN_POSITIVE as f64))
        }
    }
}

/// What other targets use; tests compare it with SSE2.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod arrays {
    use super::{MIDDLE, REST};

    pub(crate) type Pair = [f64; 2];

    pub(crate) type Watch = u64;

    macro_rules! functions {
        ($(fn $name:ident($($arg:ident),*) => $body:expr;)*) => {
            $(
                #[inline(always)]
                pub(crate) fn $name($($arg: Pair),*) -> Pair {
                    std::array::from_fn(|i| { $(let $arg = $arg[i];)* $body })
                }
            )*
        };
    }

    functions! {
        fn new(lanes) => lanes;
        fn lanes(a) => a;
        fn add(a, b) => a + b;
        fn sub(a, b) => a - b;
        fn mul(a, b) => a * b;
        fn and(a, b) => f64::from_bits(a.to_bits() & b.to_bits());
        fn or(a, b) => f64::from_bits(a.to_bits() | b.to_bits());
        fn round(a) => f64::from(a as f32);
        fn add_half(a) => f64::from_bits(a.to_bits().wrapping_add(MIDDLE));
        fn add_less_than_half(a) => f64::from_bits(a.to_bits().wrapping_add(MIDDLE - 1));
        fn cut(a) => f64::from_bits(a.to_bits() & !REST);
        fn beyond(a, limit) => mask(a.abs() >= limit || a.is_nan());
        fn inexact(a, b, sum) => mask((sum - a != b) | (sum - b != a));
        fn middle(a) => mask(a.to_bits() & REST == MIDDLE);
        fn subnormal(a) => mask(a.abs() < f64::from(f32::MIN_POSITIVE));
    }

    /// All bits or none.
    #[inline(always)]
    fn mask(truth: bool) -> f64 {
        f64::from_bits(u64::from(truth).wrapping_neg())
    }

    #[inline(always)]
    pub(crate) fn any(mask: Pair) -> bool {
        mask.iter().any(|lane| lane.to_bits() != 0)
    }

    #[inline(always)]
    pub(crate) fn widen([a, b, c, d]: [f32; 4]) -> [Pair; 2] {
        [[a, b], [c, d]].map(|pair| pair.map(f64::from))
    }

    #[inline(always)]
    pub(crate) fn widen_two(a: [f32; 2]) -> Pair {
        a.map(f64::from)
    }

    #[inline(always)]
    pub(crate) fn narrow_two(a: Pair) -> [f32; 2] {
        a.map(|lane| lane as f32)
    }

    #[inline(always)]
    pub(crate) fn low_bits(a: Pair) -> [u16; 2] {
        a.map(|lane| lane.to_bits() as u16)
    }

    #[inline(always)]
    pub(crate) fn widen_twice(a: [f32; 4]) -> [Pair; 4] {
        a.map(|lane| [f64::from(lane); 2])
    }

    #[inline(always)]
    pub(crate) fn narrow([[a, b], [c, d]]: [Pair; 2]) -> [f32; 4] {
        [a, b, c, d].map(|lane| lane as f32)
    }

    #[inline(always)]
    pub(crate) fn watch_none() -> Watch {
        REST
    }

    #[inline(always)]
    pub(crate) fn rest(a: Pair, b: Pair) -> Watch {
        a.into_iter().chain(b).fold(REST, |least, lane| least.min(lane.to_bits() & REST))
    }

    #[inline(always)]
    pub(crate) fn watch(seen: Watch, a: Watch, b: Watch) -> Watch {
        seen.min(a).min(b)
    }

    #[inline(always)]
    pub(crate) fn saw(seen: Watch) -> bool {
        seen == 0
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{MIDDLE, REST, arrays, sse2};
    use proptest::prelude::*;

    /// Bits, or NaN of any kind.
    fn same(name: &str, a: [f64; 2], b: [f64; 2]) {
        for (a, b) in a.into_iter().zip(b) {
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{name}: {a:?} and {b:?}");
        }
    }

    /// A sum whose last bits are any, none, the middle, or beside it.
    fn near_the_middle() -> impl Strategy<Value = f64> {
        let rest = prop_oneof![any::<u64>(), Just(0), MIDDLE - 1..MIDDLE + 2, Just(0xffff), Just(MIDDLE + 0xffff)];
        (any::<f64>(), rest).prop_map(|(x, rest)| f64::from_bits(x.to_bits() & !REST | rest & REST))
    }

    proptest! {
        #[test]
        fn arrays_do_what_the_vectors_of_the_processor_do(
            a in prop::array::uniform2(any::<f32>()), b in prop::array::uniform2(any::<f32>()),
            x in prop::array::uniform2(near_the_middle()), y in prop::array::uniform2(near_the_middle())
        ) {
            let wide = [a.map(f64::from), b.map(f64::from)];
            for [a, b] in [wide, [x, y], [x, x], [wide[0], x]] {
                let (p, q) = (sse2::new(a), sse2::new(b));
                same("new", sse2::lanes(p), arrays::lanes(arrays::new(a)));
                same("add", sse2::lanes(sse2::add(p, q)), arrays::add(a, b));
                same("sub", sse2::lanes(sse2::sub(p, q)), arrays::sub(a, b));
                let (found, expected) = (sse2::add_less_than_half(p), arrays::add_less_than_half(a));
                same("add_less_than_half", sse2::lanes(found), expected);
                prop_assert_eq!(sse2::low_bits(p), arrays::low_bits(a));
                same("mul", sse2::lanes(sse2::mul(p, q)), arrays::mul(a, b));
                same("or", sse2::lanes(sse2::or(p, q)), arrays::or(a, b));
                same("round", sse2::lanes(sse2::round(p)), arrays::round(a));
                same("add_half", sse2::lanes(sse2::add_half(p)), arrays::add_half(a));
                same("cut", sse2::lanes(sse2::cut(p)), arrays::cut(a));
                same("and", sse2::lanes(sse2::and(p, q)), arrays::and(a, b));
                for (a, b) in [(a, b), ([a[0]; 2], [b[0]; 2])] {
                    for sum in [arrays::add(a, b), [x[0]; 2]] {
                        let (p, q, r) = (sse2::new(a), sse2::new(b), sse2::new(sum));
                        let any = |mask: [f64; 2]| arrays::any(mask);
                        prop_assert_eq!(sse2::any(sse2::inexact(p, q, r)), any(arrays::inexact(a, b, sum)));
                        prop_assert_eq!(sse2::any(sse2::middle(r)), any(arrays::middle(sum)));
                        prop_assert_eq!(sse2::any(sse2::subnormal(r)), any(arrays::subnormal(sum)));
                    }
                }
                let beyond = sse2::lanes(sse2::beyond(p, q)).map(f64::to_bits);
                prop_assert_eq!(beyond, arrays::beyond(a, b).map(f64::to_bits));
                let [up, other] = [p, q].map(sse2::add_half);
                let seen = sse2::watch(sse2::watch_none(), sse2::rest(up, other), sse2::rest(up, up));
                let [up, other] = [a, b].map(arrays::add_half);
                let expected = arrays::watch(arrays::watch_none(), arrays::rest(up, other), arrays::rest(up, up));
                prop_assert_eq!(sse2::saw(seen), arrays::saw(expected));
                let narrow = |a: [f32; 4]| a.map(|a| if a.is_nan() { 1 } else { a.to_bits() });
                prop_assert_eq!(narrow(sse2::narrow([p, q])), narrow(arrays::narrow([a, b])));
                let [low, high] = arrays::narrow_two(a);
                let [found, other] = sse2::narrow_two(p);
                prop_assert_eq!(narrow([found, other, 0.0, 0.0]), narrow([low, high, 0.0, 0.0]));
            }
            let four = [a[0], a[1], b[0], b[1]];
            let [low, high] = sse2::widen(four).map(sse2::lanes);
            same("widen_two", sse2::lanes(sse2::widen_two(a)), arrays::widen_two(a));
            same("widen", low, arrays::widen(four)[0]);
            same("widen", high, arrays::widen(four)[1]);
            for (found, expected) in sse2::widen_twice(four).into_iter().zip(arrays::widen_twice(four)) {
                same("widen_twice", sse2::lanes(found), expected);
            }
        }
    }
}
