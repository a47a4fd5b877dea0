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

/// Whether a result can leave its element type: a maximum or a sign change cannot for floats, but `-(-128)` does for
/// integers, where the extra conversion costs nothing that matters.
pub(super) fn rounds(op: OpCode) -> bool {
    !matches!(op, OpCode::Maximum | OpCode::Minimum | OpCode::Relu)
}

pub(super) fn unary(op: OpCode, dtype: DType) -> Option<UnaryFn> {
    Some(match (op, dtype.is_float()) {
        (OpCode::Exp, true) => UnaryFn::ExpF,
        (OpCode::Recip, true) => UnaryFn::RecipF,
        (OpCode::Sqrt, true) => UnaryFn::SqrtF,
        (OpCode::Neg, true) => UnaryFn::NegF,
        (OpCode::Neg, false) => UnaryFn::NegI,
        (OpCode::Abs, true) => UnaryFn::AbsF,
        (OpCode::Abs, false) => UnaryFn::AbsI,
        _ => return None,
    })
}

/// `relu` is a maximum with 0, whose bits are 0 for floats and integers alike.
pub(super) fn relu_max(op: OpCode, node: &Node) -> Result<BinaryFn, DeviceError> {
    match op {
        OpCode::Relu => binary(OpCode::Maximum, node),
        _ => Err(unsupported(node.at, format!("{} of {}", op.name(), node.dtype))),
    }
}

pub(super) fn binary(op: OpCode, node: &Node) -> Result<BinaryFn, DeviceError> {
    let signless = matches!(op, OpCode::Add | OpCode::Sub | OpCode::Mul);
    let narrow = node.dtype.size() < 4;
    Ok(match (op, node.dtype.kind()) {
        (_, DTypeKind::Bool) => return Err(unsupported(node.at, format!("{} of BOOL", op.name()))),
        (OpCode::Add, DTypeKind::Float) => BinaryFn::AddF,
        (OpCode::Sub, DTypeKind::Float) => BinaryFn::SubF,
        (OpCode::Mul, DTypeKind::Float) => BinaryFn::MulF,
        (OpCode::Div, DTypeKind::Float) => BinaryFn::DivF,
        (OpCode::Maximum, DTypeKind::Float) => BinaryFn::MaxF,
        (OpCode::Minimum, DTypeKind::Float) => BinaryFn::MinF,
        // Narrow unsigned elements are non-negative in their lanes, so the signed functions serve them too.
        (_, DTypeKind::Unsigned) if !signless && !narrow => {
            return Err(unsupported(node.at, format!("{} of {}", op.name(), node.dtype)));
        }
        (OpCode::Add, _) => BinaryFn::AddI,
        (OpCode::Sub, _) => BinaryFn::SubI,
        (OpCode::Mul, _) => BinaryFn::MulI,
        (OpCode::Div, _) => BinaryFn::DivI,
        (OpCode::Maximum, _) => BinaryFn::MaxI,
        (OpCode::Minimum, _) => BinaryFn::MinI,
        _ => return Err(unsupported(node.at, format!("{} of {}", op.name(), node.dtype))),
    })
}

pub(super) fn reduce(op: OpCode, node: &Node) -> Result<ReduceFn, DeviceError> {
    Ok(match (op, node.dtype.kind()) {
        (OpCode::RowSum, DTypeKind::Float) => ReduceFn::SumF,
        (OpCode::RowMax, DTypeKind::Float) => ReduceFn::MaxF,
        (OpCode::RowMin, DTypeKind::Float) => ReduceFn::MinF,
        (OpCode::RowSum, DTypeKind::Signed) => ReduceFn::SumI,
        (OpCode::RowMax, DTypeKind::Signed) => ReduceFn::MaxI,
        (OpCode::RowMin, DTypeKind::Signed) => ReduceFn::MinI,
        _ => return Err(unsupported(node.at, format!("{} of {}", op.name(), node.dtype))),
    })
}

pub(super) fn conversions(from: DType, to: DType, mode: Rounding) -> Vec<Conversion> {
    if from == to {
        return Vec::new();
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => rounding(to).into_iter().collect(),
        (true, false) => [Conversion::F32ToI32(mode)].into_iter().chain(narrow(to)).collect(),
        (false, true) => [Conversion::I32ToF32].into_iter().chain(rounding(to)).collect(),
        (false, false) => narrow(to).into_iter().collect(),
    }
}

fn narrow(to: DType) -> Option<Conversion> {
    if to == DType::Bool { Some(Conversion::ToBool) } else { rounding(to) }
}
