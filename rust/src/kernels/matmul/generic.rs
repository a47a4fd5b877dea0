//! Micro-kernels in plain Rust.
#![allow(unsafe_code)] // reads and writes matrices by address

use super::emulated::{self, NR};
use super::finish::{Acc, finish};
use super::pack::{self, pack};
use super::tile::{End, Family, InPlace, Kernels, PackFn, Start, Tile, TileFn};
use crate::dtype::DType;

const MR: usize = 4;

/// One step of the sums of a row of a tile.
trait Step {
    type Acc: Acc;
    fn step(a: Self::Acc, b: &[Self::Acc; NR], sums: &mut [Self::Acc; NR]);
}

/// `fma(a, b, s)` for any binary32, where there is an instruction for it.
struct Fused;

impl Step for Fused {
    type Acc = f32;

    #[inline(always)]
    fn step(a: f32, b: &[f32; NR], sums: &mut [f32; NR]) {
        *sums = std::array::from_fn(|i| a.mul_add(b[i], sums[i]));
    }
}

/// `fma(a, b, s)` where `a` and `b` come from binary16: their product has at most 22 significant bits between `2^-48` and
/// `2^32`, so binary32 holds it exactly and the addition is the only rounding.
struct ExactProduct;

impl Step for ExactProduct {
    type Acc = f32;

    #[inline(always)]
    fn step(a: f32, b: &[f32; NR], sums: &mut [f32; NR]) {
        *sums = std::array::from_fn(|i| a * b[i] + sums[i]);
    }
}

struct Integer;

impl Step for Integer {
    type Acc = i32;

    #[inline(always)]
    fn step(a: i32, b: &[i32; NR], sums: &mut [i32; NR]) {
        *sums = std::array::from_fn(|i| sums[i].wrapping_add(a.wrapping_mul(b[i])));
    }
}

/// Safety: as [`TileFn`].
unsafe fn tile<S: Step, const ROWS: usize>(t: &Tile) {
    let mut acc = [[S::Acc::default(); NR]; ROWS];
    // SAFETY: the addresses of the tile are valid for `ROWS` rows, `NR` columns and `steps` steps; lanes have 4 bytes.
    unsafe {
        match t.start {
            Start::Carry(from) => acc = from.cast::<[[S::Acc; NR]; ROWS]>().read_unaligned(),
            Start::Zero | Start::Columns(_) => {}
        }
        let (mut a, mut b) = (t.a, t.b);
        for _ in 0..t.steps {
            let columns = b.cast::<[S::Acc; NR]>().read_unaligned();
            for (i, row) in acc.iter_mut().enumerate() {
                let x = a.offset(i as isize * t.a_row).cast::<S::Acc>().read_unaligned();
                S::step(x, &columns, row);
            }
            a = a.wrapping_offset(t.a_step);
            b = b.wrapping_offset(t.b_step);
        }
        match t.end {
            End::Carry(to) => to.cast::<[[S::Acc; NR]; ROWS]>().write_unaligned(acc),
            End::Finish(ref end) => finish(end, &acc, t.cols),
        }
    }
}

const fn tiles<S: Step>() -> [TileFn; MR] {
    [tile::<S, 1>, tile::<S, 2>, tile::<S, 3>, tile::<S, 4>]
}

/// With an instruction, or without: then more rows share the work of widening columns.
static FUSED: &[TileFn] =
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { &tiles::<Fused>() } else { &EMULATED };
static EMULATED: [TileFn; 16] = [
    emulated::tile::<1>,
    emulated::tile::<2>,
    emulated::tile::<3>,
    emulated::tile::<4>,
    emulated::tile::<5>,
    emulated::tile::<6>,
    emulated::tile::<7>,
    emulated::tile::<8>,
    emulated::tile::<9>,
    emulated::tile::<10>,
    emulated::tile::<11>,
    emulated::tile::<12>,
    emulated::tile::<13>,
    emulated::tile::<14>,
    emulated::tile::<15>,
    emulated::tile::<16>,
];
static EXACT_PRODUCT: [TileFn; MR] = tiles::<ExactProduct>();
static INTEGER: [TileFn; MR] = tiles::<Integer>();

const fn family(pack: PackFn, tiles: &'static [TileFn], strided: Option<&'static [TileFn]>) -> Family {
    Family {
        nr: NR,
        k_group: 1,
        b_lane: 4,
        header: 0,
        pack_a: pack,
        pack_b: pack,
        rows: MR,
        tiles,
        tall: &[],
        tall_up_to: 0,
        strided,
        exact: None,
    }
}

const fn packed(family: Family) -> Kernels {
    Kernels { packed: family, in_place: None, wide: None }
}

const COPIED: Family = family(pack::<pack::Copy32>, FUSED, Some(FUSED));

static F32: Kernels = Kernels {
    in_place: Some(InPlace {
        family: COPIED,
        rows_below: FUSED.len() + 1,
        bytes_up_to: 256 << 10,
        masks: false,
        stream: &[],
    }),
    ..packed(COPIED)
};
static F16: Kernels = packed(family(pack::<pack::WidenF16>, &EXACT_PRODUCT, None));
static BF16: Kernels = packed(family(pack::<pack::WidenBf16>, FUSED, None));
static I8: Kernels = packed(family(pack::<pack::WidenI8>, &INTEGER, None));

/// The kernels for operands of type `dtype`.
pub(super) fn kernels(dtype: DType) -> Option<&'static Kernels> {
    match dtype {
        DType::F32 => Some(&F32),
        DType::F16 => Some(&F16),
        DType::BF16 => Some(&BF16),
        DType::I8 => Some(&I8),
        _ => None,
    }
}
