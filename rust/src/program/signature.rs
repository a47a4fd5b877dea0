//! What each operation takes: the one description that [`super::verify`] checks and the device lowers by.

use super::{OpCode, ScalarOp, ScalarType};
use crate::dtype::{DType, DTypeKind};

/// Element types that a tile or tensor may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Types {
    /// All.
    Any,
    /// Floats and integers.
    Number,
    /// Floats.
    Float,
    /// Integers.
    Integer,
    /// Integers and truth values.
    Bits,
    /// One of these.
    Of(&'static [DType]),
}

impl Types {
    /// Whether `dtype` is one of them.
    pub fn has(self, dtype: DType) -> bool {
        let kind = dtype.kind();
        match self {
            Types::Any => true,
            Types::Number => !matches!(kind, DTypeKind::Bool | DTypeKind::Stored),
            Types::Float => kind == DTypeKind::Float,
            Types::Integer => matches!(kind, DTypeKind::Signed | DTypeKind::Unsigned),
            Types::Bits => !matches!(kind, DTypeKind::Float | DTypeKind::Stored),
            Types::Of(list) => list.contains(&dtype),
        }
    }
}

/// The element type of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// That of the result.
    Out,
    /// That of the first tile argument.
    First,
    /// One of these.
    Of(Types),
}

/// How much of a region the slot of a tile argument must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cover {
    /// Rows and columns.
    Region,
    /// Along each axis all or one.
    Broadcast,
    /// Rows.
    Rows,
    /// Columns.
    Cols,
    /// Rows in its columns, columns in its rows.
    Transposed,
    /// As many bytes as the slot of the result.
    Bytes,
    /// Anything: the operation looks at what there is.
    Any,
}

/// What an argument of a tile operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgRule {
    /// A tile.
    Tile(Cover, Element),
    /// A tile, or a scalar of its element type.
    Either(Cover, Element),
    /// A tensor.
    Tensor(Element),
    /// The tensor of a store: the type of the tile, or narrower floats.
    Target,
    /// Offsets and extents, one per axis of the tensor before.
    Box,
    /// An integer.
    Int,
    /// A truth value.
    Bool,
    /// A scalar of the element type.
    Scalar(Element),
    /// An integer of at most the rows (0) or columns (1) of the first tile; the device checks it at run time.
    Within(usize),
    /// An integer constant from a range.
    Const(i64, i64),
}

/// The region of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegionRule {
    /// Any part of the slot.
    Free,
    /// One column, of a slot with one column.
    Column,
    /// One row, of a slot with one row.
    Row,
}

/// What an operation on tiles takes and gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileRule {
    /// The result; `None` for an operation that writes a tensor.
    pub out: Option<Types>,
    /// The region.
    pub region: RegionRule,
    /// The arguments.
    pub args: &'static [ArgRule],
}

impl OpCode {
    /// What the operation takes and gives. `merge_lists` takes two to four tiles and as many integers; the rule has two.
    pub const fn rule(self) -> TileRule {
        use ArgRule::*;
        use OpCode as Op;
        const FULL: ArgRule = Tile(Cover::Region, Element::Out);
        const SLOT: ArgRule = Tile(Cover::Any, Element::Out);
        const OTHER: ArgRule = Either(Cover::Broadcast, Element::Out);
        const INDEX: Element = Element::Of(Types::Of(&[DType::I32, DType::U32]));
        const NUMBERS: Element = Element::Of(Types::Number);
        const SORTABLE: Types = Types::Of(&[DType::F32, DType::F16]);
        const fn rule(out: Types, region: RegionRule, args: &'static [ArgRule]) -> TileRule {
            TileRule { out: Some(out), region, args }
        }
        const fn free(out: Types, args: &'static [ArgRule]) -> TileRule {
            rule(out, RegionRule::Free, args)
        }
        const fn no_result(args: &'static [ArgRule]) -> TileRule {
            TileRule { out: None, region: RegionRule::Free, args }
        }
        match self {
            Op::Load => free(Types::Any, &[Tensor(Element::Out), Box]),
            Op::Store => no_result(&[Tile(Cover::Region, Element::Of(Types::Any)), Target, Box]),
            Op::StoreAdd => no_result(&[Tile(Cover::Region, NUMBERS), Target, Box]),
            Op::Move => free(Types::Any, &[FULL]),
            Op::Fill => free(Types::Any, &[Scalar(Element::Out)]),
            Op::Undef => free(Types::Any, &[]),
            Op::Iota => free(Types::Number, &[Int, Int]),
            Op::Tri => free(Types::Any, &[Int, Bool]),
            Op::Random => free(Types::Of(&[DType::U32]), &[Int, Int, Int, Int, Int, Int, Const(1, 32)]),
            Op::Cast => free(Types::Any, &[Tile(Cover::Region, Element::Of(Types::Any))]),
            Op::Expand => free(Types::Any, &[Tile(Cover::Broadcast, Element::Out)]),
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Fmod | Op::Rem | Op::Maximum | Op::Minimum => {
                free(Types::Number, &[FULL, OTHER])
            }
            Op::BitAnd | Op::BitOr | Op::BitXor => free(Types::Bits, &[FULL, OTHER]),
            Op::Shl | Op::Shr => free(Types::Integer, &[FULL, OTHER]),
            Op::CmpEq | Op::CmpNe | Op::CmpLt | Op::CmpLe | Op::CmpGt | Op::CmpGe => free(
                Types::Any,
                &[Tile(Cover::Region, Element::Of(Types::Any)), Either(Cover::Broadcast, Element::First)],
            ),
            Op::Select => free(Types::Any, &[Tile(Cover::Region, Element::Of(Types::Any)), OTHER, OTHER]),
            Op::Exp | Op::Log | Op::Recip | Op::Sqrt | Op::Rsqrt | Op::Sin | Op::Cos => free(Types::Float, &[FULL]),
            Op::Relu | Op::Neg | Op::Abs => free(Types::Number, &[FULL]),
            Op::BitNot => free(Types::Integer, &[FULL]),
            Op::RowSum | Op::RowMax | Op::RowMin | Op::RowProd => {
                rule(Types::Number, RegionRule::Column, &[Tile(Cover::Rows, Element::Out), Within(1)])
            }
            Op::ColSum | Op::ColMax | Op::ColMin | Op::ColProd => {
                rule(Types::Number, RegionRule::Row, &[Tile(Cover::Cols, Element::Out), Within(0)])
            }
            Op::RowArgmax | Op::RowArgmin => {
                rule(Types::Of(&[DType::I32]), RegionRule::Column, &[Tile(Cover::Rows, NUMBERS), Within(1)])
            }
            Op::ColArgmax | Op::ColArgmin => {
                rule(Types::Of(&[DType::I32]), RegionRule::Row, &[Tile(Cover::Cols, NUMBERS), Within(0)])
            }
            Op::Extract => free(Types::Any, &[SLOT, Int, Int]),
            Op::Insert => free(Types::Any, &[FULL, SLOT, Int, Int, Int, Int]),
            Op::Transpose => free(Types::Any, &[Tile(Cover::Transposed, Element::Out)]),
            Op::Reinterpret => free(Types::Any, &[Tile(Cover::Bytes, Element::Of(Types::Any))]),
            Op::FillPad => free(Types::Any, &[SLOT, Int, Int, Scalar(Element::Out)]),
            Op::PartAdd | Op::PartMul | Op::PartMax | Op::PartMin => {
                free(Types::Number, &[SLOT, SLOT, Int, Int, Int, Int])
            }
            Op::GatherCols | Op::GatherFlat => free(Types::Any, &[SLOT, Tile(Cover::Region, INDEX), Int]),
            Op::GatherStride => free(Types::Any, &[SLOT, Int, Int]),
            Op::GatherBytes => free(Types::Any, &[SLOT, Tile(Cover::Any, INDEX)]),
            Op::GatherCmpIndex => free(
                Types::Of(&[DType::I32, DType::U32]),
                &[Tile(Cover::Rows, NUMBERS), Scalar(Element::First), Const(0, 5), Int, Within(1)],
            ),
            Op::GatherCmpCount => rule(
                Types::Of(&[DType::I32, DType::U32]),
                RegionRule::Column,
                &[Tile(Cover::Rows, NUMBERS), Scalar(Element::First), Const(0, 5), Int, Within(1)],
            ),
            Op::GatherTensor => free(Types::Any, &[Tensor(Element::Out), Tile(Cover::Region, INDEX)]),
            Op::ScatterCols | Op::ScatterRows => free(Types::Any, &[FULL, Tile(Cover::Any, INDEX), SLOT, Int, Int]),
            Op::ScatterFlat => free(Types::Any, &[FULL, SLOT, Tile(Cover::Any, INDEX), Int, Int]),
            Op::ScatterStride => free(Types::Any, &[FULL, SLOT, Int, Int, Int, Int]),
            Op::ScatterTensor => no_result(&[
                Tile(Cover::Region, NUMBERS),
                Tile(Cover::Region, INDEX),
                Tensor(Element::First),
                Const(0, 1),
            ]),
            Op::Sort32 => free(SORTABLE, &[Tile(Cover::Rows, Element::Out), Tile(Cover::Rows, INDEX), Within(1)]),
            Op::MergeSort => rule(SORTABLE, RegionRule::Row, &[FULL, Int, Within(1)]),
            Op::MergeLists => rule(SORTABLE, RegionRule::Row, &[SLOT, SLOT, Int, Int]),
            Op::MatMul => free(
                Types::Of(&[DType::F32, DType::I32]),
                &[Tile(Cover::Rows, Element::Of(Types::Any)), Tile(Cover::Cols, Element::First), Int],
            ),
            Op::MatMulAcc => free(
                Types::Of(&[DType::F32, DType::I32]),
                &[FULL, Tile(Cover::Rows, Element::Of(Types::Any)), Tile(Cover::Cols, Element::Of(Types::Any)), Int],
            ),
        }
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
            Shl | Shr | FloorDivU64 | ModU64 | ShrU64 | MinU64 | MaxU64 => ScalarRule::Same(2, INT),
            And | Or => ScalarRule::Same(2, BOOL),
            Eq | Ne => ScalarRule::Compare(ANY),
            Lt | Le | Gt | Ge => ScalarRule::Compare(NUMBER),
            LtU64 | LeU64 | GtU64 | GeU64 => ScalarRule::Compare(INT),
            U64ToFloat => ScalarRule::Convert(INT, ScalarType::Float),
            ToU64 => ScalarRule::Convert(FLOAT, ScalarType::Int),
            ToFloat => ScalarRule::Convert(&[ScalarType::Int, ScalarType::Bool], ScalarType::Float),
            ToInt => ScalarRule::Convert(&[ScalarType::Float, ScalarType::Bool], ScalarType::Int),
            ToBool => ScalarRule::Convert(NUMBER, ScalarType::Bool),
        }
    }
}
