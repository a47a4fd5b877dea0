//! Operations on whole tiles: what no chain of elementwise operations can express, and 64-bit integers.
//!
//! Each operation is one function over matrices with strides, made for an element type and an instruction set and resolved
//! when a program is registered. Arguments are as large as their [`Mat`] says: an index beyond reads 0 or writes nothing.
//! Only the elementwise operations ([`BlockOp::Copy`] and those that name no other extent) rely on their arguments having
//! the whole region, or standing still along an axis.
//!
//! The plain loops are written once; where it pays they are compiled for each instruction set.
#![allow(unsafe_code)] // its functions work on matrices by address

mod argument;
mod columns;
mod cut;
mod element;
mod gather;
mod kernel;
mod make;
mod mat;
mod merge;
mod movement;
mod network;
mod part;
mod scatter;
mod sort;
mod squares;
#[cfg(target_arch = "x86_64")]
mod squares_x86;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_parts;
#[cfg(test)]
mod tests_of_sorting;
mod wide;

pub use cut::MOST;
pub use mat::{Args, Mat, Whole};

use crate::dtype::{DType, Rounding};
use crate::kernels::Isa;
use cut::Cut;
use kernel::Run;
use std::ops::Range;

/// A function of two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b` of integers toward zero; 0 where `b` is 0.
    Div,
    /// What division toward zero leaves; 0 where `b` is 0.
    Fmod,
    /// What division toward minus infinity leaves; 0 where `b` is 0.
    Rem,
    /// The larger; NaN if either is; +0 is larger than -0.
    Max,
    /// The smaller; NaN if either is; -0 is smaller than +0.
    Min,
    /// Bit by bit.
    And,
    /// Bit by bit.
    Or,
    /// Bit by bit.
    Xor,
    /// `a << b`; 0 where `b` is negative or not below the width.
    Shl,
    /// `a >> b`, arithmetic for signed types; only copies of the sign where `b` is negative or not below the width.
    Shr,
    /// `-a`.
    Neg,
    /// `|a|`.
    Abs,
    /// `!a`.
    Not,
}

/// A comparison of two elements; with a NaN only `Ne` holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compare {
    /// `a == b`.
    Eq,
    /// `a != b`.
    Ne,
    /// `a < b`.
    Lt,
    /// `a <= b`.
    Le,
    /// `a > b`.
    Gt,
    /// `a >= b`.
    Ge,
}

/// What to do. The comments name the matrices, the result first, and after a semicolon the scalars, integers unless they
/// are said to be elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockOp {
    /// `out, x`: the same bits.
    Copy,
    /// `out, x`: `out[r, c] = x[c, r]`.
    Transpose,
    /// `out, x; rows, cols, value`: `x` where `r < rows` and `c < cols`, else the element `value`. `out` may be `x`.
    FillPad,
    /// `out; start, step`: `start + step * c`.
    Iota,
    /// `out; diagonal, upper`.
    Tri,
    /// `out; key0, key1, c0, c1, c2, c3, rounds`: Philox4x32.
    Random,
    /// `out, x; rows`: sums, products, extremes of columns. Floats of 16 bits accumulate in binary32.
    ColReduce(Combine),
    /// `out, x; cols`: the same of rows, for 64-bit integers.
    RowReduce(Combine),
    /// `out, x; cols`: the place of the first element that compares true with all before it; the first NaN wins.
    RowArg(Compare),
    /// `out, x; rows`.
    ColArg(Compare),
    /// `out, a, b; a_rows, a_cols, b_rows, b_cols`.
    Part(Combine),
    /// `out, x, index; x_cols`.
    GatherCols,
    /// `out, x, index; x_cols`.
    GatherFlat,
    /// `out, x; start, stride`.
    GatherStride,
    /// `out, x, offsets`.
    GatherBytes,
    /// `out, x; k (an element), cmp, offset, cols`: the places, or their number.
    GatherCompare {
        /// The number.
        count: bool,
    },
    /// `out, index`, from the tensor.
    GatherTensor,
    /// `out, index, src; rows, cols`.
    ScatterCols,
    /// `out, src, index; rows, cols`.
    ScatterFlat,
    /// `out, src; start, stride, rows, cols`.
    ScatterStride,
    /// `out, index, src; rows, cols`.
    ScatterRows,
    /// `src, index; mode`, into the tensor.
    ScatterTensor,
    /// `out, x, index; cols`.
    Sort32,
    /// `out, x; block_len, cols`.
    MergeSort,
    /// `out, lists...; their columns...`.
    MergeLists,
    /// `out, a, b`: elementwise, for 64-bit integers.
    Combine(Combine),
    /// `out, a, b`: 0 or 1 of any type, for 64-bit integers.
    Compare(Compare),
    /// `out, mask, a, b`.
    Select,
    /// `out, x`: a conversion from or to a 64-bit integer.
    Cast(Rounding),
}

/// An operation resolved for element types and an instruction set.
#[derive(Clone, Copy)]
pub struct Block {
    run: Run,
    cost: Cost,
    cut: Cut,
    /// Bytes of scratch memory for each byte of the arguments.
    scratch: usize,
}

impl Block {
    /// Resolves `op` for the element types of its matrices, in their order, and of the tensor, last; `None` where it is not
    /// defined for them.
    pub fn new(op: BlockOp, dtypes: &[DType], isa: Isa) -> Option<Self> {
        let run = match op {
            BlockOp::Copy | BlockOp::Transpose | BlockOp::FillPad => movement::resolve(op, dtypes, isa),
            BlockOp::Iota | BlockOp::Tri | BlockOp::Random => make::resolve(op, dtypes),
            BlockOp::ColReduce(f) => columns::resolve(f, dtypes, isa),
            BlockOp::RowArg(_) | BlockOp::ColArg(_) => argument::resolve(op, dtypes, isa),
            BlockOp::Part(f) => part::resolve(f, dtypes),
            BlockOp::GatherCols
            | BlockOp::GatherFlat
            | BlockOp::GatherStride
            | BlockOp::GatherBytes
            | BlockOp::GatherCompare { .. }
            | BlockOp::GatherTensor => gather::resolve(op, dtypes),
            BlockOp::ScatterCols
            | BlockOp::ScatterFlat
            | BlockOp::ScatterStride
            | BlockOp::ScatterRows
            | BlockOp::ScatterTensor => scatter::resolve(op, dtypes),
            BlockOp::Sort32 | BlockOp::MergeSort | BlockOp::MergeLists => sort::resolve(op, dtypes, isa),
            BlockOp::RowReduce(_) | BlockOp::Combine(_) | BlockOp::Compare(_) | BlockOp::Select | BlockOp::Cast(_) => {
                wide::resolve(op, dtypes)
            }
        }?;
        let scratch = if matches!(op, BlockOp::MergeSort | BlockOp::MergeLists) { merge::SCRATCH } else { 0 };
        Some(Self { run, cost: Cost::of(op), cut: Cut::of(op), scratch })
    }

    /// Estimated picoseconds for a result and a first argument of so many elements.
    pub fn work(&self, result: u64, argument: u64) -> u64 {
        match self.cost {
            Cost::OfResult(each) => result.saturating_mul(each),
            Cost::OfArgument(each) => argument.saturating_mul(each),
        }
    }

    /// Bytes of scratch memory for arguments of `bytes` bytes together.
    pub fn scratch_bytes(&self, bytes: usize) -> usize {
        self.scratch * bytes
    }

    /// The most parts that a region of this size can be cut into.
    pub fn most_parts(&self, rows: u64, cols: u64) -> u64 {
        self.cut.most(rows, cols)
    }

    /// Rows or columns of one of `parts` parts of a region; [`Block::part`] knows which.
    pub fn range(&self, part: u64, parts: u64, rows: u64, cols: u64) -> Range<usize> {
        self.cut.range(part, parts, rows, cols)
    }

    /// The arguments of the part that has these rows or columns; its matrices go to `room`. Parts that do not overlap can
    /// run at once.
    pub fn part<'a>(&self, args: &Args<'a>, range: &Range<usize>, room: &'a mut [Mat; MOST]) -> Args<'a> {
        self.cut.part(args, range, room)
    }

    /// Runs the operation.
    ///
    /// # Safety
    /// The matrices are valid for their extents, the elementwise ones for the region, and so is the tensor for the extents
    /// that it says are backed. The result overlaps no argument unless [`BlockOp`] allows it; nobody else writes any of
    /// them, or reads the result, or uses the scratch memory, which is aligned to 64 bytes.
    pub unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: the caller's promise.
        unsafe { (self.run)(args) }
    }
}

/// Picoseconds of an element.
#[derive(Clone, Copy)]
enum Cost {
    OfResult(u64),
    OfArgument(u64),
}

impl Cost {
    /// Measured on Zen 4 in the second-level cache, rounded up; only the order of magnitude matters.
    fn of(op: BlockOp) -> Self {
        match op {
            BlockOp::Copy | BlockOp::FillPad | BlockOp::Transpose => Cost::OfResult(100),
            BlockOp::Iota | BlockOp::Tri => Cost::OfResult(500),
            BlockOp::ColReduce(_) => Cost::OfArgument(100),
            BlockOp::RowReduce(_) | BlockOp::RowArg(_) | BlockOp::ColArg(_) => Cost::OfArgument(500),
            BlockOp::Sort32 => Cost::OfResult(1_000),
            BlockOp::MergeSort | BlockOp::MergeLists => Cost::OfResult(3_000),
            _ => Cost::OfResult(2_000),
        }
    }
}
