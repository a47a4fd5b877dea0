//! Which way a product goes: the kernels for it, and how scratch is laid out.

use super::MatMul;
use super::panels::PANELS_AT_ONCE;
use super::spec::{MatMulArgs, MatRef, PackedRef, Rhs};
use super::tile::{Family, Kernels, PackFn, STREAM_UNIT, StreamFn, TileFn};

/// A packed block of A larger than this does not stay near while the panels of B pass by; smaller ones make B be packed
/// more often.
const A_BLOCK_BYTES: usize = 2 << 20;

/// The same where B was packed before and costs nothing to read again: half of the second-level cache.
const A_NEAR_BYTES: usize = 512 << 10;

/// Rows of a block of A at least, however long they are.
const LEAST_ROWS: usize = 16;

/// Bytes of panels of B that are packed together at most, unless one has more.
const B_BLOCK_BYTES: usize = 256 << 10;

/// Bytes of a panel of B that stay in the second-level cache beside a block of A and the next panel, while all rows of the
/// block pass over it. Longer sums are cut.
const B_NEAR_BYTES: usize = 128 << 10;

/// Up to so many times the rows of the largest tile are few.
const FEW_TILES: usize = 2;

/// A is read in place for up to this many panels of B; for more, packing pays.
const A_IN_PLACE_PANELS: usize = 4;

/// A stream pays from this many columns on: below, rows of B are too short to be read in order.
const STREAM_COLUMNS: usize = 256;

/// Bytes of sums of a stream, which should stay in the first-level cache.
const STREAM_BYTES: usize = 16 << 10;

/// Where the lanes of B come from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// Elements in memory are lanes.
    InPlace { b: MatRef, masks: bool },
    /// Panels that were packed before, from a column on.
    Packed(PackedRef),
    /// Packed panel by panel for this product.
    Pack(MatRef),
    /// Panels that were packed before, packed again as lanes of another family.
    PackAgain(PackedRef),
}

/// Which way a product goes. Chosen anew for each product; every choice gives the same bits.
pub(super) struct Way {
    pub family: &'static Family,
    pub source: Source,
    pub tiles: &'static [TileFn],
    /// Rows of a tile where there are many.
    pub tile_rows: usize,
    /// Columns of a tile.
    pub width: usize,
    /// How A is packed; `None` where it is read in place.
    pub pack_a: Option<PackFn>,
    /// Instead of tiles.
    pub stream: Option<StreamFn>,
}

impl Way {
    pub(super) fn new(mm: &MatMul, args: &MatMulArgs) -> Self {
        let (m, n) = (args.m, args.n);
        let Kernels { packed, in_place, wide } = mm.kernels;
        let mut stream = None;
        let (family, source) = match (args.b, in_place, wide) {
            (Rhs::Plain(b), Some(place), _)
                if !mm.spec.b_trans
                    && (m < place.rows_below
                        || args.k.saturating_mul(b.row_stride.unsigned_abs()) <= place.bytes_up_to) =>
            {
                if n >= STREAM_COLUMNS {
                    stream = place.stream.get(m - 1).copied();
                }
                (&place.family, Source::InPlace { b, masks: place.masks })
            }
            (Rhs::Plain(b), _, Some(wide)) if m >= wide.rows_from => (&wide.family, Source::Pack(b)),
            (Rhs::Plain(b), ..) => (packed, Source::Pack(b)),
            (Rhs::Packed(part), _, Some(wide)) if m >= wide.rows_from => (&wide.family, Source::PackAgain(part)),
            (Rhs::Packed(part), ..) => (packed, Source::Packed(part)),
        };
        let tall_up_to = match source {
            Source::InPlace { .. } => family.tall.len(),
            _ => family.tall_up_to,
        };
        let (tiles, tile_rows, width, pack_a) = if m > family.rows && m <= tall_up_to {
            (family.tall, family.tall.len(), family.nr / 2, Some(family.pack_a))
        } else {
            match family.strided {
                Some(tiles) if stream.is_none() && n <= A_IN_PLACE_PANELS * family.nr => {
                    (tiles, family.rows, family.nr, None)
                }
                _ => (family.tiles, family.rows, family.nr, Some(family.pack_a)),
            }
        };
        Way { family, source, tiles, tile_rows, width, pack_a, stream }
    }

    /// Rows of a block of A of `m` rows, at most as many as the plan has room for. Blocks are about equal: for a last one of a
    /// single row all of B would be read again.
    pub(super) fn rows(&self, plan: &Plan, m: usize, steps: usize) -> usize {
        let most = match self.source {
            Source::Packed(_) => plan.rows.min((A_NEAR_BYTES / 4 / steps.max(1)).max(LEAST_ROWS)),
            _ => plan.rows,
        };
        m.div_ceil(m.div_ceil(most)).next_multiple_of(self.tile_rows).min(most)
    }

    /// The tiles for a panel of so many columns: for half of one or less, such as have half the columns.
    pub(super) fn tiles_of(&self, cols: usize) -> &'static [TileFn] {
        let halves = self.pack_a.is_some() && self.tiles.len() <= self.family.tall.len();
        if halves && cols <= self.family.nr / 2 { self.family.tall } else { self.tiles }
    }

    /// Tiles of a block of `rows`.
    pub(super) fn parts(&self, rows: usize) -> usize {
        let largest = self.tiles.len();
        rows.div_ceil(if rows <= FEW_TILES * largest { largest } else { self.tile_rows })
    }
}

/// How a product is cut, and what lies where in scratch. A block of A lies at the front.
pub(super) struct Plan {
    /// Rows of a block of A.
    pub rows: usize,
    /// Steps of a block of `k`.
    pub steps: usize,
    /// Panels of B that are packed together.
    pub panels: usize,
    /// Columns of a stream.
    pub columns: usize,
    /// Offset of the panel of B; a stream has its sums there.
    pub panel: usize,
    /// Offset of the accumulators that are carried from one block of `k` to the next.
    pub carry: usize,
    /// Size of it all.
    pub bytes: usize,
}

impl Plan {
    /// Each part of scratch is as large as any product of at most `m` rows and sums of at most `k` needs: room for a product
    /// is room for every smaller one.
    pub(super) fn new(family: &Family, m: usize, k: usize) -> Self {
        let total = family.steps(k);
        let rows_of = |steps: usize| (A_BLOCK_BYTES / 4 / steps.max(1)).max(LEAST_ROWS).min(m);
        let rows = rows_of(total);
        let a_bytes = (m * total * 4).min(A_BLOCK_BYTES).max(LEAST_ROWS.min(m) * total * 4);

        let one = family.panel_bytes(k);
        let panels = (B_BLOCK_BYTES / one.max(1)).clamp(1, PANELS_AT_ONCE);
        let b_bytes = (PANELS_AT_ONCE * one).min(B_BLOCK_BYTES).max(one).max(STREAM_BYTES);

        let longest = B_NEAR_BYTES / (family.nr * family.b_lane);
        // Sums a little longer are not cut: a block of few steps costs as much to begin and end as a long one.
        let blocks = ((total + longest / 2) / longest).max(1);
        let carried = if total > longest { rows_of(longest) * family.nr * 4 } else { 0 };

        let panel = a_bytes.next_multiple_of(64);
        let carry = panel + b_bytes.next_multiple_of(64);
        Plan {
            rows,
            steps: total.div_ceil(blocks),
            panels,
            columns: STREAM_BYTES / 4 / STREAM_UNIT / m.max(1) * STREAM_UNIT,
            panel,
            carry,
            bytes: carry + carried.next_multiple_of(64),
        }
    }
}

/// Scratch of one product, whatever way it goes.
pub(super) fn scratch_bytes(kernels: &Kernels, m: usize, k: usize) -> usize {
    kernels.families().map(|family| Plan::new(family, m, k).bytes).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::DType;
    use crate::kernels::Isa;
    use crate::kernels::matmul::{MatMul, MatMulSpec};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scratch_for_a_product_is_enough_for_every_smaller_one(
            m in 0usize..3000, k in 0usize..40_000, less_m in 0usize..3000, less_k in 0usize..40_000
        ) {
            for isa in Isa::available() {
                for dtype in [DType::F32, DType::F16, DType::BF16, DType::I8] {
                    let out = if dtype == DType::I8 { DType::I32 } else { DType::F32 };
                    let mm = MatMul::new(MatMulSpec { dtype, a_trans: false, b_trans: false, out }, isa).unwrap();
                    let bytes = mm.scratch_bytes(m, 64, k);
                    let less = mm.scratch_bytes(less_m.min(m), 64, less_k.min(k));
                    prop_assert!(less <= bytes, "{isa} {dtype}: {less} > {bytes}");
                }
            }
        }
    }
}
