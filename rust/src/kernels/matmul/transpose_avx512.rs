//! Exchanging rows and columns in registers.

use std::arch::x86_64::*;

/// 16x16 lanes, rows and columns exchanged.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in crate::kernels) fn transposed(r: [__m512i; 16]) -> [__m512i; 16] {
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

/// 8 rows of 16 lanes: pairs of columns, 8 lanes each, one after the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn transposed_8(r: [__m512i; 8]) -> [__m512i; 8] {
    // u[4q + c]: column c of each 128-bit part, of rows 4q..4q + 4.
    let mut u = [_mm512_setzero_si512(); 8];
    for q in 0..2 {
        let (low01, low23) =
            (_mm512_unpacklo_epi32(r[4 * q], r[4 * q + 1]), _mm512_unpacklo_epi32(r[4 * q + 2], r[4 * q + 3]));
        let (high01, high23) =
            (_mm512_unpackhi_epi32(r[4 * q], r[4 * q + 1]), _mm512_unpackhi_epi32(r[4 * q + 2], r[4 * q + 3]));
        u[4 * q] = _mm512_unpacklo_epi64(low01, low23);
        u[4 * q + 1] = _mm512_unpackhi_epi64(low01, low23);
        u[4 * q + 2] = _mm512_unpacklo_epi64(high01, high23);
        u[4 * q + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
    // Columns 2d and 2d + 1 of every part: parts 0, 1, 2, 3 of rows 0..4, of rows 4..8.
    let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    let mut out = [_mm512_setzero_si512(); 8];
    for d in 0..2 {
        let even = [first, second].map(|part| _mm512_permutex2var_epi64(u[2 * d], part, u[4 + 2 * d]));
        let odd = [first, second].map(|part| _mm512_permutex2var_epi64(u[2 * d + 1], part, u[5 + 2 * d]));
        for h in 0..2 {
            // Column 2d of parts 2h and 2h + 1, then column 2d + 1 of them.
            out[4 * h + d] = _mm512_shuffle_i64x2::<0x44>(even[h], odd[h]);
            out[4 * h + 2 + d] = _mm512_shuffle_i64x2::<0xee>(even[h], odd[h]);
        }
    }
    out
}
