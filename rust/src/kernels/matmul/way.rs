//! Which way a product goes: the kernels for it, and how scratch is laid out.

use super::MatMul;
use super::panels::PANELS_AT_ONCE;
use super::spec::{MatMulArgs, MatRef, Rhs};
use super::tile::{Family, Kernels, PackFn, STREAM_UNIT, StreamFn, TileFn};

/// A packed block of A larger than this does not stay near while the panels of B pass by; smaller ones make B be packed
/// more often.
const A_BLOCK_BYTES: usize = 2 << 20;

/// Bytes of a panel of B that stay in the second-level cache while all rows of a block pass over it. Longer sums are cut.
const B_BLOCK_BYTES: usize = 512 << 10;

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
    Packed { data: *const u8, n_start: usize },
    /// Packed panel by panel for this product.
    Pack(MatRef),
    /// Panels that were packed before, packed again as lanes of another family.
    PackAgain { data: *const u8, n_start: usize },
}

/// Which way a product goes. Chosen anew for each product; every choice gives the same bits.
pub(super) struct Way {
    pub family: &'static Family,
    pub source: Source,
    pub tiles: &'static [TileFn],
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
            (Rhs::Packed { data, n_start }, _, Some(wide)) if m >= wide.rows_from => {
                (&wide.family, Source::PackAgain { data, n_start })
            }
            (Rhs::Packed { data, n_start }, ..) => (packed, Source::Packed { data, n_start }),
        };
        let tall_up_to = match source {
            Source::InPlace { .. } => family.tall.len(),
            _ => family.tall_up_to,
        };
        let (tiles, width, pack_a) = if m > family.tiles.len() && m <= tall_up_to {
            (family.tall, family.nr / 2, Some(family.pack_a))
        } else {
            match family.strided {
                Some(tiles) if stream.is_none() && n <= A_IN_PLACE_PANELS * family.nr => (tiles, family.nr, None),
                _ => (family.tiles, family.nr, Some(family.pack_a)),
            }
        };
        Way { family, source, tiles, width, pack_a, stream }
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
    pub(super) fn new(family: &Family, m: usize, k: usize) -> Self {
        let total = family.steps(k);
        let rows = (A_BLOCK_BYTES / 4 / total.max(1)).max(16).min(m);
        let steps = total.min(B_BLOCK_BYTES / (family.nr * family.b_lane));
        let columns = STREAM_BYTES / 4 / STREAM_UNIT / m.max(1) * STREAM_UNIT;
        let panel = (rows * total * 4).next_multiple_of(64);
        let panels = (B_BLOCK_BYTES / 2 / family.panel_bytes(k).max(1)).clamp(1, PANELS_AT_ONCE);
        let carry = panel + (panels * family.panel_bytes(k)).max(STREAM_BYTES);
        let carried = if steps < total { rows * family.nr * 4 } else { 0 };
        Plan { rows, steps, panels, columns, panel, carry, bytes: carry + carried.next_multiple_of(64) }
    }
}

/// Scratch of one product, whatever way it goes.
pub(super) fn scratch_bytes(kernels: &Kernels, m: usize, k: usize) -> usize {
    kernels.families().map(|family| Plan::new(family, m, k).bytes).max().unwrap_or(0)
}
