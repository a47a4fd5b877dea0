//! Vectors of AVX-512: 16 lanes, masks in their own registers.

use super::Simd;
use std::arch::x86_64::*;

/// AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

macro_rules! functions {
    ($(fn $name:ident $(<const $K:ident: $kind:ty>)? ($($arg:ident: $type:ty),*) $(-> $ret:ty)? $body:block)*) => {
        $(
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn $name $(<const $K: $kind>)? ($($arg: $type),*) $(-> $ret)? $body
        )*
    };
}

/// As `functions`, for those that touch memory.
macro_rules! memory {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? $body:block)*) => {
        $(
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn $name($($arg: $type),*) $(-> $ret)? {
                // SAFETY: the caller vouches for the elements; a partial access touches only those of its part.
                unsafe { $body }
            }
        )*
    };
}

type V = __m512;

#[inline]
#[target_feature(enable = "avx512f")]
fn int(v: V) -> __m512i {
    _mm512_castps_si512(v)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn bits(v: __m512i) -> V {
    _mm512_castsi512_ps(v)
}

/// Quotients by binary64: a non-integral quotient of two 32-bit integers is at least 2^-31 of itself away from the next
/// integer, far more than one rounding to 53 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn quotients(a: __m256i, b: __m256i) -> __m256i {
    _mm512_cvttpd_epi32(_mm512_div_pd(_mm512_cvtepi32_pd(a), _mm512_cvtepi32_pd(b)))
}

/// As [`quotients`], of unsigned integers.
#[inline]
#[target_feature(enable = "avx512f")]
fn quotients_u(a: __m256i, b: __m256i) -> __m256i {
    _mm512_cvttpd_epu32(_mm512_div_pd(_mm512_cvtepu32_pd(a), _mm512_cvtepu32_pd(b)))
}

impl Simd for Avx512 {
    type V = V;
    type H = __m256i;
    type B = __m128i;
    type M = __mmask16;
    type Part = __mmask16;

    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    const SCALES_BY_ANY: bool = true;

    functions! {
        fn part(n: usize) -> __mmask16 { ((1u32 << n) - 1) as u16 }
        fn keep(part: __mmask16, v: V, rest: V) -> V { _mm512_mask_mov_ps(rest, part, v) }

        fn iota() -> V { bits(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)) }
        fn splat(b: u32) -> V { bits(_mm512_set1_epi32(b as i32)) }
        fn first(v: V) -> u32 { _mm512_cvtsi512_si32(int(v)) as u32 }

        fn pace() { _mm_lfence() }
        fn prefetch(p: *const u8) { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }

        fn down<const K: u32>(v: V) -> V {
            match K {
                8 => _mm512_castps256_ps512(_mm512_extractf32x8_ps::<1>(v)),
                4 => _mm512_castps128_ps512(_mm512_extractf32x4_ps::<1>(v)),
                2 => _mm512_permute_ps::<0b1110>(v),
                _ => _mm512_permute_ps::<0b0001>(v),
            }
        }

        fn any(m: __mmask16) -> bool { m != 0 }
        fn or_m(a: __mmask16, b: __mmask16) -> __mmask16 { a | b }
        fn select(m: __mmask16, a: V, b: V) -> V { _mm512_mask_mov_ps(b, m, a) }
        fn lt_f(a: V, b: V) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
        fn le_f(a: V, b: V) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
        fn eq_f(a: V, b: V) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
        fn unordered_f(a: V, b: V) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) }
        fn eq_i(a: V, b: V) -> __mmask16 { _mm512_cmpeq_epi32_mask(int(a), int(b)) }
        fn gt_i(a: V, b: V) -> __mmask16 { _mm512_cmpgt_epi32_mask(int(a), int(b)) }
        fn gt_u(a: V, b: V) -> __mmask16 { _mm512_cmpgt_epu32_mask(int(a), int(b)) }
        fn truth(m: __mmask16) -> V { bits(_mm512_maskz_set1_epi32(m, 1)) }
        fn falsehood(m: __mmask16) -> V { bits(_mm512_maskz_set1_epi32(!m, 1)) }

        fn widen_f16(h: __m256i) -> V { _mm512_cvtph_ps(h) }
        fn widen_bf16(h: __m256i) -> V { bits(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(h))) }
        fn widen_i16(h: __m256i) -> V { bits(_mm512_cvtepi16_epi32(h)) }
        fn widen_u16(h: __m256i) -> V { bits(_mm512_cvtepu16_epi32(h)) }
        fn widen_i8(b: __m128i) -> V { bits(_mm512_cvtepi8_epi32(b)) }
        fn widen_u8(b: __m128i) -> V { bits(_mm512_cvtepu8_epi32(b)) }
        fn narrow_f16(v: V) -> __m256i { _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(v) }
        fn narrow_bf16(v: V) -> __m256i {
            // The convert instruction of AVX512-BF16 flushes subnormals, so: add half of the last place kept, or a bit less
            // where that place is even. A NaN could carry into the sign; it only gets its quiet bit.
            let x = int(v);
            let odd = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x0001_0000));
            let rounded = _mm512_add_epi32(x, _mm512_set1_epi32(0x7fff));
            let rounded = _mm512_mask_add_epi32(rounded, odd, rounded, _mm512_set1_epi32(1));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let kept = _mm512_mask_or_epi32(rounded, nan, x, _mm512_set1_epi32(0x0040_0000));
            // The upper word of each lane: one permutation for a shift and a narrowing, which is two.
            let upper = _mm512_set_epi16(
                31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,
                31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,
            );
            _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, kept))
        }
        fn narrow_16(v: V) -> __m256i { _mm512_cvtepi32_epi16(int(v)) }
        fn narrow_8(v: V) -> __m128i { _mm512_cvtepi32_epi8(int(v)) }

        fn add_f(a: V, b: V) -> V { _mm512_add_ps(a, b) }
        fn sub_f(a: V, b: V) -> V { _mm512_sub_ps(a, b) }
        fn mul_f(a: V, b: V) -> V { _mm512_mul_ps(a, b) }
        fn div_f(a: V, b: V) -> V { _mm512_div_ps(a, b) }
        fn sqrt_f(a: V) -> V { _mm512_sqrt_ps(a) }
        fn fma_f(a: V, b: V, c: V) -> V { _mm512_fmadd_ps(a, b, c) }
        fn max_num(a: V, b: V) -> V { _mm512_range_ps::<0b0101>(a, b) }
        fn min_num(a: V, b: V) -> V { _mm512_range_ps::<0b0100>(a, b) }
        // The instructions give their second operand where the two are equal or one is NaN.
        fn at_least_f(x: V, low: V) -> V { _mm512_max_ps(low, x) }
        fn at_most_f(x: V, high: V) -> V { _mm512_min_ps(high, x) }
        // The smaller magnitude with the sign of the first operand; of a number and NaN the number.
        fn nearer_zero_f(x: V, limit: V) -> V { _mm512_range_ps::<0b0010>(x, limit) }
        fn relu_f(x: V) -> V {
            // For each class of numbers, from the lowest four bits: quiet NaN itself, signalling NaN made quiet, zero +0,
            // one itself, -inf +0, inf itself, negative +0, positive itself.
            _mm512_fixupimm_ps::<0>(x, x, _mm512_set1_epi32(0x1818_1821))
        }
        fn split_f(x: V) -> (V, V) {
            let m = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_NAN>(x);
            let e = _mm512_getexp_ps(x);
            let one = _mm512_set1_ps(1.0);
            (m, _mm512_mask_add_ps(e, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(m, one), e, one))
        }
        fn scale_f(x: V, n: V) -> V { _mm512_scalef_ps(x, n) }
        fn trunc_f(x: V) -> V { _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x) }
        fn floor_f(x: V) -> V { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(x) }
        fn ceil_f(x: V) -> V { _mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(x) }
        fn round_even_f(x: V) -> V { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x) }

        fn and(a: V, b: V) -> V { _mm512_and_ps(a, b) }
        fn or(a: V, b: V) -> V { _mm512_or_ps(a, b) }
        fn xor(a: V, b: V) -> V { _mm512_xor_ps(a, b) }

        fn add_i(a: V, b: V) -> V { bits(_mm512_add_epi32(int(a), int(b))) }
        fn sub_i(a: V, b: V) -> V { bits(_mm512_sub_epi32(int(a), int(b))) }
        fn mul_i(a: V, b: V) -> V { bits(_mm512_mullo_epi32(int(a), int(b))) }
        fn div_i(a: V, b: V) -> V {
            let (a, b) = (int(a), int(b));
            let low = quotients(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b));
            let high = quotients(_mm512_extracti64x4_epi64::<1>(a), _mm512_extracti64x4_epi64::<1>(b));
            let quotient = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            bits(_mm512_maskz_mov_epi32(_mm512_test_epi32_mask(b, b), quotient))
        }
        fn div_u(a: V, b: V) -> V {
            let (a, b) = (int(a), int(b));
            let low = quotients_u(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b));
            let high = quotients_u(_mm512_extracti64x4_epi64::<1>(a), _mm512_extracti64x4_epi64::<1>(b));
            let quotient = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            bits(_mm512_maskz_mov_epi32(_mm512_test_epi32_mask(b, b), quotient))
        }
        fn max_i(a: V, b: V) -> V { bits(_mm512_max_epi32(int(a), int(b))) }
        fn min_i(a: V, b: V) -> V { bits(_mm512_min_epi32(int(a), int(b))) }
        fn max_u(a: V, b: V) -> V { bits(_mm512_max_epu32(int(a), int(b))) }
        fn min_u(a: V, b: V) -> V { bits(_mm512_min_epu32(int(a), int(b))) }
        fn shl_v(a: V, n: V) -> V { bits(_mm512_sllv_epi32(int(a), int(n))) }
        fn shr_v(a: V, n: V) -> V { bits(_mm512_srlv_epi32(int(a), int(n))) }
        fn sra_v(a: V, n: V) -> V { bits(_mm512_srav_epi32(int(a), int(n))) }
        fn shl<const K: i32>(a: V) -> V { bits(_mm512_sllv_epi32(int(a), _mm512_set1_epi32(K))) }
        fn sra<const K: i32>(a: V) -> V { bits(_mm512_srav_epi32(int(a), _mm512_set1_epi32(K))) }
        fn i32_to_f32(a: V) -> V { _mm512_cvtepi32_ps(int(a)) }
        fn u32_to_f32(a: V) -> V { _mm512_cvtepu32_ps(int(a)) }
        fn f32_to_u32_raw(a: V) -> V { bits(_mm512_cvttps_epu32(a)) }
        fn f32_to_i32_raw(a: V) -> V { bits(_mm512_cvttps_epi32(a)) }
    }

    memory! {
        fn pick(table: &[f32; 16], index: V) -> V {
            _mm512_permutexvar_ps(int(index), _mm512_loadu_ps(table.as_ptr()))
        }
        fn load(p: *const u8) -> V { _mm512_loadu_ps(p.cast()) }
        fn load_part(p: *const u8, part: __mmask16) -> V { _mm512_maskz_loadu_ps(part, p.cast()) }
        fn store(p: *mut u8, v: V) { _mm512_storeu_ps(p.cast(), v) }
        fn store_part(p: *mut u8, v: V, part: __mmask16) { _mm512_mask_storeu_ps(p.cast(), part, v) }
        fn stream(p: *mut u8, v: V) { _mm512_stream_ps(p.cast(), v) }
        fn load_h(p: *const u8) -> __m256i { _mm256_loadu_si256(p.cast()) }
        fn load_h_part(p: *const u8, part: __mmask16) -> __m256i { _mm256_maskz_loadu_epi16(part, p.cast()) }
        fn store_h(p: *mut u8, v: __m256i) { _mm256_storeu_si256(p.cast(), v) }
        fn store_h_part(p: *mut u8, v: __m256i, part: __mmask16) { _mm256_mask_storeu_epi16(p.cast(), part, v) }
        fn stream_h(p: *mut u8, v: __m256i) { _mm256_stream_si256(p.cast(), v) }
        fn load_b(p: *const u8) -> __m128i { _mm_loadu_si128(p.cast()) }
        fn load_b_part(p: *const u8, part: __mmask16) -> __m128i { _mm_maskz_loadu_epi8(part, p.cast()) }
        fn store_b(p: *mut u8, v: __m128i) { _mm_storeu_si128(p.cast(), v) }
        fn store_b_part(p: *mut u8, v: __m128i, part: __mmask16) { _mm_mask_storeu_epi8(p.cast(), part, v) }
    }
}
