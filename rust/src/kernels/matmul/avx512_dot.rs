//! AVX-512 micro-kernels with several `k` per lane: BF16 pairs and INT8 quads on the dot product instructions.
#![allow(unsafe_code)] // intrinsics on addresses
#![allow(clippy::needless_range_loop)] // the loops are about row and vector numbers

use super::avx512::{BF16_IN_PLACE, FEW, MR, NR, end, masks, rows, start, touch};
use super::pack_avx512::{form, pack};
use super::tile::{End, Family, Finish, Kernels, Start, Tile, TileFn};
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// Bytes from one step of a packed panel to the next.
const STEP: usize = NR * 4;

/// `ROWS x (NV * 16)` of BF16 by `vdpbf16ps`, which flushes subnormal operands and results to 0: only for operands that
/// [`super::tile::Smallest::products_stay_normal`].
///
/// Safety: as [`TileFn`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn dot<const ROWS: usize, const NV: usize>(t: &Tile) {
    // SAFETY: the addresses of the tile are valid for its extents; packed panels are `NV` vectors wide.
    unsafe {
        touch::<ROWS>(&t.end);
        let mut acc = start::<ROWS, NV>(t.start);
        let (mut a, mut b, mut next) = (t.a, t.b, t.next);
        for _ in 0..t.steps {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            next = next.wrapping_offset(t.next_step);
            let columns = step::<NV>(b, t.b_ahead);
            for i in 0..ROWS {
                let x = _mm512_set1_epi32(*a.add(i * 4).cast::<i32>());
                for v in 0..NV {
                    acc[i][v] = _mm512_dpbf16_ps(acc[i][v], as_bf16(columns[v]), as_bf16(x));
                }
            }
            a = a.wrapping_add(ROWS * 4);
            b = b.wrapping_add(STEP);
        }
        end(&t.end, acc, masks::<NV>(t.cols));
    }
}

/// The same by widening each half of a lane: for any operands, at half the speed.
///
/// Safety: as [`TileFn`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn exact<const ROWS: usize, const NV: usize>(t: &Tile) {
    // SAFETY: as in `dot`.
    unsafe {
        touch::<ROWS>(&t.end);
        let mut acc = start::<ROWS, NV>(t.start);
        let (mut a, mut b, mut next) = (t.a, t.b, t.next);
        for _ in 0..t.steps {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            next = next.wrapping_offset(t.next_step);
            let columns = step::<NV>(b, t.b_ahead);
            let (early, late) = (columns.map(|c| first_half(c)), columns.map(|c| second_half(c)));
            for i in 0..ROWS {
                let x = _mm512_set1_epi32(*a.add(i * 4).cast::<i32>());
                for v in 0..NV {
                    acc[i][v] = _mm512_fmadd_ps(first_half(x), early[v], acc[i][v]);
                    acc[i][v] = _mm512_fmadd_ps(second_half(x), late[v], acc[i][v]);
                }
            }
            a = a.wrapping_add(ROWS * 4);
            b = b.wrapping_add(STEP);
        }
        end(&t.end, acc, masks::<NV>(t.cols));
    }
}

/// `ROWS x (NV * 16)` of INT8 by `vpdpbusd`. A comes with 128 added; `t.start` undoes that.
///
/// Safety: as [`TileFn`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn quads<const ROWS: usize, const NV: usize>(t: &Tile) {
    // SAFETY: as in `dot`.
    unsafe {
        touch::<ROWS>(&t.end);
        let mut acc = [[_mm512_setzero_si512(); NV]; ROWS];
        for i in 0..ROWS {
            for v in 0..NV {
                match t.start {
                    Start::Zero => {}
                    Start::Columns(from) => acc[i][v] = _mm512_loadu_si512(from.add(v * 64).cast()),
                    Start::Carry(from) => acc[i][v] = _mm512_loadu_si512(from.add((i * NV + v) * 64).cast()),
                }
            }
        }
        let (mut a, mut b, mut next) = (t.a, t.b, t.next);
        for _ in 0..t.steps {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            next = next.wrapping_offset(t.next_step);
            let columns = step::<NV>(b, t.b_ahead);
            for i in 0..ROWS {
                let x = _mm512_set1_epi32(*a.add(i * 4).cast::<i32>());
                for v in 0..NV {
                    acc[i][v] = _mm512_dpbusd_epi32(acc[i][v], x, columns[v]);
                }
            }
            a = a.wrapping_add(ROWS * 4);
            b = b.wrapping_add(STEP);
        }
        match t.end {
            End::Carry(to) => {
                for i in 0..ROWS {
                    for v in 0..NV {
                        _mm512_storeu_si512(to.add((i * NV + v) * 64).cast(), acc[i][v]);
                    }
                }
            }
            End::Finish(ref f) => finish(f, acc, masks::<NV>(t.cols)),
        }
    }
}

/// The lanes of one step of a packed panel.
///
/// Safety: they may be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn step<const NV: usize>(b: *const u8, ahead: isize) -> [__m512i; NV] {
    let mut columns = [_mm512_setzero_si512(); NV];
    for (v, column) in columns.iter_mut().enumerate() {
        // SAFETY: the caller's promise; a prefetch touches nothing.
        unsafe {
            *column = _mm512_loadu_si512(b.add(v * 64).cast());
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(ahead + v as isize * 64).cast());
        }
    }
    columns
}

#[inline]
#[target_feature(enable = "avx512f")]
fn as_bf16(x: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes without invalid values.
    unsafe { std::mem::transmute(x) }
}

/// The earlier `k` of each pair, widened.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_half(pairs: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32)))
}

/// The later `k` of each pair, widened.
#[inline]
#[target_feature(enable = "avx512f")]
fn second_half(pairs: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs))
}

/// Adds and stores; always inlined for the reason given in [`super::avx512`].
///
/// Safety: the addresses are valid where the masks say so, and the caller has AVX-512.
#[inline(always)]
unsafe fn finish<const ROWS: usize, const NV: usize>(f: &Finish, acc: [[__m512i; NV]; ROWS], masks: [__mmask16; NV]) {
    for i in 0..ROWS {
        for v in 0..NV {
            // SAFETY: the caller's promise.
            unsafe {
                let mut x = acc[i][v];
                if !f.acc.is_null() {
                    let from = f.acc.wrapping_offset(i as isize * f.acc_row).wrapping_add(v * 64);
                    x = _mm512_add_epi32(x, _mm512_maskz_loadu_epi32(masks[v], from.cast()));
                }
                if !f.bias.is_null() {
                    x = _mm512_add_epi32(x, _mm512_maskz_loadu_epi32(masks[v], f.bias.wrapping_add(v * 64).cast()));
                }
                let to = f.c.wrapping_offset(i as isize * f.c_row).wrapping_add(v * 64);
                _mm512_mask_storeu_epi32(to.cast(), masks[v], x);
            }
        }
    }
}

static DOT: [TileFn; FEW] = rows!(dot () 2: 1 2 3 4 5 6 7 8 9 10 11 12);
static EXACT: [TileFn; FEW] = rows!(exact () 2: 1 2 3 4 5 6 7 8 9 10 11 12);
static QUADS: [TileFn; FEW] = rows!(quads () 2: 1 2 3 4 5 6 7 8 9 10 11 12);

/// One form of pairs for both kinds of tiles, so that a panel is packed before it is known which ones it needs. A panel
/// begins with its smallest exponent.
const PAIRS: Family = Family {
    nr: NR,
    k_group: 2,
    b_lane: 4,
    header: 64,
    pack_a: pack::<{ form::PAIRS_A }>,
    pack_b: pack::<{ form::PAIRS_B }>,
    rows: MR,
    tiles: &DOT,
    tall: &[],
    tall_up_to: 0,
    strided: None,
    exact: Some(&EXACT),
};

static BF16_DOT: Kernels = Kernels { packed: PAIRS, in_place: Some(BF16_IN_PLACE), wide: None };

/// Where `vdpbf16ps` is not usable.
static BF16_EXACT: Kernels = Kernels {
    packed: Family { header: 0, tiles: &EXACT, exact: None, ..PAIRS },
    in_place: Some(BF16_IN_PLACE),
    wide: None,
};

/// A panel begins with the correction of each column.
static INT8: Kernels = Kernels {
    packed: Family {
        k_group: 4,
        header: STEP,
        pack_a: pack::<{ form::QUADS_A }>,
        pack_b: pack::<{ form::QUADS_B }>,
        tiles: &QUADS,
        exact: None,
        ..PAIRS
    },
    in_place: None,
    wide: None,
};

/// The kernels for BF16.
pub(super) fn bf16() -> &'static Kernels {
    static USABLE: OnceLock<bool> = OnceLock::new();
    // SAFETY: the feature is there when it is asked.
    let usable = || is_x86_feature_detected!("avx512bf16") && unsafe { dot_is_two_fused_steps() };
    if *USABLE.get_or_init(usable) { &BF16_DOT } else { &BF16_EXACT }
}

/// The kernels for INT8.
pub(super) fn int8() -> &'static Kernels {
    if is_x86_feature_detected!("avx512vnni") { &INT8 } else { &super::avx2::I8_KERNELS }
}

/// What processors without VNNI and without a usable `vdpbf16ps` take, to test it on all.
#[cfg(test)]
pub(super) fn without_dot(dtype: crate::dtype::DType) -> Option<&'static Kernels> {
    match dtype {
        crate::dtype::DType::BF16 => Some(&BF16_EXACT),
        crate::dtype::DType::I8 => Some(&super::avx2::I8_KERNELS),
        _ => None,
    }
}

/// Whether `vdpbf16ps` adds the two products of a pair one after the other, the high half first, with one rounding each.
/// Processors of one maker were seen to do so; the manuals leave room for others, so each process looks once.
///
/// Safety: the processor has AVX512-BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn dot_is_two_fused_steps() -> bool {
    // Mantissas without pattern and exponents that let the three terms overlap in every way.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = |spread: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state as u32) & 0x807f_ffff) | (((127 - spread / 2 + (state >> 40) % spread) as u32) << 23)
    };
    (0..256).all(|_| {
        let s = [0; 16].map(|_: u32| number(48));
        let [x, y] = [(); 2].map(|()| [0; 16].map(|_: u32| (number(24) & 0xffff_0000) | (number(24) >> 16)));
        // SAFETY: arrays of 16 lanes are one vector each.
        let dot: [u32; 16] = unsafe {
            let [x, y, s]: [__m512i; 3] = [x, y, s].map(|v| std::mem::transmute::<[u32; 16], __m512i>(v));
            std::mem::transmute(_mm512_dpbf16_ps(_mm512_castsi512_ps(s), as_bf16(x), as_bf16(y)))
        };
        (0..16).all(|i| {
            let high = |v: u32| f32::from_bits(v & 0xffff_0000);
            let low = |v: u32| f32::from_bits(v << 16);
            let first = high(x[i]).mul_add(high(y[i]), f32::from_bits(s[i]));
            low(x[i]).mul_add(low(y[i]), first).to_bits() == dot[i]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_processor_uses_the_dot_product_where_it_has_two_fused_steps() {
        if is_x86_feature_detected!("avx512bf16") {
            // SAFETY: the feature is there.
            let usable = unsafe { dot_is_two_fused_steps() };
            assert_eq!(bf16().packed.exact.is_some(), usable);
        }
    }
}
