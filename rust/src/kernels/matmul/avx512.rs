//! AVX-512 micro-kernels with one `k` per lane: FP32, FP16 and BF16 widened to FP32 when B is loaded.
//!
//! 8x32 tiles leave half of the 32 registers to B and reach the arithmetic limit with the fewest edges. Of few rows up to 12
//! make a tile, which reads a packed B less often: 17x4096x4096 in tiles of 9 and 8 rows takes 0.95 of the time of three of 6
//! and 5. The 16x16 tiles read a B in place once for up to 16 rows.
#![allow(unsafe_code)] // intrinsics on addresses
#![allow(clippy::needless_range_loop)] // the loops are about row and vector numbers

use super::avx512_stream::{BF16_STREAM, F16_STREAM, F32_STREAM};
use super::pack_avx512::{form, pack};
use super::tile::{End, Family, Finish, InPlace, Kernels, Out, Start, Tile, TileFn, Wide};
use crate::dtype::DType;
use std::arch::x86_64::*;

/// Columns of a packed panel.
pub(super) const NR: usize = 32;
/// Rows of a tile where there are many.
pub(super) const MR: usize = 8;
/// Rows of the largest tile.
pub(super) const FEW: usize = 12;
/// Rows and columns of the tall tile.
const TALL: usize = 16;

/// How an element of B becomes a binary32: const parameters of [`tile`].
pub(super) const F32: u8 = 0;
pub(super) const F16: u8 = 1;
pub(super) const BF16: u8 = 2;

/// The lanes that exist of each vector of a tile.
#[inline]
pub(super) fn masks<const NV: usize>(cols: usize) -> [__mmask16; NV] {
    let all = (1u64 << cols) - 1;
    std::array::from_fn(|v| (all >> (16 * v)) as __mmask16)
}

/// Safety: 16 elements from `b` on, as far as the mask has them, may be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn load<const B: u8>(b: *const u8, mask: __mmask16) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            F32 => _mm512_maskz_loadu_ps(mask, b.cast()),
            F16 => _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, b.cast())),
            _ => {
                let half = _mm256_maskz_loadu_epi16(mask, b.cast());
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)))
            }
        }
    }
}

/// A tile of `ROWS x (NV * 16)`. With `PACKED`, A is a packed panel of `ROWS` rows.
///
/// Safety: as [`TileFn`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn tile<const B: u8, const PACKED: bool, const ROWS: usize, const NV: usize>(t: &Tile) {
    let masks = masks::<NV>(t.cols);
    // SAFETY: the caller's promise.
    unsafe {
        touch::<ROWS>(&t.end);
        let acc = start::<ROWS, NV>(t.start);
        // With masked loads whole tiles reach 96 % of the peak, without 99.
        let acc = if t.cols == NV * 16 {
            sums::<B, PACKED, ROWS, NV>(t, acc, [!0; NV])
        } else {
            sums::<B, PACKED, ROWS, NV>(t, acc, masks)
        };
        end(&t.end, acc, masks);
    }
}

/// Asks for the rows of the result, which are written at the end.
#[inline]
pub(super) fn touch<const ROWS: usize>(end: &End) {
    if let End::Finish(finish) = end {
        for i in 0..ROWS {
            let row = finish.c.wrapping_offset(i as isize * finish.c_row);
            // SAFETY: a prefetch touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.cast()) };
        }
    }
}

// The next four are always inlined, since accumulators that cross a call go through memory: 180 cycles per tile. Such a
// function cannot name its features, so its intrinsics are unsafe calls.

/// Adds the products of all steps to the accumulators of a tile, with the lanes of B that the masks have.
///
/// Safety: as [`tile`], and the caller has AVX-512.
#[inline(always)]
unsafe fn sums<const B: u8, const PACKED: bool, const ROWS: usize, const NV: usize>(
    t: &Tile,
    mut acc: [[__m512; NV]; ROWS],
    masks: [__mmask16; NV],
) -> [[__m512; NV]; ROWS] {
    let size = if B == F32 { 4 } else { 2 };
    let (a_row, a_step) = if PACKED { (4, ROWS as isize * 4) } else { (t.a_row, t.a_step) };
    // SAFETY: the addresses of the tile are valid for its extents; prefetches and `wrapping` arithmetic touch nothing.
    unsafe {
        let (mut a, mut b, mut next) = (t.a, t.b, t.next);
        for _ in 0..t.steps {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            next = next.wrapping_offset(t.next_step);
            let mut columns = [_mm512_setzero_ps(); NV];
            for v in 0..NV {
                columns[v] = load::<B>(b.wrapping_add(v * 16 * size), masks[v]);
            }
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(t.b_ahead).cast());
            if NV * 16 * size > 64 {
                _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(t.b_ahead + 64).cast());
            }
            for i in 0..ROWS {
                let x = _mm512_set1_ps(*a.wrapping_offset(i as isize * a_row).cast::<f32>());
                for v in 0..NV {
                    acc[i][v] = _mm512_fmadd_ps(x, columns[v], acc[i][v]);
                }
            }
            a = a.wrapping_offset(a_step);
            b = b.wrapping_offset(t.b_step);
        }
    }
    acc
}

/// The accumulators of a tile.
///
/// Safety: a carry has `ROWS * NV` vectors, and the caller has AVX-512.
#[inline(always)]
pub(super) unsafe fn start<const ROWS: usize, const NV: usize>(start: Start) -> [[__m512; NV]; ROWS] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[_mm512_setzero_ps(); NV]; ROWS];
        if let Start::Carry(from) = start {
            for i in 0..ROWS {
                for v in 0..NV {
                    acc[i][v] = _mm512_loadu_ps(from.add((i * NV + v) * 64).cast());
                }
            }
        }
        acc
    }
}

/// Stores the accumulators of a tile, or finishes them.
///
/// Safety: a carry has `ROWS * NV` vectors; otherwise the addresses are valid where the masks say so. The caller has AVX-512.
#[inline(always)]
pub(super) unsafe fn end<const ROWS: usize, const NV: usize>(
    end: &End,
    acc: [[__m512; NV]; ROWS],
    masks: [__mmask16; NV],
) {
    // SAFETY: the caller's promise.
    unsafe {
        match end {
            End::Carry(to) => {
                for i in 0..ROWS {
                    for v in 0..NV {
                        _mm512_storeu_ps(to.add((i * NV + v) * 64).cast(), acc[i][v]);
                    }
                }
            }
            End::Finish(f) => finish(f, acc, masks),
        }
    }
}

/// Adds, rounds and stores.
///
/// Safety: as [`end`].
#[inline(always)]
pub(super) unsafe fn finish<const ROWS: usize, const NV: usize>(
    f: &Finish,
    mut acc: [[__m512; NV]; ROWS],
    masks: [__mmask16; NV],
) {
    // SAFETY: the caller's promise.
    unsafe {
        // One form of NaN: which of several NaN operands an instruction passes on differs between instruction sets.
        let nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc0_0000));
        if !f.acc.is_null() {
            for i in 0..ROWS {
                for v in 0..NV {
                    let from = f.acc.wrapping_offset(i as isize * f.acc_row).wrapping_add(v * 64);
                    acc[i][v] = _mm512_add_ps(acc[i][v], _mm512_maskz_loadu_ps(masks[v], from.cast()));
                }
            }
        }
        if !f.bias.is_null() {
            for v in 0..NV {
                let bias = _mm512_maskz_loadu_ps(masks[v], f.bias.wrapping_add(v * 64).cast());
                for i in 0..ROWS {
                    acc[i][v] = _mm512_add_ps(acc[i][v], bias);
                }
            }
        }
        for i in 0..ROWS {
            for v in 0..NV {
                let unordered = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(acc[i][v], acc[i][v]);
                acc[i][v] = _mm512_mask_mov_ps(acc[i][v], unordered, nan);
            }
        }
        let to = |i: usize, v: usize| f.c.wrapping_offset(i as isize * f.c_row).wrapping_add(v * 16 * f.out.size());
        match f.out {
            Out::F16 => {
                for i in 0..ROWS {
                    for v in 0..NV {
                        let half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(acc[i][v]);
                        _mm256_mask_storeu_epi16(to(i, v).cast(), masks[v], half);
                    }
                }
            }
            Out::Bf16 => {
                for i in 0..ROWS {
                    for v in 0..NV {
                        _mm256_mask_storeu_epi16(to(i, v).cast(), masks[v], to_bf16(acc[i][v]));
                    }
                }
            }
            Out::F32 | Out::I32 => {
                for i in 0..ROWS {
                    for v in 0..NV {
                        _mm512_mask_storeu_ps(to(i, v).cast(), masks[v], acc[i][v]);
                    }
                }
            }
        }
    }
}

/// Rounds to nearest even, by integer arithmetic: the instruction for it flushes subnormal numbers. NaN is canonical here.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn to_bf16(x: __m512) -> __m256i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
}

/// `[tile::<parameters, 1, nv>, tile::<parameters, 2, nv>, ..]`
macro_rules! rows {
    (@ $tile:ident ($($parameter:ident),*) $rows:literal $nv:literal) => { $tile::<$($parameter,)* $rows, $nv> };
    ($tile:ident $parameters:tt $nv:literal: $($rows:literal)*) => { [$(rows!(@ $tile $parameters $rows $nv)),*] };
}
pub(super) use rows;

const fn wide<const B: u8, const PACKED: bool>() -> [TileFn; MR] {
    rows!(tile (B, PACKED) 2: 1 2 3 4 5 6 7 8)
}

const fn few<const B: u8, const PACKED: bool>() -> [TileFn; FEW] {
    rows!(tile (B, PACKED) 2: 1 2 3 4 5 6 7 8 9 10 11 12)
}

const fn tall<const B: u8, const PACKED: bool>() -> [TileFn; TALL] {
    rows!(tile (B, PACKED) 1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

static F32_PACKED: [TileFn; FEW] = few::<F32, true>();
static F32_STRIDED: [TileFn; MR] = wide::<F32, false>();
static F32_TALL: [TileFn; TALL] = tall::<F32, true>();
static F16_PACKED: [TileFn; MR] = wide::<F16, true>();
static F16_TALL: [TileFn; TALL] = tall::<F16, true>();
static BF16_PACKED: [TileFn; MR] = wide::<BF16, true>();

const F32_FAMILY: Family = Family {
    nr: NR,
    k_group: 1,
    b_lane: 4,
    header: 0,
    pack_a: pack::<{ form::COPY32 }>,
    pack_b: pack::<{ form::COPY32 }>,
    rows: MR,
    tiles: &F32_PACKED,
    tall: &F32_TALL,
    tall_up_to: 0,
    strided: Some(&F32_STRIDED),
    exact: None,
};

/// Tall tiles convert half as often for each multiply-add as 8x32 tiles: 98 % of the limit, not 85. Above, converting the
/// panel once and reading FP32 is faster still.
const F16_TALL_UP_TO: usize = 64;

const F16_FAMILY: Family = Family {
    b_lane: 2,
    pack_a: pack::<{ form::WIDEN_F16 }>,
    pack_b: pack::<{ form::COPY16 }>,
    tiles: &F16_PACKED,
    tall: &F16_TALL,
    tall_up_to: F16_TALL_UP_TO,
    strided: None,
    ..F32_FAMILY
};

/// FP16 as FP32.
const F16_WIDE: Family =
    Family { pack_a: pack::<{ form::WIDEN_F16 }>, pack_b: pack::<{ form::WIDEN_F16 }>, strided: None, ..F32_FAMILY };

const BF16_FAMILY: Family = Family {
    b_lane: 2,
    pack_a: pack::<{ form::WIDEN_BF16 }>,
    pack_b: pack::<{ form::COPY16 }>,
    tiles: &BF16_PACKED,
    tall: &[],
    tall_up_to: 0,
    strided: None,
    ..F32_FAMILY
};

static F32_KERNELS: Kernels = Kernels {
    packed: F32_FAMILY,
    in_place: Some(InPlace {
        family: F32_FAMILY,
        rows_below: TALL + 1,
        bytes_up_to: 256 << 10,
        masks: true,
        stream: &F32_STREAM,
    }),
    wide: None,
};

static F16_KERNELS: Kernels = Kernels {
    packed: F16_FAMILY,
    in_place: Some(InPlace {
        family: F16_FAMILY,
        rows_below: TALL + 1,
        bytes_up_to: 0,
        masks: true,
        stream: &F16_STREAM,
    }),
    wide: Some(Wide { family: F16_WIDE, rows_from: F16_TALL_UP_TO + 1 }),
};

/// BF16 in place, for so few rows that memory is the limit; packed, the kernels of [`super::avx512_dot`] do it at twice the speed.
pub(super) const BF16_IN_PLACE: InPlace =
    InPlace { family: BF16_FAMILY, rows_below: 5, bytes_up_to: 0, masks: true, stream: &BF16_STREAM };

/// The kernels for operands of type `dtype`. The caller holds an [`super::Isa::Avx512`].
pub(super) fn kernels(dtype: DType) -> Option<&'static Kernels> {
    match dtype {
        DType::F32 => Some(&F32_KERNELS),
        DType::F16 => Some(&F16_KERNELS),
        DType::BF16 => Some(super::avx512_dot::bf16()),
        DType::I8 => Some(super::avx512_dot::int8()),
        _ => None,
    }
}
