//! Parts of an operation: which of its matrices begin elsewhere when the region does.

use super::BlockOp;
use super::mat::{Args, Mat};
use std::ops::Range;

/// Most matrices of an operation: the result and four arguments.
pub const MOST: usize = 5;

/// How an operation may be cut into parts that leave the same bits, each of which writes a part of the result of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// Along the rows; all matrices begin at the same row.
    Rows,
    /// Along the rows; the first argument is looked up as a whole.
    RowsLookedUp,
    /// Along the rows of the result, which are the columns of the argument.
    Turned,
    /// Along the columns.
    Cols,
    /// Not at all: rows depend on each other or on their number, or there is one.
    Never,
}

impl Cut {
    pub fn of(op: BlockOp) -> Self {
        match op {
            BlockOp::Copy
            | BlockOp::RowReduce(_)
            | BlockOp::RowArg(_)
            | BlockOp::GatherCols
            | BlockOp::GatherStride
            | BlockOp::GatherCompare { .. }
            // Of the gather from a tensor all matrices are indexed by the region.
            | BlockOp::GatherTensor
            | BlockOp::Sort32
            | BlockOp::Combine(_)
            | BlockOp::Compare(_)
            | BlockOp::Select
            | BlockOp::Cast(_) => Cut::Rows,
            BlockOp::GatherFlat | BlockOp::GatherBytes => Cut::RowsLookedUp,
            BlockOp::Transpose => Cut::Turned,
            BlockOp::ColReduce(_) | BlockOp::ColArg(_) => Cut::Cols,
            BlockOp::FillPad
            | BlockOp::Iota
            | BlockOp::Tri
            | BlockOp::Random
            | BlockOp::Part(_)
            | BlockOp::ScatterCols
            | BlockOp::ScatterFlat
            | BlockOp::ScatterStride
            | BlockOp::ScatterRows
            | BlockOp::ScatterTensor
            | BlockOp::MergeSort
            | BlockOp::MergeLists => Cut::Never,
        }
    }

    /// The extent along which it is cut.
    fn extent(self, rows: u64, cols: u64) -> u64 {
        match self {
            Cut::Rows | Cut::RowsLookedUp | Cut::Turned => rows,
            Cut::Cols => cols,
            Cut::Never => 1,
        }
    }

    /// Parts begin at multiples of this: transposes go by squares, and of narrow strips of columns each row would be a new page
    /// for the prefetcher.
    fn grain(self) -> u64 {
        match self {
            Cut::Rows | Cut::RowsLookedUp | Cut::Never => 1,
            Cut::Turned => 16,
            Cut::Cols => 512,
        }
    }

    /// The most parts that a region has.
    pub fn most(self, rows: u64, cols: u64) -> u64 {
        self.extent(rows, cols).div_ceil(self.grain()).max(1)
    }

    /// Rows or columns of one of `parts` parts.
    pub fn range(self, part: u64, parts: u64, rows: u64, cols: u64) -> Range<usize> {
        let (extent, grain) = (self.extent(rows, cols), self.grain());
        let grains = extent.div_ceil(grain);
        let edge = |part: u64| (grains * part / parts * grain).min(extent) as usize;
        edge(part)..edge(part + 1)
    }

    /// The arguments of the part that has these rows or columns; its matrices go to `room`.
    pub fn part<'a>(self, args: &Args<'a>, range: &Range<usize>, room: &'a mut [Mat; MOST]) -> Args<'a> {
        let first = range.start;
        for (at, (to, mat)) in room.iter_mut().zip(args.mats).enumerate() {
            *to = match self {
                Cut::RowsLookedUp if at == 1 => *mat,
                Cut::Rows | Cut::RowsLookedUp => mat.skip_rows(first),
                Cut::Turned if at == 0 => mat.skip_rows(first),
                Cut::Turned | Cut::Cols => mat.skip_cols(first),
                Cut::Never => *mat,
            };
        }
        let [rows, cols] = match self {
            Cut::Rows | Cut::RowsLookedUp | Cut::Turned => [range.len(), args.cols],
            Cut::Cols => [args.rows, range.len()],
            Cut::Never => [args.rows, args.cols],
        };
        Args { rows, cols, mats: &room[..args.mats.len()], ..*args }
    }
}
