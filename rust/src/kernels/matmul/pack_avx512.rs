//! Packing with AVX-512: 16 rows or columns at a time, transposed in registers where `k` is adjacent.
#![allow(unsafe_code)] // intrinsics on addresses
#![allow(clippy::needless_range_loop)] // the loops are about row and step numbers

use super::tile::{Pack, Smallest};
use super::transpose_avx512::{transposed, transposed_8};
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
    /// Four INT8. The header loses 128 times the sum of each column, which undoes the 128 in A.
    pub const QUADS_B: u8 = 7;

    /// Values of `k` in a lane.
    pub const fn group(form: u8) -> usize {
        match form {
            PAIRS_A | PAIRS_B => 2,
            QUADS_A | QUADS_B => 4,
            _ => 1,
        }
    }

    /// Bytes of a lane.
    pub const fn lane(form: u8) -> usize {
        if form == COPY16 { 2 } else { 4 }
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

/// Rows of a matrix can lie pages apart, where no processor looks ahead: so many steps are asked for before they are packed,
/// into the second-level cache, since rows a power of two apart would drive each other out of the first.
const AHEAD: usize = 32;

/// Bytes that are asked for before they are packed where `k` is adjacent.
const AHEAD_ALONG: usize = 1024;

/// Packs in the form `FORM`.
///
/// Safety: as [`super::tile::PackFn`], on a processor with these features; at most 32 rows or columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn pack<const FORM: u8>(job: &Pack) -> Smallest {
    let mut found = Found::new();
    // SAFETY: the caller's promise; only the last step has a missing `k`.
    unsafe {
        if job.k_adjacent {
            pack_along::<FORM>(job, &mut found)
        } else {
            pack_across::<FORM>(job, &mut found)
        }
        if FORM == QUADS_B {
            for (half, first) in (0..job.width).step_by(16).enumerate() {
                let mask = low(job.width - first) as __mmask16;
                let header = job.header.wrapping_add(first * 4);
                let sums = _mm512_slli_epi32::<7>(found.sums[half]);
                let so_far = _mm512_maskz_loadu_epi32(mask, header.cast());
                _mm512_mask_storeu_epi32(header.cast(), mask, _mm512_sub_epi32(so_far, sums));
            }
        }
        if FORM == PAIRS_A && job.k % 2 == 1 {
            for first in (0..job.width).step_by(16) {
                let mask = low(job.width - first) as __mmask16;
                let last = job.dst.wrapping_add((job.k / 2 * job.width + first) * 4);
                let lanes = _mm512_maskz_loadu_epi32(mask, last.cast());
                _mm512_mask_storeu_epi32(last.cast(), mask, _mm512_or_si512(lanes, _mm512_set1_epi32(0x8000)));
            }
        }
    }
    found.smallest::<FORM>()
}

/// Packs rows or columns whose `k` are adjacent.
///
/// Safety: as [`pack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_along<const FORM: u8>(job: &Pack, found: &mut Found) {
    let &Pack { src, k, valid, width, dst, .. } = job;
    let steps = k.div_ceil(group(FORM));
    // Eight rows are a whole panel of A.
    // SAFETY: the caller's promise.
    let done = if (width, valid) == (8, 8) { unsafe { pack_eight_along::<FORM>(job, found) } } else { 0 };
    for (half, first) in (0..width).step_by(16).enumerate() {
        let mask = low(width - first) as __mmask16;
        let exist = valid.saturating_sub(first).min(16);
        let to = |step: usize| dst.wrapping_add((step * width + first) * lane(FORM));
        let row = src.data.wrapping_offset(first as isize * src.row_stride);
        for step in (done..steps).step_by(16) {
            let at = step * group(FORM);
            let mut rows = [_mm512_setzero_si512(); 16];
            for r in 0..exist {
                let from = row.wrapping_offset(r as isize * src.row_stride).wrapping_add(at * element(FORM));
                // SAFETY: row `first + r` has `k - at` elements from here on; a prefetch touches nothing.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(AHEAD_ALONG).cast());
                    rows[r] = along::<FORM>(from, k - at);
                }
                found.see::<FORM>(rows[r]);
            }
            let now = (steps - step).min(16);
            // SAFETY: `dst` has room for the lanes of `now` steps.
            unsafe {
                if width == 1 {
                    store::<FORM>(to(step), low(now) as __mmask16, rows[0]);
                } else {
                    let columns = transposed(rows);
                    for (s, &column) in columns.iter().enumerate().take(now) {
                        found.sum::<FORM>(half, column);
                        store::<FORM>(to(step + s), mask, column);
                    }
                }
            }
        }
    }
}

/// Packs eight rows as far as there are whole blocks of 16 steps, and returns how many steps those are. Their lanes stay in
/// registers, and near the end of the rows the next eight are asked for, since they are packed next: without either, packing
/// the left operand took 4 % of a product of 1024^3.
///
/// Safety: as [`pack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_eight_along<const FORM: u8>(job: &Pack, found: &mut Found) -> usize {
    let &Pack { src, k, dst, .. } = job;
    // Lanes of 16 bits are for B.
    let steps = if FORM == COPY16 { 0 } else { k / group(FORM) / 16 * 16 };
    let (block, row) = (16 * group(FORM) * element(FORM), k * element(FORM));
    for step in (0..steps).step_by(16) {
        let at = step / 16 * block;
        let from = src.data.wrapping_add(at);
        let next = at + AHEAD_ALONG;
        let ahead = if next < row {
            from.wrapping_add(AHEAD_ALONG)
        } else {
            src.data.wrapping_offset(8 * src.row_stride).wrapping_add(next - row)
        };
        let mut rows = [_mm512_setzero_si512(); 8];
        for r in 0..8 {
            let down = r as isize * src.row_stride;
            // SAFETY: all rows have these elements; a prefetch touches nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_offset(down).cast());
                rows[r] = along::<FORM>(from.wrapping_offset(down), k - step * group(FORM));
            }
            found.see::<FORM>(rows[r]);
        }
        for (p, pair) in transposed_8(rows).into_iter().enumerate() {
            // SAFETY: `dst` has room for the lanes of 16 steps.
            unsafe { _mm512_storeu_si512(dst.wrapping_add((step + 2 * p) * 32).cast(), pair) };
        }
    }
    steps
}

/// Packs rows or columns that are adjacent themselves.
///
/// Safety: as [`pack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_across<const FORM: u8>(job: &Pack, found: &mut Found) {
    let &Pack { src, k, valid, width, dst, .. } = job;
    for step in 0..k.div_ceil(group(FORM)) {
        let at = step * group(FORM);
        let row = src.data.wrapping_offset(at as isize * src.row_stride);
        for t in 0..group(FORM) {
            let ahead = row.wrapping_offset((AHEAD * group(FORM) + t) as isize * src.row_stride);
            _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
            if width * element(FORM) > 64 {
                _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(64).cast());
            }
        }
        for (half, first) in (0..width).step_by(16).enumerate() {
            let exist = low(valid.saturating_sub(first)) as __mmask16;
            // SAFETY: the elements that exist are there, and `dst` has room for the lanes.
            let lanes =
                unsafe { across::<FORM>(row.wrapping_add(first * element(FORM)), src.row_stride, k - at, exist) };
            found.see::<FORM>(lanes);
            found.sum::<FORM>(half, lanes);
            let to = dst.wrapping_add((step * width + first) * lane(FORM));
            // SAFETY: as above.
            unsafe { store::<FORM>(to, low(width - first) as __mmask16, lanes) };
        }
    }
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
    /// Sums of the first and the second 16 columns.
    sums: [__m512i; 2],
}

impl Found {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn new() -> Self {
        Found { least: _mm512_set1_epi16(-1), sums: [_mm512_setzero_si512(); 2] }
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
    fn sum<const FORM: u8>(&mut self, half: usize, lanes: __m512i) {
        if FORM == QUADS_B {
            let pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), lanes);
            self.sums[half] = _mm512_add_epi32(self.sums[half], _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
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
