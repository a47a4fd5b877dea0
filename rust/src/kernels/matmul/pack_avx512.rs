//! Packing with AVX-512: 16 rows or columns at a time, transposed in registers where `k` is adjacent.
#![allow(unsafe_code)] // intrinsics on addresses

use super::tile::{Pack, Smallest};
use std::arch::x86_64::*;

/// How elements become lanes: const parameters of [`pack`].
pub(super) mod form {
    /// FP32 as it is.
    pub const COPY32: u8 = 0;
    /// FP16 as it is, in lanes of 16 bits.
    pub const COPY16: u8 = 1;
    /// FP16 widened to FP32.
    pub const WIDEN_F16: u8 = 2;
    /// BF16 widened to FP32.
    pub const WIDEN_BF16: u8 = 3;
    /// Two BF16, the earlier `k` in the high half: the dot product instruction takes that one first. A missing second one
    /// is -0 in A and 0 in B, whose product leaves every sum as it is (a product of +0 would turn -0 into +0).
    pub const PAIRS_A: u8 = 4;
    /// See [`PAIRS_A`].
    pub const PAIRS_B: u8 = 5;
    /// Four INT8, plus 128 each: the dot product instruction takes one operand unsigned.
    pub const QUADS_A: u8 = 6;
    /// Four INT8. The header gets -128 times the sum of each column, which undoes the 128 in A.
    pub const QUADS_B: u8 = 7;

    /// Values of `k` in a lane.
    pub const fn group(form: u8) -> usize {
        match form {
            PAIRS_A | PAIRS_B => 2,
            QUADS_A | QUADS_B => 4,
            _ => 1,
        }
    }

    /// Bytes of an element in memory.
    pub const fn element(form: u8) -> usize {
        match form {
            COPY32 => 4,
            QUADS_A | QUADS_B => 1,
            _ => 2,
        }
    }
}
use form::*;

/// Steps that are asked for before they are packed: rows of a matrix can lie pages apart, where no processor looks ahead.
const AHEAD: usize = 32;

/// Packs in the form `FORM`.
///
/// Safety: as [`super::tile::PackFn`], on a processor with these features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn pack<const FORM: u8>(job: &Pack) -> Smallest {
    let &Pack { src, k_adjacent, k, valid, width, dst, header } = job;
    let steps = k.div_ceil(group(FORM));
    let lane = if FORM == COPY16 { 2 } else { 4 };
    let mut found = Found::new();
    for first in (0..width).step_by(16) {
        let stored = low(width - first) as __mmask16;
        let exist = valid.saturating_sub(first).min(16);
        let to = |step: usize| dst.wrapping_add((step * width + first) * lane);
        // SAFETY: rows or columns `first..first + exist` are there for every `k`, and `dst` has room for all lanes.
        unsafe {
            if k_adjacent {
                let row = src.data.wrapping_offset(first as isize * src.row_stride);
                for step in (0..steps).step_by(16) {
                    let at = step * group(FORM);
                    let mut lanes = [_mm512_setzero_si512(); 16];
                    for (r, lanes) in lanes.iter_mut().enumerate().take(exist) {
                        let from = row.wrapping_offset(r as isize * src.row_stride).wrapping_add(at * element(FORM));
                        *lanes = along::<FORM>(from, k - at);
                        found.see::<FORM>(*lanes);
                    }
                    if width == 1 && FORM != COPY16 {
                        _mm512_mask_storeu_epi32(to(step).cast(), low(steps - step) as __mmask16, lanes[0]);
                        continue;
                    }
                    let columns = transposed(lanes);
                    for (s, &column) in columns.iter().enumerate().take(steps - step) {
                        found.sum::<FORM>(column);
                        store::<FORM>(to(step + s), stored, column);
                    }
                }
            } else {
                let column = src.data.wrapping_add(first * element(FORM));
                for step in 0..steps {
                    let at = step * group(FORM);
                    let from = column.wrapping_offset(at as isize * src.row_stride);
                    for t in 0..group(FORM) {
                        let ahead = from.wrapping_offset((AHEAD * group(FORM) + t) as isize * src.row_stride);
                        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                    }
                    let lanes = across::<FORM>(from, src.row_stride, k - at, low(exist) as __mmask16);
                    found.see::<FORM>(lanes);
                    found.sum::<FORM>(lanes);
                    store::<FORM>(to(step), stored, lanes);
                }
            }
            if FORM == QUADS_B {
                let corrections = _mm512_slli_epi32::<7>(_mm512_sub_epi32(_mm512_setzero_si512(), found.sums));
                _mm512_mask_storeu_epi32(header.wrapping_add(first * 4).cast(), stored, corrections);
                found.sums = _mm512_setzero_si512();
            }
            if FORM == PAIRS_A && k % 2 == 1 {
                let last = to(steps - 1).cast();
                let lanes = _mm512_maskz_loadu_epi32(stored, last);
                _mm512_mask_storeu_epi32(last, stored, _mm512_or_si512(lanes, _mm512_set1_epi32(0x8000)));
            }
        }
    }
    found.smallest::<FORM>()
}

/// The low `count` bits.
#[inline(always)]
fn low(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// The lanes of 16 steps of one row whose `k` are adjacent; `left` elements are left in the row.
///
/// Safety: `left` elements may be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn along<const FORM: u8>(from: *const u8, left: usize) -> __m512i {
    let mask = low(left);
    // SAFETY: the caller's promise; masks keep the loads inside the row.
    unsafe {
        match FORM {
            COPY32 => _mm512_maskz_loadu_epi32(mask as __mmask16, from.cast()),
            PAIRS_A | PAIRS_B => _mm512_rol_epi32::<16>(_mm512_maskz_loadu_epi16(mask as __mmask32, from.cast())),
            QUADS_A => _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from.cast()), _mm512_set1_epi8(-128)),
            QUADS_B => _mm512_maskz_loadu_epi8(mask, from.cast()),
            _ => half::<FORM>(_mm256_maskz_loadu_epi16(mask as __mmask16, from.cast())),
        }
    }
}

/// The lanes of one step of 16 rows or columns that are adjacent; `left` values of `k` are left.
///
/// Safety: the elements that the mask has may be read in each of the next `left` rows, as far as a group has them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn across<const FORM: u8>(from: *const u8, stride: isize, left: usize, mask: __mmask16) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let halves = |t: usize| {
            if t < left {
                _mm256_maskz_loadu_epi16(mask, from.wrapping_offset(t as isize * stride).cast())
            } else {
                _mm256_setzero_si256()
            }
        };
        let bytes = |t: usize| {
            let row = if t < left {
                _mm_maskz_loadu_epi8(mask, from.wrapping_offset(t as isize * stride).cast())
            } else {
                _mm_setzero_si128()
            };
            _mm512_cvtepu8_epi32(row)
        };
        match FORM {
            COPY32 => _mm512_maskz_loadu_epi32(mask, from.cast()),
            PAIRS_A | PAIRS_B => {
                let (high, low) = (_mm512_cvtepu16_epi32(halves(0)), _mm512_cvtepu16_epi32(halves(1)));
                _mm512_or_si512(_mm512_slli_epi32::<16>(high), low)
            }
            QUADS_A | QUADS_B => {
                let low = _mm512_or_si512(bytes(0), _mm512_slli_epi32::<8>(bytes(1)));
                let high = _mm512_or_si512(_mm512_slli_epi32::<16>(bytes(2)), _mm512_slli_epi32::<24>(bytes(3)));
                let quads = _mm512_or_si512(low, high);
                if FORM == QUADS_A { _mm512_xor_si512(quads, _mm512_set1_epi8(-128)) } else { quads }
            }
            _ => half::<FORM>(halves(0)),
        }
    }
}

/// 16 elements of 16 bits as lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn half<const FORM: u8>(elements: __m256i) -> __m512i {
    match FORM {
        COPY16 => _mm512_cvtepu16_epi32(elements),
        WIDEN_F16 => _mm512_castps_si512(_mm512_cvtph_ps(elements)),
        _ => _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(elements)),
    }
}

/// Safety: the lanes that the mask has may be written.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn store<const FORM: u8>(to: *mut u8, mask: __mmask16, lanes: __m512i) {
    // SAFETY: the caller's promise.
    unsafe {
        if FORM == COPY16 {
            _mm256_mask_storeu_epi16(to.cast(), mask, _mm512_cvtepi32_epi16(lanes));
        } else {
            _mm512_mask_storeu_epi32(to.cast(), mask, lanes);
        }
    }
}

/// What packing finds out on the way.
struct Found {
    /// Magnitude bits minus 1 of each 16-bit half, the least so far.
    least: __m512i,
    /// Sums of the columns.
    sums: __m512i,
}

impl Found {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn new() -> Self {
        Found { least: _mm512_set1_epi16(-1), sums: _mm512_setzero_si512() }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn see<const FORM: u8>(&mut self, lanes: __m512i) {
        if FORM == PAIRS_A || FORM == PAIRS_B {
            let magnitude = _mm512_and_si512(lanes, _mm512_set1_epi16(0x7fff));
            self.least = _mm512_min_epu16(self.least, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn sum<const FORM: u8>(&mut self, lanes: __m512i) {
        if FORM == QUADS_B {
            let pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), lanes);
            self.sums = _mm512_add_epi32(self.sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn smallest<const FORM: u8>(&self) -> Smallest {
        if FORM != PAIRS_A && FORM != PAIRS_B {
            return Smallest::NONE;
        }
        let low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(self.least));
        let high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(self.least));
        Smallest::from_wrapped_magnitude(_mm512_reduce_min_epu32(_mm512_min_epu32(low, high)) as u16)
    }
}

/// 16x16 lanes, rows and columns exchanged.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn transposed(r: [__m512i; 16]) -> [__m512i; 16] {
    let mut t = r;
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    // u[4q + c]: column c of each 128-bit part, of rows 4q..4q + 4.
    let mut u = t;
    for q in 0..4 {
        u[4 * q] = _mm512_unpacklo_epi64(t[4 * q], t[4 * q + 2]);
        u[4 * q + 1] = _mm512_unpackhi_epi64(t[4 * q], t[4 * q + 2]);
        u[4 * q + 2] = _mm512_unpacklo_epi64(t[4 * q + 1], t[4 * q + 3]);
        u[4 * q + 3] = _mm512_unpackhi_epi64(t[4 * q + 1], t[4 * q + 3]);
    }
    let mut out = u;
    for c in 0..4 {
        let low01 = _mm512_shuffle_i32x4::<0x88>(u[c], u[4 + c]);
        let high01 = _mm512_shuffle_i32x4::<0xdd>(u[c], u[4 + c]);
        let low23 = _mm512_shuffle_i32x4::<0x88>(u[8 + c], u[12 + c]);
        let high23 = _mm512_shuffle_i32x4::<0xdd>(u[8 + c], u[12 + c]);
        out[c] = _mm512_shuffle_i32x4::<0x88>(low01, low23);
        out[8 + c] = _mm512_shuffle_i32x4::<0xdd>(low01, low23);
        out[4 + c] = _mm512_shuffle_i32x4::<0x88>(high01, high23);
        out[12 + c] = _mm512_shuffle_i32x4::<0xdd>(high01, high23);
    }
    out
}
