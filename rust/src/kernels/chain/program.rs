//! The program of the accumulator machine: plain data, made by the lowering, resolved by the machine.
//!
//! Every lane is 32 bits wide and is either a binary32 number or a 32-bit integer; the instruction says which. Narrower
//! elements are widened when they are read (exactly) and narrowed when they are written: binary32 to 16-bit floats by
//! rounding to nearest even, 32-bit integers by dropping high bits.
//!
//! Where arithmetic, `exp`, a maximum or a minimum gives a NaN, its sign and payload are not specified (they may be those of
//! either operand); apart from that results are the same bits on every instruction set. Loads, stores and conversions do not
//! touch the bits of a NaN, except that narrowing to a 16-bit float keeps the upper bits of the payload and makes it quiet.
//!
//! A chain whose arithmetic is in a 16-bit float type rounds after each operation with [`Conversion::RoundF16`] or
//! [`Conversion::RoundBF16`]; the lowering puts those in.

use crate::dtype::{DType, Rounding};

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
    /// `slot = reduce(all chunks of this pass)`; the slot holds the result when the epilogue runs.
    Reduce(ReduceFn, u16),
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
}

/// A function of one lane. `F` works on binary32, `I` on 32-bit integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryFn {
    /// `-x`.
    NegF,
    /// `|x|`.
    AbsF,
    /// `exp(x)`, at most 2 ULP.
    ExpF,
    /// `1 / x`, correctly rounded.
    RecipF,
    /// `sqrt(x)`, correctly rounded.
    SqrtF,
    /// `-x`, wrapping.
    NegI,
    /// `|x|`, wrapping.
    AbsI,
}

/// A function of two lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryFn {
    /// `a + b`.
    AddF,
    /// `a - b`.
    SubF,
    /// `a * b`.
    MulF,
    /// `a / b`.
    DivF,
    /// The larger; NaN if either is; +0 is larger than -0.
    MaxF,
    /// The smaller; NaN if either is; -0 is smaller than +0.
    MinF,
    /// `a + b`, wrapping.
    AddI,
    /// `a - b`, wrapping.
    SubI,
    /// `a * b`, wrapping.
    MulI,
    /// `a / b` toward zero; 0 where `b` is 0; wrapping for the one quotient that overflows.
    DivI,
    /// The larger, signed.
    MaxI,
    /// The smaller, signed.
    MinI,
}

/// A reduction over the columns of a row.
///
/// `Sum` of floats: the row is cut into groups of 64 elements, four vectors `v0..v3` of 16 lanes; lane by lane,
/// `acc += (v0 + v1) + (v2 + v3)` in ascending groups, absent elements being +0; then the 16 lanes fold in halves
/// (8, 4, 2, 1: `lane[i] += lane[i + half]`). Every instruction set follows this order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceFn {
    /// Sum of binary32; 0 for no columns.
    SumF,
    /// Maximum of binary32; -inf for no columns; NaN if any is.
    MaxF,
    /// Minimum of binary32; +inf for no columns; NaN if any is.
    MinF,
    /// Sum of 32-bit integers, wrapping.
    SumI,
    /// Maximum of signed integers; the lowest for no columns.
    MaxI,
    /// Minimum of signed integers; the highest for no columns.
    MinI,
}

impl ReduceFn {
    /// The result for no columns.
    pub const fn identity(self) -> u32 {
        match self {
            ReduceFn::SumF | ReduceFn::SumI => 0,
            ReduceFn::MaxF => f32::NEG_INFINITY.to_bits(),
            ReduceFn::MinF => f32::INFINITY.to_bits(),
            ReduceFn::MaxI => i32::MIN as u32,
            ReduceFn::MinI => i32::MAX as u32,
        }
    }
}

/// A conversion within 32-bit lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Conversion {
    /// binary32 rounded to binary16 (nearest even) and widened again.
    RoundF16,
    /// binary32 rounded to bfloat16 (nearest even) and widened again.
    RoundBF16,
    /// Signed integer to binary32, nearest even.
    I32ToF32,
    /// binary32 to signed integer by the given rounding; saturating; NaN becomes 0.
    F32ToI32(Rounding),
    /// Keeps the low 8 bits, sign-extended.
    WrapI8,
    /// Keeps the low 16 bits, sign-extended.
    WrapI16,
    /// Keeps the low 8 bits.
    WrapU8,
    /// Keeps the low 16 bits.
    WrapU16,
    /// 1 where not zero (integer lanes).
    ToBool,
}
