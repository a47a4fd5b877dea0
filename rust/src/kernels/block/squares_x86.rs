//! Squares through the vector registers of x86.

use super::squares::{Plain, Squares};
use crate::kernels::matmul::transpose_avx512::transposed;
use std::arch::x86_64::*;

/// AVX2.
pub(super) struct Avx2;

/// AVX-512.
pub(super) struct Avx512;

macro_rules! squares {
    ($($Isa:ident $T:ty, $side:literal: $square:path;)*) => {
        $(
            impl Squares<$T> for $Isa {
                const SIDE: usize = $side;

                #[inline(always)]
                unsafe fn square(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
                    // SAFETY: the caller's promise.
                    unsafe { $square(out, out_row, x, x_row) }
                }
            }
        )*
    };
}

squares! {
    Avx512 u8, 16: bytes;
    Avx512 u16, 16: halves;
    Avx512 u32, 16: singles_avx512;
    Avx512 u64, 8: doubles_avx512;
    Avx2 u8, 16: bytes;
    Avx2 u16, 16: halves;
    Avx2 u32, 16: singles_avx2;
    Avx2 u64, 8: doubles_avx2;
}

/// Rows of a square as vectors.
macro_rules! rows_at {
    ($load:ident, $x:ident, $x_row:ident) => {
        // SAFETY: the caller vouches for the square.
        std::array::from_fn(|at| unsafe { $load($x.offset(at as isize * $x_row).cast()) })
    };
}

/// Vectors as rows of a square.
macro_rules! put_rows {
    ($store:ident, $rows:expr, $out:ident, $out_row:ident) => {
        for (at, row) in (0..).zip($rows) {
            // SAFETY: the caller vouches for the square.
            unsafe { $store($out.offset(at * $out_row).cast(), row) };
        }
    };
}

/// As every processor does it: of bytes a square is small beside what surrounds it.
#[inline(always)]
unsafe fn bytes(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
    // SAFETY: the caller's promise.
    unsafe { <Plain as Squares<u8>>::square(out, out_row, x, x_row) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn singles_avx512(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
    put_rows!(_mm512_storeu_si512, transposed(rows_at!(_mm512_loadu_si512, x, x_row)), out, out_row);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn doubles_avx512(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
    let r: [__m512i; 8] = rows_at!(_mm512_loadu_si512, x, x_row);
    // Pairs of rows by columns, then pairs of pairs, then their halves.
    let two: [_; 8] = std::array::from_fn(|at| match at % 2 {
        0 => _mm512_unpacklo_epi64(r[at], r[at + 1]),
        _ => _mm512_unpackhi_epi64(r[at - 1], r[at]),
    });
    let four: [_; 8] = std::array::from_fn(|at| {
        let (from, other) = (two[at / 4 * 4 + at % 2], two[at / 4 * 4 + at % 2 + 2]);
        match at % 4 / 2 {
            0 => _mm512_shuffle_i64x2::<0x88>(from, other),
            _ => _mm512_shuffle_i64x2::<0xdd>(from, other),
        }
    });
    // `four[c + 2 h]` of each half of the rows: columns c + 2 h and c + 2 h + 4.
    let all: [_; 8] = std::array::from_fn(|at| {
        let (first, second) = (four[at % 4], four[at % 4 + 4]);
        match at / 4 {
            0 => _mm512_shuffle_i64x2::<0x88>(first, second),
            _ => _mm512_shuffle_i64x2::<0xdd>(first, second),
        }
    });
    put_rows!(_mm512_storeu_si512, all, out, out_row);
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn singles_avx2(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
    // Quarters of 8x8; those that share lines of the result follow each other.
    for (row, col) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
        let (x, out) = (x.wrapping_offset(col * x_row + row * 4), out.wrapping_offset(row * out_row + col * 4));
        let r: [__m256i; 8] = rows_at!(_mm256_loadu_si256, x, x_row);
        let two: [_; 8] = std::array::from_fn(|at| match at % 2 {
            0 => _mm256_unpacklo_epi32(r[at], r[at + 1]),
            _ => _mm256_unpackhi_epi32(r[at - 1], r[at]),
        });
        // `four[4 q + c]`: column c of each 128-bit part, of rows 4 q to 4 q + 3.
        let four: [_; 8] = std::array::from_fn(|at| {
            let (first, second) = (two[at / 4 * 4 + at % 4 / 2], two[at / 4 * 4 + at % 4 / 2 + 2]);
            match at % 2 {
                0 => _mm256_unpacklo_epi64(first, second),
                _ => _mm256_unpackhi_epi64(first, second),
            }
        });
        let all: [_; 8] = std::array::from_fn(|at| match at / 4 {
            0 => _mm256_permute2x128_si256::<0x20>(four[at % 4], four[at % 4 + 4]),
            _ => _mm256_permute2x128_si256::<0x31>(four[at % 4], four[at % 4 + 4]),
        });
        put_rows!(_mm256_storeu_si256, all, out, out_row);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn doubles_avx2(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
    for (row, col) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
        let (x, out) = (x.wrapping_offset(col * x_row + row * 8), out.wrapping_offset(row * out_row + col * 8));
        let r: [__m256i; 4] = rows_at!(_mm256_loadu_si256, x, x_row);
        let two: [_; 4] = std::array::from_fn(|at| match at % 2 {
            0 => _mm256_unpacklo_epi64(r[at], r[at + 1]),
            _ => _mm256_unpackhi_epi64(r[at - 1], r[at]),
        });
        let all: [_; 4] = std::array::from_fn(|at| match at / 2 {
            0 => _mm256_permute2x128_si256::<0x20>(two[at % 2], two[at % 2 + 2]),
            _ => _mm256_permute2x128_si256::<0x31>(two[at % 2], two[at % 2 + 2]),
        });
        put_rows!(_mm256_storeu_si256, all, out, out_row);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn halves(out: *mut u8, out_row: isize, x: *const u8, x_row: isize) {
    let r: [__m256i; 16] = rows_at!(_mm256_loadu_si256, x, x_row);
    let two: [_; 16] = std::array::from_fn(|at| match at % 2 {
        0 => _mm256_unpacklo_epi16(r[at], r[at + 1]),
        _ => _mm256_unpackhi_epi16(r[at - 1], r[at]),
    });
    // `four[4 q + c]`: columns 2 c and 2 c + 1 of each 128-bit part, of rows 4 q to 4 q + 3.
    let four: [_; 16] = std::array::from_fn(|at| {
        let (first, second) = (two[at / 4 * 4 + at % 4 / 2], two[at / 4 * 4 + at % 4 / 2 + 2]);
        match at % 2 {
            0 => _mm256_unpacklo_epi32(first, second),
            _ => _mm256_unpackhi_epi32(first, second),
        }
    });
    // `eight[8 q + c]`: column c of each 128-bit part, of rows 8 q to 8 q + 7.
    let eight: [_; 16] = std::array::from_fn(|at| {
        let (first, second) = (four[at / 8 * 8 + at % 8 / 2], four[at / 8 * 8 + at % 8 / 2 + 4]);
        match at % 2 {
            0 => _mm256_unpacklo_epi64(first, second),
            _ => _mm256_unpackhi_epi64(first, second),
        }
    });
    let all: [_; 16] = std::array::from_fn(|at| match at / 8 {
        0 => _mm256_permute2x128_si256::<0x20>(eight[at % 8], eight[at % 8 + 8]),
        _ => _mm256_permute2x128_si256::<0x31>(eight[at % 8], eight[at % 8 + 8]),
    });
    put_rows!(_mm256_storeu_si256, all, out, out_row);
}
