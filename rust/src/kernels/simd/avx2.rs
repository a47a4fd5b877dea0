//! Vectors of AVX2: 8 lanes, masks are vectors. Partial accesses of narrow elements go through a copy in the frame.

use super::Simd;
use super::log::split_f;
use std::arch::x86_64::*;

/// AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

/// The first `n` lanes.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    n: usize,
    mask: __m256i,
}

macro_rules! functions {
    ($(fn $name:ident $(<const $K:ident: $kind:ty>)? ($($arg:ident: $type:ty),*) $(-> $ret:ty)? $body:block)*) => {
        $(
            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn $name $(<const $K: $kind>)? ($($arg: $type),*) $(-> $ret)? $body
        )*
    };
}

/// As `functions`, for those that touch memory.
macro_rules! memory {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? $body:block)*) => {
        $(
            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn $name($($arg: $type),*) $(-> $ret)? {
                // SAFETY: the caller vouches for the elements; a partial access touches only those of its part.
                unsafe { $body }
            }
        )*
    };
}

type V = __m256;

#[inline]
#[target_feature(enable = "avx2")]
fn int(v: V) -> __m256i {
    _mm256_castps_si256(v)
}

#[inline]
#[target_feature(enable = "avx2")]
fn bits(v: __m256i) -> V {
    _mm256_castsi256_ps(v)
}

/// Packs the low halves of lanes that hold at most 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn pack(v: __m256i) -> __m128i {
    _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v))
}

/// Quotients by binary64: a non-integral quotient of two 32-bit integers is at least 2^-31 of itself away from the next
/// integer, far more than one rounding to 53 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn quotients(a: __m128i, b: __m128i) -> __m128i {
    _mm256_cvttpd_epi32(_mm256_div_pd(_mm256_cvtepi32_pd(a), _mm256_cvtepi32_pd(b)))
}

/// As [`quotients`], of unsigned integers: they are moved by 2^31 into the range of the signed ones and back.
#[inline]
#[target_feature(enable = "avx2")]
fn quotients_u(a: __m128i, b: __m128i) -> __m128i {
    let sign = _mm_set1_epi32(i32::MIN);
    let half = _mm256_set1_pd(2_147_483_648.0);
    let a = _mm256_add_pd(_mm256_cvtepi32_pd(_mm_xor_si128(a, sign)), half);
    let b = _mm256_add_pd(_mm256_cvtepi32_pd(_mm_xor_si128(b, sign)), half);
    let quotient = _mm256_floor_pd(_mm256_div_pd(a, b));
    _mm_xor_si128(_mm256_cvttpd_epi32(_mm256_sub_pd(quotient, half)), sign)
}

/// Copies `bytes < 32` bytes in at most five moves.
///
/// # Safety
/// Both sides are valid for that many bytes.
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = 0;
    macro_rules! step {
        ($size:literal) => {
            if bytes & $size != 0 {
                // SAFETY: the sizes of the steps taken add up to `bytes`.
                unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), $size) };
                at += $size;
            }
        };
    }
    step!(16);
    step!(8);
    step!(4);
    step!(2);
    step!(1);
    let _ = at;
}

impl Simd for Avx2 {
    type V = V;
    type H = __m128i;
    type B = __m128i;
    type M = V;
    type Part = Part;

    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    #[allow(clippy::pointers_in_nomem_asm_block)] // Nothing is read: there is no instruction.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn after<T>(v: V, p: *const T) -> *const T {
        let mut p = p;
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {0} {1} */", inout(reg) p, in(ymm_reg) v, options(pure, nomem, nostack, preserves_flags));
        }
        p
    }

    functions! {
        fn part(n: usize) -> Part {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            Part { n, mask: _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lanes) }
        }
        fn keep(part: Part, v: V, rest: V) -> V { _mm256_blendv_ps(rest, v, bits(part.mask)) }

        fn iota() -> V { bits(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
        fn splat(b: u32) -> V { bits(_mm256_set1_epi32(b as i32)) }
        fn first(v: V) -> u32 { _mm256_cvtsi256_si32(int(v)) as u32 }

        fn pace() { _mm_lfence() }
        fn prefetch(p: *const u8) { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }

        fn down<const K: u32>(v: V) -> V {
            match K {
                4 => _mm256_castps128_ps256(_mm256_extractf128_ps::<1>(v)),
                2 => _mm256_permute_ps::<0b1110>(v),
                _ => _mm256_permute_ps::<0b0001>(v),
            }
        }

        fn any(m: V) -> bool { _mm256_movemask_ps(m) != 0 }
        fn or_m(a: V, b: V) -> V { _mm256_or_ps(a, b) }
        fn select(m: V, a: V, b: V) -> V { _mm256_blendv_ps(b, a, m) }
        fn lt_f(a: V, b: V) -> V { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
        fn le_f(a: V, b: V) -> V { _mm256_cmp_ps::<_CMP_LE_OQ>(a, b) }
        fn eq_f(a: V, b: V) -> V { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
        fn unordered_f(a: V, b: V) -> V { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b) }
        fn eq_i(a: V, b: V) -> V { bits(_mm256_cmpeq_epi32(int(a), int(b))) }
        fn gt_i(a: V, b: V) -> V { bits(_mm256_cmpgt_epi32(int(a), int(b))) }
        fn gt_u(a: V, b: V) -> V {
            let sign = _mm256_set1_epi32(i32::MIN);
            bits(_mm256_cmpgt_epi32(_mm256_xor_si256(int(a), sign), _mm256_xor_si256(int(b), sign)))
        }
        fn truth(m: V) -> V { bits(_mm256_srli_epi32::<31>(int(m))) }
        fn falsehood(m: V) -> V { bits(_mm256_add_epi32(int(m), _mm256_set1_epi32(1))) }

        fn widen_f16(h: __m128i) -> V { _mm256_cvtph_ps(h) }
        fn widen_bf16(h: __m128i) -> V { bits(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(h))) }
        fn widen_i16(h: __m128i) -> V { bits(_mm256_cvtepi16_epi32(h)) }
        fn widen_u16(h: __m128i) -> V { bits(_mm256_cvtepu16_epi32(h)) }
        fn widen_i8(b: __m128i) -> V { bits(_mm256_cvtepi8_epi32(b)) }
        fn widen_u8(b: __m128i) -> V { bits(_mm256_cvtepu8_epi32(b)) }
        fn narrow_f16(v: V) -> __m128i { _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(v) }
        fn narrow_bf16(v: V) -> __m128i {
            // As in `convert::f32_to_bf16`.
            let x = int(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(x), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x0040_0000));
            let nan = int(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            pack(_mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan)))
        }
        fn narrow_16(v: V) -> __m128i { pack(_mm256_and_si256(int(v), _mm256_set1_epi32(0xffff))) }
        fn narrow_8(v: V) -> __m128i {
            let words = pack(_mm256_and_si256(int(v), _mm256_set1_epi32(0xff)));
            _mm_packus_epi16(words, words)
        }

        fn add_f(a: V, b: V) -> V { _mm256_add_ps(a, b) }
        fn sub_f(a: V, b: V) -> V { _mm256_sub_ps(a, b) }
        fn mul_f(a: V, b: V) -> V { _mm256_mul_ps(a, b) }
        fn div_f(a: V, b: V) -> V { _mm256_div_ps(a, b) }
        fn sqrt_f(a: V) -> V { _mm256_sqrt_ps(a) }
        fn fma_f(a: V, b: V, c: V) -> V { _mm256_fmadd_ps(a, b, c) }
        // The instruction gives its second operand for two zeros: both orders together show both signs.
        fn max_num(a: V, b: V) -> V { _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a)) }
        fn min_num(a: V, b: V) -> V { _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a)) }
        // The instructions give their second operand where the two are equal or one is NaN.
        fn at_least_f(x: V, low: V) -> V { _mm256_max_ps(low, x) }
        fn at_most_f(x: V, high: V) -> V { _mm256_min_ps(high, x) }
        fn relu_f(x: V) -> V { _mm256_and_ps(x, _mm256_cmp_ps::<_CMP_NLE_UQ>(x, _mm256_setzero_ps())) }
        fn scale_f(x: V, n: V) -> V {
            // Two factors, since 2^n itself may be out of range; the first product is exact.
            let n = _mm256_cvttps_epi32(_mm256_floor_ps(n));
            let half = _mm256_srai_epi32::<1>(n);
            let rest = _mm256_sub_epi32(n, half);
            let bias = _mm256_set1_epi32(127);
            let a = bits(_mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias)));
            let b = bits(_mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias)));
            _mm256_mul_ps(_mm256_mul_ps(x, a), b)
        }
        fn trunc_f(x: V) -> V { _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x) }
        fn floor_f(x: V) -> V { _mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(x) }
        fn ceil_f(x: V) -> V { _mm256_round_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(x) }
        fn round_even_f(x: V) -> V { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x) }

        fn and(a: V, b: V) -> V { _mm256_and_ps(a, b) }
        fn or(a: V, b: V) -> V { _mm256_or_ps(a, b) }
        fn xor(a: V, b: V) -> V { _mm256_xor_ps(a, b) }

        fn add_i(a: V, b: V) -> V { bits(_mm256_add_epi32(int(a), int(b))) }
        fn sub_i(a: V, b: V) -> V { bits(_mm256_sub_epi32(int(a), int(b))) }
        fn mul_i(a: V, b: V) -> V { bits(_mm256_mullo_epi32(int(a), int(b))) }
        fn div_i(a: V, b: V) -> V {
            let (a, b) = (int(a), int(b));
            let low = quotients(_mm256_castsi256_si128(a), _mm256_castsi256_si128(b));
            let high = quotients(_mm256_extracti128_si256::<1>(a), _mm256_extracti128_si256::<1>(b));
            let zero = _mm256_cmpeq_epi32(b, _mm256_setzero_si256());
            bits(_mm256_andnot_si256(zero, _mm256_set_m128i(high, low)))
        }
        fn div_u(a: V, b: V) -> V {
            let (a, b) = (int(a), int(b));
            let low = quotients_u(_mm256_castsi256_si128(a), _mm256_castsi256_si128(b));
            let high = quotients_u(_mm256_extracti128_si256::<1>(a), _mm256_extracti128_si256::<1>(b));
            let zero = _mm256_cmpeq_epi32(b, _mm256_setzero_si256());
            bits(_mm256_andnot_si256(zero, _mm256_set_m128i(high, low)))
        }
        fn max_i(a: V, b: V) -> V { bits(_mm256_max_epi32(int(a), int(b))) }
        fn min_i(a: V, b: V) -> V { bits(_mm256_min_epi32(int(a), int(b))) }
        fn max_u(a: V, b: V) -> V { bits(_mm256_max_epu32(int(a), int(b))) }
        fn min_u(a: V, b: V) -> V { bits(_mm256_min_epu32(int(a), int(b))) }
        fn shl_v(a: V, n: V) -> V { bits(_mm256_sllv_epi32(int(a), int(n))) }
        fn shr_v(a: V, n: V) -> V { bits(_mm256_srlv_epi32(int(a), int(n))) }
        fn sra_v(a: V, n: V) -> V { bits(_mm256_srav_epi32(int(a), int(n))) }
        fn shl<const K: i32>(a: V) -> V { bits(_mm256_slli_epi32::<K>(int(a))) }
        fn sra<const K: i32>(a: V) -> V { bits(_mm256_srai_epi32::<K>(int(a))) }
        fn i32_to_f32(a: V) -> V { _mm256_cvtepi32_ps(int(a)) }
        fn u32_to_f32(a: V) -> V {
            // Both halves are exact and so is the scaled upper one: the sum rounds once.
            let high = _mm256_cvtepi32_ps(_mm256_srli_epi32::<16>(int(a)));
            let low = _mm256_cvtepi32_ps(_mm256_and_si256(int(a), _mm256_set1_epi32(0xffff)));
            _mm256_fmadd_ps(high, _mm256_set1_ps(65_536.0), low)
        }
        fn f32_to_u32_raw(a: V) -> V {
            let half = _mm256_set1_ps(2_147_483_648.0);
            let large = _mm256_cmp_ps::<_CMP_GE_OQ>(a, half);
            let below = int(_mm256_sub_ps(a, _mm256_and_ps(large, half)));
            let low = _mm256_cvttps_epi32(bits(below));
            // What is still too large converts to the sign bit alone, and that has to become all ones.
            let over = _mm256_srai_epi32::<31>(low);
            bits(_mm256_or_si256(_mm256_xor_si256(low, _mm256_slli_epi32::<31>(int(large))), over))
        }
        fn f32_to_i32_raw(a: V) -> V { bits(_mm256_cvttps_epi32(a)) }
    }

    memory! {
        fn pick(table: &[f32; 16], index: V) -> V {
            let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), int(index));
            let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr().add(8)), int(index));
            _mm256_blendv_ps(low, high, bits(_mm256_slli_epi32::<28>(int(index))))
        }
        fn split_f(x: V) -> (V, V) { split_f::<Self>(x) }
        fn load(p: *const u8) -> V { _mm256_loadu_ps(p.cast()) }
        fn load_part(p: *const u8, part: Part) -> V { _mm256_maskload_ps(p.cast(), part.mask) }
        fn store(p: *mut u8, v: V) { _mm256_storeu_ps(p.cast(), v) }
        fn store_part(p: *mut u8, v: V, part: Part) { _mm256_maskstore_ps(p.cast(), part.mask, v) }
        fn stream(p: *mut u8, v: V) { _mm256_stream_ps(p.cast(), v) }
        fn load_h(p: *const u8) -> __m128i { _mm_loadu_si128(p.cast()) }
        fn load_h_part(p: *const u8, part: Part) -> __m128i {
            let mut staged = [0u8; 16];
            copy_short(p, staged.as_mut_ptr(), part.n * 2);
            _mm_loadu_si128(staged.as_ptr().cast())
        }
        fn store_h(p: *mut u8, v: __m128i) { _mm_storeu_si128(p.cast(), v) }
        fn store_h_part(p: *mut u8, v: __m128i, part: Part) {
            let mut staged = [0u8; 16];
            _mm_storeu_si128(staged.as_mut_ptr().cast(), v);
            copy_short(staged.as_ptr(), p, part.n * 2);
        }
        fn stream_h(p: *mut u8, v: __m128i) { _mm_stream_si128(p.cast(), v) }
        fn load_b(p: *const u8) -> __m128i { _mm_loadl_epi64(p.cast()) }
        fn load_b_part(p: *const u8, part: Part) -> __m128i {
            let mut staged = [0u8; 16];
            copy_short(p, staged.as_mut_ptr(), part.n);
            _mm_loadu_si128(staged.as_ptr().cast())
        }
        fn store_b(p: *mut u8, v: __m128i) { _mm_storel_epi64(p.cast(), v) }
        fn store_b_part(p: *mut u8, v: __m128i, part: Part) {
            let mut staged = [0u8; 16];
            _mm_storeu_si128(staged.as_mut_ptr().cast(), v);
            copy_short(staged.as_ptr(), p, part.n);
        }
    }
}
