//! What each operation takes: the one description that [`super::verify`] checks and the device lowers by.

use super::{OpCode, ScalarOp, ScalarType};

/// How an operation on tiles computes; operations of one family are lowered alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Box of device memory to tile.
    Load,
    /// Tile to box of device memory.
    Store,
    /// The argument itself.
    Move,
    /// One scalar everywhere.
    Fill,
    /// No defined value.
    Undef,
    /// Conversion of the element type.
    Cast,
    /// One tile, element by element.
    Unary,
    /// Two tiles, or a tile and a scalar, element by element; the second may broadcast.
    Binary,
    /// `R x C` to `R x 1`.
    RowReduce,
    /// Matrix product; `true` where an accumulator is the first argument.
    MatMul(bool),
}

impl OpCode {
    /// The family of the operation.
    pub const fn family(self) -> Family {
        match self {
            OpCode::Load => Family::Load,
            OpCode::Store => Family::Store,
            OpCode::Move => Family::Move,
            OpCode::Fill => Family::Fill,
            OpCode::Undef => Family::Undef,
            OpCode::Cast => Family::Cast,
            OpCode::Add | OpCode::Sub | OpCode::Mul | OpCode::Div | OpCode::Maximum | OpCode::Minimum => Family::Binary,
            OpCode::Exp | OpCode::Recip | OpCode::Relu | OpCode::Neg | OpCode::Abs | OpCode::Sqrt => Family::Unary,
            OpCode::RowSum | OpCode::RowMax | OpCode::RowMin => Family::RowReduce,
            OpCode::MatMul => Family::MatMul(false),
            OpCode::MatMulAcc => Family::MatMul(true),
        }
    }

    /// Whether the operation is defined for floating-point elements only.
    pub const fn floats_only(self) -> bool {
        matches!(self, OpCode::Exp | OpCode::Recip | OpCode::Sqrt)
    }
}

/// What a scalar operation takes and gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScalarRule {
    /// No arguments; an integer.
    Query,
    /// `arity` arguments of one type out of `types`; the same type.
    Same(usize, &'static [ScalarType]),
    /// Two arguments of one type out of `types`; a truth value.
    Compare(&'static [ScalarType]),
    /// One argument out of the types; the given type.
    Convert(&'static [ScalarType], ScalarType),
}

const INT: &[ScalarType] = &[ScalarType::Int];
const FLOAT: &[ScalarType] = &[ScalarType::Float];
const BOOL: &[ScalarType] = &[ScalarType::Bool];
const NUMBER: &[ScalarType] = &[ScalarType::Int, ScalarType::Float];
const ANY: &[ScalarType] = &[ScalarType::Int, ScalarType::Float, ScalarType::Bool];

impl ScalarOp {
    /// What the operation takes and gives.
    pub const fn rule(self) -> ScalarRule {
        use ScalarOp::*;
        match self {
            BlockIdx | BlockNum => ScalarRule::Query,
            Copy => ScalarRule::Same(1, ANY),
            Neg => ScalarRule::Same(1, NUMBER),
            BitNot | WrapI8 | WrapI16 | WrapI32 | WrapU8 | WrapU16 | WrapU32 => ScalarRule::Same(1, INT),
            Not => ScalarRule::Same(1, BOOL),
            RoundF16 | RoundBF16 => ScalarRule::Same(1, FLOAT),
            Add | Sub | Mul | FloorDiv | Mod | Min | Max => ScalarRule::Same(2, NUMBER),
            Div => ScalarRule::Same(2, FLOAT),
            Shl | Shr => ScalarRule::Same(2, INT),
            And | Or => ScalarRule::Same(2, BOOL),
            Eq | Ne => ScalarRule::Compare(ANY),
            Lt | Le | Gt | Ge => ScalarRule::Compare(NUMBER),
            ToFloat => ScalarRule::Convert(&[ScalarType::Int, ScalarType::Bool], ScalarType::Float),
            ToInt => ScalarRule::Convert(&[ScalarType::Float, ScalarType::Bool], ScalarType::Int),
            ToBool => ScalarRule::Convert(NUMBER, ScalarType::Bool),
        }
    }
}
