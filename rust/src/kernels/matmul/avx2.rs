//! AVX2 micro-kernels: 6x16 tiles keep 12 of the 16 registers as accumulators.
#![allow(unsafe_code)] // intrinsics on addresses
#![allow(clippy::needless_range_loop)] // the loops are about row and vector numbers

use super::finish::finish as finish_one_by_one;
use super::pack::{self, pack};
use super::tile::{End, Family, Finish, InPlace, Kernels, Out, PackFn, Start, Tile, TileFn, Wide};
use crate::dtype::DType;
use std::arch::x86_64::*;

const NR: usize = 16;
const MR: usize = 6;

/// How an element of B becomes a binary32: const parameters of [`tile`].
const F32: u8 = 0;
const F16: u8 = 1;
const BF16: u8 = 2;

/// Safety: 8 elements from `b` on may be read.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load<const B: u8>(b: *const u8) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            F32 => _mm256_loadu_ps(b.cast()),
            F16 => _mm256_cvtph_ps(_mm_loadu_si128(b.cast())),
            _ => {
                let half = _mm256_cvtepu16_epi32(_mm_loadu_si128(b.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(half))
            }
        }
    }
}

/// `ROWS x 16` of floating-point numbers. With `PACKED`, A is a packed panel of `ROWS` rows.
///
/// Safety: as [`TileFn`]; all 16 columns may be read.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const B: u8, const PACKED: bool, const ROWS: usize>(t: &Tile) {
    let size = if B == F32 { 4 } else { 2 };
    let (a_row, a_step) = if PACKED { (4, ROWS as isize * 4) } else { (t.a_row, t.a_step) };
    // SAFETY: the addresses of the tile are valid for its extents; prefetches and `wrapping` arithmetic touch nothing.
    unsafe {
        let mut acc = match t.start {
            Start::Carry(from) => from.cast::<[[__m256; 2]; ROWS]>().read_unaligned(),
            Start::Zero | Start::Columns(_) => [[_mm256_setzero_ps(); 2]; ROWS],
        };
        let (mut a, mut b) = (t.a, t.b);
        for _ in 0..t.steps {
            let columns = [load::<B>(b), load::<B>(b.wrapping_add(8 * size))];
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(t.b_ahead).cast());
            for i in 0..ROWS {
                let x = _mm256_set1_ps(*a.wrapping_offset(i as isize * a_row).cast::<f32>());
                for v in 0..2 {
                    acc[i][v] = _mm256_fmadd_ps(x, columns[v], acc[i][v]);
                }
            }
            a = a.wrapping_offset(a_step);
            b = b.wrapping_offset(t.b_step);
        }
        match t.end {
            End::Carry(to) => to.cast::<[[__m256; 2]; ROWS]>().write_unaligned(acc),
            End::Finish(ref f) if t.cols == NR => finish(f, acc),
            End::Finish(ref f) => {
                let rows = (&raw const acc).cast::<[[f32; NR]; ROWS]>().read();
                finish_one_by_one(f, &rows, t.cols);
            }
        }
    }
}

/// Adds, rounds and stores 16 columns.
///
/// Safety: the addresses are valid for `ROWS` rows of 16 columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn finish<const ROWS: usize>(f: &Finish, acc: [[__m256; 2]; ROWS]) {
    // The one form of NaN, as in `finish.rs`.
    let nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc0_0000));
    for i in 0..ROWS {
        for v in 0..2 {
            let mut x = acc[i][v];
            // SAFETY: the caller's promise.
            unsafe {
                if !f.acc.is_null() {
                    let from = f.acc.wrapping_offset(i as isize * f.acc_row).wrapping_add(v * 32);
                    x = _mm256_add_ps(x, _mm256_loadu_ps(from.cast()));
                }
                if !f.bias.is_null() {
                    x = _mm256_add_ps(x, _mm256_loadu_ps(f.bias.wrapping_add(v * 32).cast()));
                }
                x = _mm256_blendv_ps(x, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                let to = f.c.wrapping_offset(i as isize * f.c_row).wrapping_add(v * 8 * f.out.size());
                match f.out {
                    Out::F16 => _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)),
                    Out::Bf16 => _mm_storeu_si128(to.cast(), to_bf16(x)),
                    Out::F32 | Out::I32 => _mm256_storeu_ps(to.cast(), x),
                }
            }
        }
    }
}

/// Rounds to nearest even. NaN is canonical here.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn to_bf16(x: __m256) -> __m128i {
    let bits = _mm256_castps_si256(x);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
    let high = _mm256_srli_epi32::<16>(rounded);
    _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256::<1>(high))
}

/// `ROWS x 16` of INT8, two `k` a lane, widened to 16 bits: the sum of two products is exact in 32.
///
/// Safety: as [`TileFn`], on packed panels.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn pairs<const ROWS: usize>(t: &Tile) {
    // SAFETY: the addresses of the tile are valid for its extents; panels are 16 lanes wide.
    unsafe {
        let mut acc = match t.start {
            Start::Carry(from) => from.cast::<[[__m256i; 2]; ROWS]>().read_unaligned(),
            Start::Zero | Start::Columns(_) => [[_mm256_setzero_si256(); 2]; ROWS],
        };
        let (mut a, mut b) = (t.a, t.b);
        for _ in 0..t.steps {
            let columns = [_mm256_loadu_si256(b.cast()), _mm256_loadu_si256(b.add(32).cast())];
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(t.b_ahead).cast());
            for i in 0..ROWS {
                let x = _mm256_set1_epi32(*a.add(i * 4).cast::<i32>());
                for v in 0..2 {
                    acc[i][v] = _mm256_add_epi32(acc[i][v], _mm256_madd_epi16(x, columns[v]));
                }
            }
            a = a.wrapping_add(ROWS * 4);
            b = b.wrapping_add(NR * 4);
        }
        match t.end {
            End::Carry(to) => to.cast::<[[__m256i; 2]; ROWS]>().write_unaligned(acc),
            End::Finish(ref f) => {
                let rows = (&raw const acc).cast::<[[i32; NR]; ROWS]>().read();
                finish_one_by_one(f, &rows, t.cols);
            }
        }
    }
}

const fn tiles<const B: u8, const PACKED: bool>() -> [TileFn; MR] {
    [
        tile::<B, PACKED, 1>,
        tile::<B, PACKED, 2>,
        tile::<B, PACKED, 3>,
        tile::<B, PACKED, 4>,
        tile::<B, PACKED, 5>,
        tile::<B, PACKED, 6>,
    ]
}

static F32_PACKED: [TileFn; MR] = tiles::<F32, true>();
static F32_STRIDED: [TileFn; MR] = tiles::<F32, false>();
static F16_PACKED: [TileFn; MR] = tiles::<F16, true>();
static BF16_PACKED: [TileFn; MR] = tiles::<BF16, true>();
static PAIRS: [TileFn; MR] = [pairs::<1>, pairs::<2>, pairs::<3>, pairs::<4>, pairs::<5>, pairs::<6>];

const fn float(b_lane: usize, pack_a: PackFn, pack_b: PackFn, tiles: &'static [TileFn]) -> Family {
    Family {
        nr: NR,
        k_group: 1,
        b_lane,
        header: 0,
        pack_a,
        pack_b,
        rows: MR,
        tiles,
        tall: &[],
        tall_up_to: 0,
        strided: None,
        exact: None,
    }
}

const fn in_place(family: Family, bytes_up_to: usize) -> Option<InPlace> {
    Some(InPlace { family, rows_below: MR + 1, bytes_up_to, masks: false, stream: &[] })
}

/// From three tiles of rows on, widening B once costs less than widening it for each.
const fn wide(pack: PackFn) -> Option<Wide> {
    Some(Wide { family: float(4, pack, pack, &F32_PACKED), rows_from: 2 * MR + 1 })
}

const F32_FAMILY: Family =
    Family { strided: Some(&F32_STRIDED), ..float(4, pack::<pack::Copy32>, pack::<pack::Copy32>, &F32_PACKED) };
const F16_FAMILY: Family = float(2, pack::<pack::WidenF16>, pack::<pack::Copy16>, &F16_PACKED);
const BF16_FAMILY: Family = float(2, pack::<pack::WidenBf16>, pack::<pack::Copy16>, &BF16_PACKED);

static F32_KERNELS: Kernels = Kernels { packed: F32_FAMILY, in_place: in_place(F32_FAMILY, 256 << 10), wide: None };
static F16_KERNELS: Kernels =
    Kernels { packed: F16_FAMILY, in_place: in_place(F16_FAMILY, 0), wide: wide(pack::<pack::WidenF16>) };
static BF16_KERNELS: Kernels =
    Kernels { packed: BF16_FAMILY, in_place: in_place(BF16_FAMILY, 0), wide: wide(pack::<pack::WidenBf16>) };

/// INT8, also for AVX-512 processors without VNNI.
pub(super) static I8_KERNELS: Kernels = Kernels {
    packed: Family { k_group: 2, ..float(4, pack::<pack::PairsI8>, pack::<pack::PairsI8>, &PAIRS) },
    in_place: None,
    wide: None,
};

/// The kernels for operands of type `dtype`. The caller holds an [`super::Isa::Avx2`].
pub(super) fn kernels(dtype: DType) -> Option<&'static Kernels> {
    match dtype {
        DType::F32 => Some(&F32_KERNELS),
        DType::F16 => Some(&F16_KERNELS),
        DType::BF16 => Some(&BF16_KERNELS),
        DType::I8 => Some(&I8_KERNELS),
        _ => None,
    }
}
