//! The program of the accumulator machine: plain data, made by the lowering, resolved by the machine.
//!
//! Every lane is 32 bits wide and is either a binary32 number or a 32-bit integer; the instruction says which. Narrower
//! elements are widened when they are read (exactly) and narrowed when they are written: binary32 to 16-bit floats by
//! rounding to nearest even, 32-bit integers by dropping high bits.
//!
//! Where arithmetic, a function, a maximum or a minimum gives a NaN, its sign and payload are not specified (they may be those of
//! either operand); apart from that results are the same bits on every instruction set. Loads, stores and conversions do not
//! touch the bits of a NaN, except that narrowing to a 16-bit float keeps the upper bits of the payload and makes it quiet.
//!
//! A chain whose arithmetic is in a 16-bit float type rounds after each operation with [`Conversion::RoundF16`] or
//! [`Conversion::RoundBF16`]; the lowering puts those in.

use super::{BinaryFn, Conversion, ReduceFn, UnaryFn};
use crate::dtype::DType;

/// What to do for each row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChainProgram {
    /// Passes over the row, in order.
    pub phases: Vec<Phase>,
    /// Memory operands; instructions name them by index.
    pub mems: Vec<MemDecl>,
    /// Chunk temporaries: values of one chunk, alive within one pass over one chunk.
    pub temps: u16,
    /// Row buffers: values of a whole row, alive from the phase that writes them to the end of the row.
    pub row_bufs: u16,
    /// Row scalars: one 32-bit value per row, alive to the end of the row.
    pub slots: u16,
}

/// A memory operand: a matrix whose columns are adjacent. Its address and row stride are given at run time; a stride of 0
/// makes one row stand for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemDecl {
    /// Element type in memory; at most 32 bits.
    pub dtype: DType,
}

/// One pass over the row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Phase {
    /// Runs before the pass, once per row.
    pub prologue: Vec<RowInst>,
    /// Runs for each chunk. It begins with a `Load`: the accumulator does not survive from one chunk to the next.
    pub body: Vec<Inst>,
    /// Runs after the pass, once per row, when the reductions of the pass are in their slots.
    pub epilogue: Vec<RowInst>,
}

/// One instruction on the accumulator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Inst {
    /// `acc = src`.
    Load(Src),
    /// `dst = acc`.
    Store(Dst),
    /// `acc = f(acc)`.
    Unary(UnaryFn),
    /// `acc = f(acc, src)`.
    Binary(BinaryFn, Src),
    /// `acc = f(src, acc)`.
    BinaryRev(BinaryFn, Src),
    /// `acc = convert(acc)`.
    Convert(Conversion),
    /// `acc = if when != 0 { acc } else { other }`; `when` is an integer lane.
    Select {
        /// Keeps the accumulator where it is not zero.
        when: Src,
        /// Value elsewhere.
        other: Src,
    },
    /// `acc = if acc != 0 { then } else { other }`; the accumulator is an integer lane.
    Pick {
        /// Value where the accumulator is not zero.
        then: Src,
        /// Value elsewhere.
        other: Src,
    },
    /// `slot = reduce(all chunks of this pass)`; the slot holds the result when the epilogue runs.
    Reduce(ReduceFn, u16),
}

impl Inst {
    /// What the instruction reads beside the accumulator.
    pub(super) fn sources(&self) -> [Option<Src>; 2] {
        match *self {
            Inst::Load(src) | Inst::Binary(_, src) | Inst::BinaryRev(_, src) => [Some(src), None],
            Inst::Select { when: a, other: b } | Inst::Pick { then: a, other: b } => [Some(a), Some(b)],
            Inst::Store(_) | Inst::Unary(_) | Inst::Convert(_) | Inst::Reduce(..) => [None, None],
        }
    }

    /// The same instruction with each source replaced.
    pub(super) fn with_sources(self, f: impl Fn(Src) -> Src) -> Self {
        match self {
            Inst::Load(src) => Inst::Load(f(src)),
            Inst::Binary(of, src) => Inst::Binary(of, f(src)),
            Inst::BinaryRev(of, src) => Inst::BinaryRev(of, f(src)),
            Inst::Select { when, other } => Inst::Select { when: f(when), other: f(other) },
            Inst::Pick { then, other } => Inst::Pick { then: f(then), other: f(other) },
            Inst::Store(_) | Inst::Unary(_) | Inst::Convert(_) | Inst::Reduce(..) => self,
        }
    }
}

/// Where a chunk comes from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Src {
    /// Memory operand.
    Mem(u16),
    /// Chunk temporary.
    Temp(u16),
    /// Row buffer.
    RowBuf(u16),
    /// Row scalar, in every lane.
    Slot(u16),
    /// Scalar given at run time, in every lane.
    Scalar(u16),
    /// Constant bits, in every lane.
    Const(u32),
    /// The integer index of the column; the first one of the region is [`ChainRun::first`](super::ChainRun::first)`[1]`.
    Column,
}

/// Where a chunk goes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Dst {
    /// Memory operand.
    Mem(u16),
    /// Chunk temporary.
    Temp(u16),
    /// Row buffer.
    RowBuf(u16),
}

/// One instruction on row scalars.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowInst {
    /// `slot = mem[row, 0]`.
    Load {
        /// Assigned slot.
        slot: u16,
        /// Memory operand.
        mem: u16,
    },
    /// `mem[row, 0] = src`.
    Store {
        /// Memory operand.
        mem: u16,
        /// Value.
        src: RowSrc,
    },
    /// `slot = f(src)`.
    Unary {
        /// Assigned slot.
        slot: u16,
        /// Operation.
        f: UnaryFn,
        /// Argument.
        src: RowSrc,
    },
    /// `slot = f(a, b)`.
    Binary {
        /// Assigned slot.
        slot: u16,
        /// Operation.
        f: BinaryFn,
        /// Left argument.
        a: RowSrc,
        /// Right argument.
        b: RowSrc,
    },
    /// `slot = convert(src)`.
    Convert {
        /// Assigned slot.
        slot: u16,
        /// Conversion.
        conversion: Conversion,
        /// Argument.
        src: RowSrc,
    },
    /// `slot = if when != 0 { then } else { other }`; `when` is an integer.
    Select {
        /// Assigned slot.
        slot: u16,
        /// Condition.
        when: RowSrc,
        /// Value where it is not zero.
        then: RowSrc,
        /// Value where it is.
        other: RowSrc,
    },
}

impl RowInst {
    /// The slot that gets a value.
    pub(super) fn assigned(&self) -> Option<u16> {
        match *self {
            RowInst::Load { slot, .. }
            | RowInst::Unary { slot, .. }
            | RowInst::Binary { slot, .. }
            | RowInst::Convert { slot, .. }
            | RowInst::Select { slot, .. } => Some(slot),
            RowInst::Store { .. } => None,
        }
    }
}

/// A 32-bit value of the row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowSrc {
    /// Row scalar.
    Slot(u16),
    /// Scalar given at run time.
    Scalar(u16),
    /// Constant bits.
    Const(u32),
    /// The integer index of the row; the first one of the region is [`ChainRun::first`](super::ChainRun::first)`[0]`.
    Row,
}
