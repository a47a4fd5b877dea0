//! AVX-512 kernels for few rows and a B where it lies: every row of B is read from its first to its last column, so that
//! memory is read in order, and the sums wait in the first-level cache.
//!
//! Tiles read 128 bytes of each row of B, which lie pages apart: 9 GB/s where memory gives 34.
#![allow(unsafe_code)] // intrinsics on addresses
#![allow(clippy::needless_range_loop)] // the loops are about row and step numbers

use super::avx512::{BF16, F16, F32, finish, load};
use super::tile::{Finish, STREAM_UNIT, Stream, StreamFn};
use std::arch::x86_64::*;

/// `ROWS` rows; `STEPS` rows of B go by together, so that a sum is loaded and stored once for them.
///
/// Safety: as [`StreamFn`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn stream<const B: u8, const ROWS: usize, const STEPS: usize>(s: &Stream) {
    let whole = s.k / STEPS * STEPS;
    let pitch = s.cols.next_multiple_of(STREAM_UNIT) * 4;
    // SAFETY: the caller's promise; there are `ROWS` rows of sums.
    unsafe {
        s.sums.write_bytes(0, ROWS * pitch);
        for k in (0..whole).step_by(STEPS) {
            pass::<B, ROWS, STEPS>(s, k, pitch);
        }
        for k in whole..s.k {
            pass::<B, ROWS, 1>(s, k, pitch);
        }
        for column in (0..s.cols).step_by(STREAM_UNIT) {
            let mask = mask(s.cols - column);
            for i in 0..ROWS {
                let f = Finish {
                    acc: if s.finish.acc.is_null() {
                        s.finish.acc
                    } else {
                        s.finish.acc.wrapping_offset(i as isize * s.finish.acc_row).wrapping_add(column * 4)
                    },
                    bias: if s.finish.bias.is_null() { s.finish.bias } else { s.finish.bias.wrapping_add(column * 4) },
                    c: s.finish
                        .c
                        .wrapping_offset(i as isize * s.finish.c_row)
                        .wrapping_add(column * s.finish.out.size()),
                    ..s.finish
                };
                let sum = _mm512_loadu_ps(s.sums.add(i * pitch + column * 4).cast());
                finish::<1, 1>(&f, [[sum]], [mask]);
            }
        }
    }
}

/// The lanes that exist of the last `left` columns.
#[inline]
fn mask(left: usize) -> __mmask16 {
    if left >= STREAM_UNIT { !0 } else { (1 << left) - 1 }
}

/// Adds the products of `STEPS` values of `k` to all sums.
///
/// Safety: as [`stream`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pass<const B: u8, const ROWS: usize, const STEPS: usize>(s: &Stream, k: usize, pitch: usize) {
    let size = if B == F32 { 4 } else { 2 };
    let a = s.a.wrapping_add(k * ROWS * 4).cast::<f32>();
    let b = s.b.wrapping_offset(k as isize * s.b_step);
    for column in (0..s.cols).step_by(STREAM_UNIT) {
        let mask = mask(s.cols - column);
        let mut columns = [_mm512_setzero_ps(); STEPS];
        // SAFETY: row `k + step` of B has these columns where the mask says so; A is a packed panel.
        unsafe {
            for step in 0..STEPS {
                let from = b.wrapping_offset(step as isize * s.b_step).wrapping_add(column * size);
                columns[step] = load::<B>(from, mask);
                if column % (64 / size) == 0 {
                    _mm_prefetch::<_MM_HINT_T1>(from.wrapping_offset(STEPS as isize * s.b_step).cast());
                }
            }
            for i in 0..ROWS {
                let at = s.sums.add(i * pitch + column * 4).cast::<f32>();
                let mut sum = _mm512_loadu_ps(at);
                for step in 0..STEPS {
                    sum = _mm512_fmadd_ps(_mm512_set1_ps(*a.add(step * ROWS + i)), columns[step], sum);
                }
                _mm512_storeu_ps(at, sum);
            }
        }
    }
}

const fn streams<const B: u8>() -> [StreamFn; 8] {
    [
        stream::<B, 1, 8>,
        stream::<B, 2, 8>,
        stream::<B, 3, 8>,
        stream::<B, 4, 8>,
        stream::<B, 5, 4>,
        stream::<B, 6, 4>,
        stream::<B, 7, 4>,
        stream::<B, 8, 4>,
    ]
}

pub(super) static F32_STREAM: [StreamFn; 8] = streams::<F32>();
pub(super) static F16_STREAM: [StreamFn; 8] = streams::<F16>();
pub(super) static BF16_STREAM: [StreamFn; 8] = streams::<BF16>();
