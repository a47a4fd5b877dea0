//! Which functions of the machine stand for an operation on an element type.

use super::graph::Node;
use super::unsupported;
use crate::device::DeviceError;
use crate::dtype::{DType, DTypeKind};
use crate::kernels::chain::{BinaryFn, Conversion, ReduceFn, UnaryFn};
use crate::program::{OpCode, Operand, Rounding};

/// The lane bits of a constant in a tile of `dtype`; `None` for a variable.
pub(super) fn constant_bits(value: Operand, dtype: DType) -> Option<u32> {
    match value {
        Operand::Int(value) => Some(lane_bits(value as u64, dtype)),
        Operand::Bool(value) => Some(u32::from(value)),
        Operand::Float(value) => Some(lane_bits(u64::from(value.to_bits()), dtype)),
        Operand::Var(_) => None,
    }
}

/// The lane bits of a scalar slot in a tile of `dtype`: floats are rounded to the element type, integers wrap to it.
pub(in crate::device::sim) fn lane_bits(bits: u64, dtype: DType) -> u32 {
    match dtype {
        DType::F16 => half::f16::from_f32(f32::from_bits(bits as u32)).to_f32().to_bits(),
        DType::BF16 => half::bf16::from_f32(f32::from_bits(bits as u32)).to_f32().to_bits(),
        DType::I8 => bits as i8 as i32 as u32,
        DType::I16 => bits as i16 as i32 as u32,
        DType::U8 => u32::from(bits as u8),
        DType::U16 => u32::from(bits as u16),
        _ => bits as u32,
    }
}

/// The bits of an element in memory from those of a scalar slot.
pub(in crate::device::sim) fn element_bits(bits: u64, dtype: DType) -> u64 {
    match dtype {
        DType::F16 => half::f16::from_f32(f32::from_bits(bits as u32)).to_bits().into(),
        DType::BF16 => half::bf16::from_f32(f32::from_bits(bits as u32)).to_bits().into(),
        DType::Bool => u64::from(bits != 0),
        _ => bits,
    }
}

/// Whether a scalar argument of a whole-tile operation is an element rather than a number of something.
pub(super) fn is_element_scalar(op: OpCode, at: usize) -> bool {
    match op {
        OpCode::FillPad => at == 2,
        OpCode::GatherCmpIndex | OpCode::GatherCmpCount => at == 0,
        _ => false,
    }
}

/// What brings a result of arithmetic back into its element type.
pub(super) fn rounding(dtype: DType) -> Option<Conversion> {
    match dtype {
        DType::F16 => Some(Conversion::RoundF16),
        DType::BF16 => Some(Conversion::RoundBF16),
        DType::I8 => Some(Conversion::WrapI8),
        DType::I16 => Some(Conversion::WrapI16),
        DType::U8 => Some(Conversion::WrapU8),
        DType::U16 => Some(Conversion::WrapU16),
        _ => None,
    }
}

/// Whether a result can leave its element type: a maximum or a choice of bits cannot.
pub(super) fn rounds(op: OpCode) -> bool {
    use OpCode::*;
    !matches!(op, Maximum | Minimum | Relu | BitAnd | BitOr | BitXor)
}

/// Lanes of 32-bit unsigned elements need functions of their own; narrower ones are non-negative in their lanes.
fn unsigned(dtype: DType) -> bool {
    dtype == DType::U32
}

pub(super) fn unary(op: OpCode, dtype: DType) -> Option<UnaryFn> {
    Some(match (op, dtype.is_float()) {
        (OpCode::Exp, true) if dtype == DType::F16 => UnaryFn::ExpH,
        (OpCode::Log, true) if dtype == DType::F16 => UnaryFn::LogH,
        (OpCode::Sin, true) if dtype == DType::F16 => UnaryFn::SinH,
        (OpCode::Cos, true) if dtype == DType::F16 => UnaryFn::CosH,
        (OpCode::Exp, true) => UnaryFn::ExpF,
        (OpCode::Log, true) => UnaryFn::LogF,
        (OpCode::Recip, true) => UnaryFn::RecipF,
        (OpCode::Sqrt, true) => UnaryFn::SqrtF,
        (OpCode::Rsqrt, true) => UnaryFn::RsqrtF,
        (OpCode::Sin, true) => UnaryFn::SinF,
        (OpCode::Cos, true) => UnaryFn::CosF,
        (OpCode::Neg, true) => UnaryFn::NegF,
        (OpCode::Neg, false) => UnaryFn::NegI,
        (OpCode::Abs, true) => UnaryFn::AbsF,
        (OpCode::Abs, false) if dtype.kind() == DTypeKind::Signed => UnaryFn::AbsI,
        (OpCode::BitNot, false) => UnaryFn::NotI,
        _ => return None,
    })
}

/// An operation of one argument as one of two: `relu` is a maximum with 0, whose bits are 0 for floats and integers alike;
/// an unsigned number is its own absolute value.
pub(super) fn with_zero(op: OpCode, node: &Node) -> Result<BinaryFn, DeviceError> {
    match op {
        OpCode::Relu => binary(OpCode::Maximum, node),
        OpCode::Abs => Ok(BinaryFn::OrI),
        _ => Err(unsupported(node.at, format!("{} of {}", op.name(), node.dtype))),
    }
}

pub(super) fn binary(op: OpCode, node: &Node) -> Result<BinaryFn, DeviceError> {
    let unsigned = unsigned(node.dtype);
    Ok(match (op, node.dtype.is_float()) {
        (OpCode::Add, true) => BinaryFn::AddF,
        (OpCode::Sub, true) => BinaryFn::SubF,
        (OpCode::Mul, true) => BinaryFn::MulF,
        (OpCode::Div, true) => BinaryFn::DivF,
        (OpCode::Fmod, true) => BinaryFn::FmodF,
        (OpCode::Rem, true) => BinaryFn::RemF,
        (OpCode::Maximum, true) => BinaryFn::MaxF,
        (OpCode::Minimum, true) => BinaryFn::MinF,
        (OpCode::Add, false) => BinaryFn::AddI,
        (OpCode::Sub, false) => BinaryFn::SubI,
        (OpCode::Mul, false) => BinaryFn::MulI,
        (OpCode::Div, false) => {
            if unsigned {
                BinaryFn::DivU
            } else {
                BinaryFn::DivI
            }
        }
        (OpCode::Fmod, false) => {
            if unsigned {
                BinaryFn::FmodU
            } else {
                BinaryFn::FmodI
            }
        }
        // Both remainders of unsigned numbers are the same.
        (OpCode::Rem, false) => {
            if unsigned {
                BinaryFn::FmodU
            } else {
                BinaryFn::RemI
            }
        }
        (OpCode::Maximum, false) => {
            if unsigned {
                BinaryFn::MaxU
            } else {
                BinaryFn::MaxI
            }
        }
        (OpCode::Minimum, false) => {
            if unsigned {
                BinaryFn::MinU
            } else {
                BinaryFn::MinI
            }
        }
        (OpCode::BitAnd, false) => BinaryFn::AndI,
        (OpCode::BitOr, false) => BinaryFn::OrI,
        (OpCode::BitXor, false) => BinaryFn::XorI,
        (OpCode::Shl, false) => BinaryFn::ShlI,
        (OpCode::Shr, false) => {
            if unsigned {
                BinaryFn::ShrU
            } else {
                BinaryFn::ShrI
            }
        }
        _ => return Err(unsupported(node.at, format!("{} of {}", op.name(), node.dtype))),
    })
}

/// The comparison of two elements of `dtype`.
pub(super) fn compare(op: OpCode, dtype: DType) -> BinaryFn {
    use BinaryFn::*;
    let [float, int, unsigned_int] = match op {
        OpCode::CmpEq => [EqF, EqI, EqI],
        OpCode::CmpNe => [NeF, NeI, NeI],
        OpCode::CmpLt => [LtF, LtI, LtU],
        OpCode::CmpLe => [LeF, LeI, LeU],
        OpCode::CmpGt => [GtF, GtI, GtU],
        OpCode::CmpGe => [GeF, GeI, GeU],
        other => unreachable!("{other:?} is no comparison"),
    };
    match dtype {
        dtype if dtype.is_float() => float,
        dtype if unsigned(dtype) => unsigned_int,
        _ => int,
    }
}

pub(super) fn reduce(op: OpCode, node: &Node) -> Result<ReduceFn, DeviceError> {
    let unsigned = unsigned(node.dtype);
    Ok(match (op, node.dtype.is_float()) {
        (OpCode::RowSum, true) => ReduceFn::SumF,
        (OpCode::RowMax, true) => ReduceFn::MaxF,
        (OpCode::RowMin, true) => ReduceFn::MinF,
        (OpCode::RowProd, true) => ReduceFn::ProdF,
        (OpCode::RowSum, false) => ReduceFn::SumI,
        (OpCode::RowMax, false) => {
            if unsigned {
                ReduceFn::MaxU
            } else {
                ReduceFn::MaxI
            }
        }
        (OpCode::RowMin, false) => {
            if unsigned {
                ReduceFn::MinU
            } else {
                ReduceFn::MinI
            }
        }
        (OpCode::RowProd, false) => ReduceFn::ProdI,
        _ => return Err(unsupported(node.at, format!("{} of {}", op.name(), node.dtype))),
    })
}

/// One of the instructions that bring lanes into an element type.
pub(super) enum Fit {
    Convert(Conversion),
    /// A maximum or minimum with a limit.
    Bound(BinaryFn, u32),
}

/// The limits of integers that are narrower than a lane.
fn limits(dtype: DType) -> Option<(i32, i32)> {
    Some(match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        _ => return None,
    })
}

/// What brings the result of a reduction into its element type: the extremes of no columns are those of 32 bits.
pub(super) fn reduce_end(op: OpCode, dtype: DType) -> Option<Fit> {
    match (op, limits(dtype)) {
        (OpCode::RowMax, Some((lowest, _))) => Some(Fit::Bound(BinaryFn::MaxI, lowest as u32)),
        (OpCode::RowMin, Some((_, highest))) => Some(Fit::Bound(BinaryFn::MinI, highest as u32)),
        _ => rounding(dtype).map(Fit::Convert),
    }
}

pub(super) fn conversions(from: DType, to: DType, mode: Rounding) -> Vec<Fit> {
    if from == to {
        return Vec::new();
    }
    let convert = |conversion| Fit::Convert(conversion);
    match (from.is_float(), to.is_float()) {
        (true, true) => rounding(to).map(convert).into_iter().collect(),
        (true, false) if unsigned(to) => vec![Fit::Convert(Conversion::F32ToU32(mode))],
        (true, false) => {
            let mut fits = vec![Fit::Convert(Conversion::F32ToI32(mode))];
            if let Some((lowest, highest)) = limits(to) {
                fits.push(Fit::Bound(BinaryFn::MaxI, lowest as u32));
                fits.push(Fit::Bound(BinaryFn::MinI, highest as u32));
            }
            fits
        }
        (false, true) => {
            let widen = if unsigned(from) { Conversion::U32ToF32 } else { Conversion::I32ToF32 };
            [widen].into_iter().chain(rounding(to)).map(convert).collect()
        }
        (false, false) => narrow(to).map(convert).into_iter().collect(),
    }
}

fn narrow(to: DType) -> Option<Conversion> {
    if to == DType::Bool { Some(Conversion::ToBool) } else { rounding(to) }
}
