//! Micro-kernels in plain Rust.
#![allow(unsafe_code)] // reads and writes matrices by address

use super::finish::{Acc, finish};
use super::pack::{self, pack};
use super::tile::{End, Family, InPlace, Kernels, PackFn, Start, Tile, TileFn};
use crate::dtype::DType;

const NR: usize = 16;
const MR: usize = 4;

/// One step of a sum.
trait Step {
    type Acc: Acc;
    fn step(a: Self::Acc, b: Self::Acc, s: Self::Acc) -> Self::Acc;
}

/// `fma(a, b, s)` for any binary32.
struct Fused;

impl Step for Fused {
    type Acc = f32;

    #[inline(always)]
    fn step(a: f32, b: f32, s: f32) -> f32 {
        if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, s) } else { fused(a, b, s) }
    }
}

/// `fma(a, b, s)` where `a` and `b` come from binary16: their product has at most 22 significant bits between `2^-48` and
/// `2^32`, so binary32 holds it exactly and the addition is the only rounding.
struct ExactProduct;

impl Step for ExactProduct {
    type Acc = f32;

    #[inline(always)]
    fn step(a: f32, b: f32, s: f32) -> f32 {
        a * b + s
    }
}

struct Integer;

impl Step for Integer {
    type Acc = i32;

    #[inline(always)]
    fn step(a: i32, b: i32, s: i32) -> i32 {
        s.wrapping_add(a.wrapping_mul(b))
    }
}

/// `fma(a, b, s)` in binary32 without an instruction for it, in a form that vectorises (the C library's does not).
///
/// The product is exact in binary64. The sum is rounded to odd there: where it is inexact (the error term of the two-sum
/// is not 0) and the last bit is even, the neighbour towards the exact sum is taken. A number rounded to odd with at least two
/// extra bits then rounds to binary32 as the exact sum would, subnormal results included.
#[inline(always)]
fn fused(a: f32, b: f32, s: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let s = f64::from(s);
    let sum = product + s;
    let back = sum - product;
    let error = (product - (sum - back)) + (s - back);
    let bits = sum.to_bits();
    // Infinite and NaN sums have a NaN error and fall through both comparisons.
    let inexact = (error > 0.0) | (error < 0.0);
    let towards = if (error > 0.0) == (sum > 0.0) { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact & (bits & 1 == 0) { towards } else { bits }) as f32
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
                for (sum, y) in row.iter_mut().zip(columns) {
                    *sum = S::step(x, y, *sum);
                }
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

static FUSED: [TileFn; MR] = tiles::<Fused>();
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

const COPIED: Family = family(pack::<pack::Copy32>, &FUSED, Some(&FUSED));

static F32: Kernels = Kernels {
    in_place: Some(InPlace { family: COPIED, rows_below: MR + 1, bytes_up_to: 256 << 10, masks: false, stream: &[] }),
    ..packed(COPIED)
};
static F16: Kernels = packed(family(pack::<pack::WidenF16>, &EXACT_PRODUCT, None));
static BF16: Kernels = packed(family(pack::<pack::WidenBf16>, &FUSED, None));
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

#[cfg(test)]
mod tests {
    use super::fused;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_software_fma_rounds_once(a: u32, b: u32, s: u32, near in 0u32..64, cancel: bool) {
            let (a, b) = (f32::from_bits(a), f32::from_bits(b));
            // Half of the cases have an addend close to the negated product, where rounding twice shows.
            let s = if cancel { f32::from_bits((-(a * b)).to_bits() ^ near) } else { f32::from_bits(s) };
            let (expected, found) = (a.mul_add(b, s), fused(a, b, s));
            prop_assert!(expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan()),
                "fma({a:e}, {b:e}, {s:e}) = {expected:e}, not {found:e}");
        }
    }
}
