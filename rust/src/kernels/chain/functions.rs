//! The functions that the machine knows, and what they mean.

use crate::dtype::Rounding;

/// A function of one lane. `F` works on binary32, `I` on 32-bit integers, `H` on binary32 that holds a binary16 number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryFn {
    /// `-x`.
    NegF,
    /// `|x|`.
    AbsF,
    /// `x * x`.
    SquareF,
    /// `exp(x)`, at most 2 ULP.
    ExpF,
    /// `1 / x`, correctly rounded.
    RecipF,
    /// `sqrt(x)`, correctly rounded.
    SqrtF,
    /// `1 / sqrt(x)`, at most 2 ULP; an infinity of the sign of a zero, NaN for negative numbers.
    RsqrtF,
    /// Natural logarithm, at most 2 ULP; -inf for zeros, NaN for negative numbers.
    LogF,
    /// Sine of any finite number of radians, at most 2 ULP; NaN for infinities.
    SinF,
    /// Cosine of any finite number of radians, at most 2 ULP; NaN for infinities.
    CosF,
    /// `exp(x)` whose nearest binary16 is that of the exact result.
    ExpH,
    /// Natural logarithm whose nearest binary16 is that of the exact result.
    LogH,
    /// Sine whose nearest binary16 is that of the exact result.
    SinH,
    /// Cosine whose nearest binary16 is that of the exact result.
    CosH,
    /// `-x`, wrapping.
    NegI,
    /// `|x|`, wrapping.
    AbsI,
    /// Every bit inverted.
    NotI,
}

/// A function of two lanes. `U` works on unsigned integers. Comparisons give the integer 1 where they hold and 0 elsewhere.
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
    /// What is left of `a` when multiples of `b` are taken away toward zero: exact, with the sign of `a`; NaN where `a` is
    /// infinite or `b` is zero.
    FmodF,
    /// As `%` of Python: [`FmodF`](BinaryFn::FmodF) plus `b` (rounded once) where the two have different signs; a zero has the
    /// sign of `b`.
    RemF,
    /// What division toward zero leaves: the sign of `a`; 0 where `b` is 0.
    FmodI,
    /// What division toward minus infinity leaves: the sign of `b`; 0 where `b` is 0.
    RemI,
    /// `a / b`; 0 where `b` is 0.
    DivU,
    /// `a % b`; 0 where `b` is 0.
    FmodU,
    /// The larger, unsigned.
    MaxU,
    /// The smaller, unsigned.
    MinU,
    /// Bit by bit.
    AndI,
    /// Bit by bit.
    OrI,
    /// Bit by bit.
    XorI,
    /// `a << b`; 0 where `b`, unsigned, is 32 or more.
    ShlI,
    /// `a >> b` with copies of the sign; nothing but those where `b`, unsigned, is 32 or more.
    ShrI,
    /// `a >> b` with zeros; 0 where `b`, unsigned, is 32 or more.
    ShrU,
    /// `a == b`; false where one is NaN.
    EqF,
    /// `a != b`; true where one is NaN.
    NeF,
    /// `a < b`; false where one is NaN.
    LtF,
    /// `a <= b`; false where one is NaN.
    LeF,
    /// `a > b`; false where one is NaN.
    GtF,
    /// `a >= b`; false where one is NaN.
    GeF,
    /// `a == b`.
    EqI,
    /// `a != b`.
    NeI,
    /// `a < b`, signed.
    LtI,
    /// `a <= b`, signed.
    LeI,
    /// `a > b`, signed.
    GtI,
    /// `a >= b`, signed.
    GeI,
    /// `a < b`, unsigned.
    LtU,
    /// `a <= b`, unsigned.
    LeU,
    /// `a > b`, unsigned.
    GtU,
    /// `a >= b`, unsigned.
    GeU,
}

impl BinaryFn {
    /// The function with its arguments exchanged, where that is another comparison.
    pub(super) const fn mirrored(self) -> Option<Self> {
        Some(match self {
            BinaryFn::LtF => BinaryFn::GtF,
            BinaryFn::GtF => BinaryFn::LtF,
            BinaryFn::LeF => BinaryFn::GeF,
            BinaryFn::GeF => BinaryFn::LeF,
            BinaryFn::LtI => BinaryFn::GtI,
            BinaryFn::GtI => BinaryFn::LtI,
            BinaryFn::LeI => BinaryFn::GeI,
            BinaryFn::GeI => BinaryFn::LeI,
            BinaryFn::LtU => BinaryFn::GtU,
            BinaryFn::GtU => BinaryFn::LtU,
            BinaryFn::LeU => BinaryFn::GeU,
            BinaryFn::GeU => BinaryFn::LeU,
            _ => return None,
        })
    }
}

/// A reduction over the columns of a row.
///
/// `Sum` of floats: the row is cut into groups of 64 elements, four vectors `v0..v3` of 16 lanes; lane by lane,
/// `acc += (v0 + v1) + (v2 + v3)` in ascending groups, absent elements being +0; then the 16 lanes fold in halves
/// (8, 4, 2, 1: `lane[i] += lane[i + half]`). Every instruction set follows this order. `Prod` of floats is the same with
/// products, absent elements being 1.
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
    /// Product of binary32; 1 for no columns.
    ProdF,
    /// Product of 32-bit integers, wrapping; 1 for no columns.
    ProdI,
    /// Maximum of unsigned integers; 0 for no columns.
    MaxU,
    /// Minimum of unsigned integers; the highest for no columns.
    MinU,
}

impl ReduceFn {
    /// The result for no columns.
    pub const fn identity(self) -> u32 {
        match self {
            ReduceFn::SumF | ReduceFn::SumI | ReduceFn::MaxU => 0,
            ReduceFn::ProdF => 1f32.to_bits(),
            ReduceFn::ProdI => 1,
            ReduceFn::MinU => u32::MAX,
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
    /// Unsigned integer to binary32, nearest even.
    U32ToF32,
    /// binary32 to unsigned integer by the given rounding; saturating; NaN becomes 0.
    F32ToU32(Rounding),
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
