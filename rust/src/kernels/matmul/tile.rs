//! The contract between the driver, which cuts a product into tiles, and the micro-kernels of one instruction set.
//!
//! Operands reach a micro-kernel as *lanes*: the elements of `k_group` consecutive `k` of one row (of A) or one column
//! (of B), side by side. A packed panel is `[steps][width]` lanes, where a step covers `k_group` values of `k`.

use super::spec::MatRef;
use crate::dtype::DType;

/// How one product tile is computed: `rows` (fixed by the function) x `cols`.
pub(super) struct Tile {
    /// Number of steps along `k`.
    pub steps: usize,
    /// Lane of row 0, step 0; `a_row` and `a_step` are the bytes to the next row and the next step.
    pub a: *const u8,
    pub a_row: isize,
    pub a_step: isize,
    /// Lane of column 0, step 0; columns are adjacent.
    pub b: *const u8,
    pub b_step: isize,
    /// Bytes from `b` to what is prefetched in each step.
    pub b_ahead: isize,
    /// What is needed after this tile: in each step the line here, `next_step` bytes further each time, is asked for too.
    pub next: *const u8,
    pub next_step: isize,
    /// Columns of the tile that exist, at least 1. Nothing outside of them is stored or, with a plain B, loaded.
    pub cols: usize,
    /// Where the accumulators start.
    pub start: Start,
    /// What becomes of the accumulators.
    pub end: End,
}

/// Where the accumulators of a tile start.
#[derive(Clone, Copy)]
pub(super) enum Start {
    Zero,
    /// One accumulator per column of the panel, the same for each row (the INT8 correction).
    Columns(*const u8),
    /// What [`End::Carry`] stored.
    Carry(*const u8),
}

/// What becomes of the accumulators of a tile.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The sums continue in a later tile: store `rows x panel width` accumulators as they are.
    Carry(*mut u8),
    /// The sums are complete.
    Finish(Finish),
}

/// The last step of a tile: add, round, store.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    /// Accumulators to add, or null.
    pub acc: *const u8,
    pub acc_row: isize,
    /// One accumulator per column to add, or null.
    pub bias: *const u8,
    pub c: *mut u8,
    pub c_row: isize,
    pub out: Out,
}

/// Element type of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Out {
    F32,
    F16,
    Bf16,
    I32,
}

impl Out {
    pub(super) fn new(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Out::F32),
            DType::F16 => Some(Out::F16),
            DType::BF16 => Some(Out::Bf16),
            DType::I32 => Some(Out::I32),
            _ => None,
        }
    }

    pub(super) const fn size(self) -> usize {
        match self {
            Out::F32 | Out::I32 => 4,
            Out::F16 | Out::Bf16 => 2,
        }
    }
}

/// Computes a tile of a fixed number of rows.
///
/// Safety: the addresses of the tile are valid for its extents, and the processor has the kernel's instruction set.
pub(super) type TileFn = unsafe fn(&Tile);

/// One packing job: the lanes of `width` rows (of A) or columns (of B), of which `valid` exist, for `k` values of `k`.
pub(super) struct Pack {
    /// Element (0, k = 0).
    pub src: MatRef,
    /// Whether `k` runs along the rows of `src` (its neighbours are adjacent) or across them.
    pub k_adjacent: bool,
    pub k: usize,
    pub valid: usize,
    pub width: usize,
    /// `[ceil(k / k_group)][width]` lanes. Missing rows, columns and `k` are filled so that they do not change a sum.
    pub dst: *mut u8,
    /// Where packing adds what it found out about each column: [`Family::header`] bytes.
    pub header: *mut u8,
}

/// Packs, and says how small the operand gets where its kernels ask for that ([`Kernels::exact`]).
pub(super) type PackFn = unsafe fn(&Pack) -> Smallest;

/// The biased exponent of the non-zero element of least magnitude: 0 means that there is a subnormal one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub(super) struct Smallest(pub u32);

impl Smallest {
    /// There is no non-zero element.
    pub(super) const NONE: Smallest = Smallest(512);

    /// Of magnitude bits (sign removed) minus 1 as 16-bit numbers, the least; zeros wrap around to the top.
    pub(super) fn from_wrapped_magnitude(least: u16) -> Self {
        Smallest((u32::from(least) + 1) >> 7)
    }

    /// Whether no operation on sums of products of such operands can meet a subnormal number.
    ///
    /// A BF16 number of biased exponent `e` is a multiple of `2^(e - 127 - 7)`. So each product, and with it each sum and
    /// each rounded sum, is a multiple of `2^(ea + eb - 268)`; where that is at least the least normal number, `2^-126`,
    /// everything that is not zero is normal.
    pub(super) fn products_stay_normal(self, other: Self) -> bool {
        self.0 >= 1 && other.0 >= 1 && self.0 + other.0 >= 268 - 126
    }
}

/// Micro-kernels that agree on what a lane is, and the packing that makes those lanes.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// Columns of a packed panel.
    pub nr: usize,
    /// Values of `k` in one lane.
    pub k_group: usize,
    /// Bytes of one lane of B; lanes of A have 4.
    pub b_lane: usize,
    /// Bytes before the lanes of a packed panel, kept for what packing found out.
    pub header: usize,
    pub pack_a: PackFn,
    pub pack_b: PackFn,
    /// Rows of a tile where there are many.
    pub rows: usize,
    /// `[rows - 1]`, on packed A. Where there are few rows, tiles can have more than `rows`, so that B is read less often.
    pub tiles: &'static [TileFn],
    /// `[rows - 1]`, on packed A and half of a panel: reads each lane of B once for more rows than `tiles` has.
    pub tall: &'static [TileFn],
    /// Rows up to which `tall` is taken on packed panels; in place it is where all rows are one tile.
    pub tall_up_to: usize,
    /// `[rows - 1]`, on A with any strides, where elements are lanes.
    pub strided: Option<&'static [TileFn]>,
    /// `[rows - 1]`, for operands whose [`Smallest`] do not allow `tiles`.
    pub exact: Option<&'static [TileFn]>,
}

impl Family {
    /// Steps of a sum of length `k`.
    pub(super) fn steps(&self, k: usize) -> usize {
        k.div_ceil(self.k_group)
    }

    /// Bytes of a packed panel.
    pub(super) fn panel_bytes(&self, k: usize) -> usize {
        (self.header + self.steps(k) * self.nr * self.b_lane).next_multiple_of(64)
    }
}

/// All that an instruction set has for one element type.
pub(super) struct Kernels {
    /// The lanes of an operand that is packed before and used by many products.
    pub packed: Family,
    /// For B where it lies in memory, `[k, n]`: elements are lanes.
    pub in_place: Option<InPlace>,
    /// For products of many rows, whether B was packed before or not: its lanes cost more to make and less to use.
    pub wide: Option<Wide>,
}

/// When B is read where it lies.
pub(super) struct InPlace {
    pub family: Family,
    /// For fewer rows than this,
    pub rows_below: usize,
    /// and for any number of rows where B has at most so many bytes: it stays in the second-level cache.
    pub bytes_up_to: usize,
    /// Whether the tiles can do with fewer columns than they have.
    pub masks: bool,
    /// For few rows: all columns go along together, so that memory is read in order.
    pub stream: &'static [StreamFn],
}

/// See [`Kernels::wide`].
pub(super) struct Wide {
    pub family: Family,
    pub rows_from: usize,
}

/// Some columns of a product of few rows, with B where it lies.
pub(super) struct Stream {
    pub k: usize,
    /// Packed panel of A.
    pub a: *const u8,
    pub b: *const u8,
    pub b_step: isize,
    pub cols: usize,
    /// Room for the sums: one row of `cols`, rounded up to [`STREAM_UNIT`], for each row of A.
    pub sums: *mut u8,
    pub finish: Finish,
}

/// Columns that a stream goes on by.
pub(super) const STREAM_UNIT: usize = 16;

/// Computes all rows of a stream.
///
/// Safety: the addresses are valid for the extents, and the processor has the kernel's instruction set.
pub(super) type StreamFn = unsafe fn(&Stream);

impl Kernels {
    pub(super) fn families(&self) -> impl Iterator<Item = &Family> {
        let in_place = self.in_place.as_ref().map(|in_place| &in_place.family);
        let wide = self.wide.as_ref().map(|wide| &wide.family);
        std::iter::once(&self.packed).chain(in_place).chain(wide)
    }
}

#[cfg(test)]
mod tests {
    use super::Smallest;

    #[test]
    fn products_stay_normal_exactly_where_their_last_bits_are_normal() {
        let exponent = |bits: u16| Smallest::from_wrapped_magnitude((bits & 0x7fff).wrapping_sub(1));
        assert_eq!(exponent(0x8000), Smallest::NONE);
        assert_eq!(exponent(0x007f), Smallest(0));
        assert_eq!(exponent(0x0080), Smallest(1));
        assert_eq!(exponent(0xbf80), Smallest(127));
        // 2^-56 * 2^-56 has its last bit at 2^-126, 2^-57 * 2^-56 below.
        assert!(Smallest(71).products_stay_normal(Smallest(71)));
        assert!(!Smallest(70).products_stay_normal(Smallest(71)));
        // A subnormal operand is flushed whatever it is multiplied by.
        assert!(!Smallest(0).products_stay_normal(Smallest(254)));
        assert!(Smallest::NONE.products_stay_normal(Smallest(1)));
    }
}
