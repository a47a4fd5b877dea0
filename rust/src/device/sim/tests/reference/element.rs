//! Arithmetic on single elements, written for clarity: integers in 128 bits, floats in binary32.

use crate::dtype::{DType, DTypeKind};
use crate::program::{OpCode, Rounding};

/// The element in these bytes.
pub fn from_bytes(bytes: &[u8], dtype: DType) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(all);
    match dtype {
        DType::F16 => half::f16::from_bits(bits as u16).to_f32().to_bits().into(),
        DType::BF16 => half::bf16::from_bits(bits as u16).to_f32().to_bits().into(),
        DType::F32 => bits,
        _ => wrap(bits.into(), dtype),
    }
}

/// The bytes of an element.
pub fn to_bytes(bits: u64, dtype: DType) -> Vec<u8> {
    let float = f32::from_bits(bits as u32);
    let bits = match dtype {
        DType::F16 => half::f16::from_f32(float).to_bits().into(),
        DType::BF16 => half::bf16::from_f32(float).to_bits().into(),
        _ => bits,
    };
    bits.to_le_bytes()[..dtype.size()].to_vec()
}

/// The low bits of an integer as an element.
pub fn wrap(value: i128, dtype: DType) -> u64 {
    match dtype {
        DType::Bool => u64::from(value != 0),
        DType::I8 => value as i8 as u64,
        DType::I16 => value as i16 as u64,
        DType::I32 => value as i32 as u64,
        DType::U8 => value as u8 as u64,
        DType::U16 => value as u16 as u64,
        DType::U32 => value as u32 as u64,
        _ => value as u64,
    }
}

/// A number rounded to the element type.
pub fn round_to(value: f32, dtype: DType) -> u64 {
    let value = match dtype {
        DType::F16 => half::f16::from_f32(value).to_f32(),
        DType::BF16 => half::bf16::from_f32(value).to_f32(),
        _ => value,
    };
    value.to_bits().into()
}

/// The value of a scalar slot as an element.
pub fn of_scalar(scalar: i64, dtype: DType) -> u64 {
    if dtype.is_float() { round_to(f32::from_bits(scalar as u32), dtype) } else { wrap(scalar.into(), dtype) }
}

/// An integer as an element of any type.
pub fn of_int(value: i64, dtype: DType) -> u64 {
    if dtype.is_float() { round_to(value as f32, dtype) } else { wrap(value.into(), dtype) }
}

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn int(bits: u64, dtype: DType) -> i128 {
    if dtype.kind() == DTypeKind::Signed { i128::from(bits as i64) } else { i128::from(bits) }
}

fn width(dtype: DType) -> i128 {
    dtype.size() as i128 * 8
}

fn larger(a: f32, b: f32) -> f32 {
    match () {
        _ if a.is_nan() || b.is_nan() => f32::NAN,
        _ if a == b => f32::from_bits(a.to_bits() & b.to_bits()),
        _ => a.max(b),
    }
}

fn smaller(a: f32, b: f32) -> f32 {
    -larger(-a, -b)
}

pub fn unary(op: OpCode, bits: u64, dtype: DType) -> u64 {
    if dtype.is_float() {
        let x = float(bits);
        let y = match op {
            OpCode::Neg => -x,
            OpCode::Abs => x.abs(),
            OpCode::Relu => larger(x, 0.0),
            OpCode::Recip => 1.0 / x,
            OpCode::Sqrt => x.sqrt(),
            other => panic!("{other:?} is compared elsewhere"),
        };
        return round_to(y, dtype);
    }
    let x = int(bits, dtype);
    let y = match op {
        OpCode::Neg => -x,
        OpCode::Abs => x.abs(),
        OpCode::Relu => x.max(0),
        OpCode::BitNot => !x,
        other => panic!("{other:?} takes no integers"),
    };
    wrap(y, dtype)
}

pub fn binary(op: OpCode, a: u64, b: u64, dtype: DType) -> u64 {
    if dtype.is_float() { round_to(floats(op, float(a), float(b)), dtype) } else { ints(op, a, b, dtype) }
}

fn floats(op: OpCode, a: f32, b: f32) -> f32 {
    match op {
        OpCode::Add => a + b,
        OpCode::Sub => a - b,
        OpCode::Mul => a * b,
        OpCode::Div => a / b,
        OpCode::Maximum => larger(a, b),
        OpCode::Minimum => smaller(a, b),
        OpCode::Fmod => a % b,
        OpCode::Rem => {
            let rest = a % b;
            match () {
                _ if rest == 0.0 => 0f32.copysign(b),
                _ if (rest < 0.0) != (b < 0.0) => rest + b,
                _ => rest,
            }
        }
        other => panic!("{other:?} takes no floats"),
    }
}

fn ints(op: OpCode, a: u64, b: u64, dtype: DType) -> u64 {
    let (a, b) = (int(a, dtype), int(b, dtype));
    let fits = (0..width(dtype)).contains(&b);
    let value = match op {
        OpCode::Add => a + b,
        OpCode::Sub => a - b,
        OpCode::Mul => a.wrapping_mul(b),
        OpCode::Div | OpCode::Fmod | OpCode::Rem if b == 0 => 0,
        OpCode::Div => a / b,
        OpCode::Fmod => a % b,
        OpCode::Rem => (a % b + b) % b,
        OpCode::Maximum => a.max(b),
        OpCode::Minimum => a.min(b),
        OpCode::BitAnd => a & b,
        OpCode::BitOr => a | b,
        OpCode::BitXor => a ^ b,
        OpCode::Shl => {
            if fits {
                a << b
            } else {
                0
            }
        }
        OpCode::Shr if fits => a >> b,
        OpCode::Shr => {
            if a < 0 {
                -1
            } else {
                0
            }
        }
        other => panic!("{other:?} takes no integers"),
    };
    wrap(value, dtype)
}

/// How two elements compare; `None` with a NaN.
pub fn order(a: u64, b: u64, dtype: DType) -> Option<std::cmp::Ordering> {
    if dtype.is_float() { float(a).partial_cmp(&float(b)) } else { Some(int(a, dtype).cmp(&int(b, dtype))) }
}

pub fn compare(op: OpCode, a: u64, b: u64, dtype: DType) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = order(a, b, dtype);
    match op {
        OpCode::CmpEq => order == Some(Equal),
        OpCode::CmpNe => order != Some(Equal),
        OpCode::CmpLt => order == Some(Less),
        OpCode::CmpLe => matches!(order, Some(Less | Equal)),
        OpCode::CmpGt => order == Some(Greater),
        OpCode::CmpGe => matches!(order, Some(Greater | Equal)),
        other => panic!("{other:?} is no comparison"),
    }
}

pub fn is_zero(bits: u64, dtype: DType) -> bool {
    if dtype.is_float() { float(bits) == 0.0 } else { bits == 0 }
}

pub fn is_nan(bits: u64, dtype: DType) -> bool {
    dtype.is_float() && float(bits).is_nan()
}

pub fn cast(bits: u64, from: DType, to: DType, mode: Rounding) -> u64 {
    if to == DType::Bool {
        return u64::from(!is_zero(bits, from));
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => round_to(float(bits), to),
        (false, true) => round_to(int(bits, from) as f32, to),
        (false, false) => wrap(int(bits, from), to),
        (true, false) => {
            let x = float(bits);
            let rounded = match mode {
                Rounding::None | Rounding::Trunc => x.trunc(),
                Rounding::Rint => x.round_ties_even(),
                Rounding::Round => x.round(),
                Rounding::Floor => x.floor(),
                Rounding::Ceil => x.ceil(),
                Rounding::Odd if x.fract() == 0.0 => x,
                Rounding::Odd if x.floor() % 2.0 == 0.0 => x.ceil(),
                Rounding::Odd => x.floor(),
            };
            // What does not fit becomes the nearest limit.
            let value = match to {
                DType::I8 => i128::from(rounded as i8),
                DType::I16 => i128::from(rounded as i16),
                DType::U8 => i128::from(rounded as u8),
                DType::U16 => i128::from(rounded as u16),
                DType::U32 => i128::from(rounded as u32),
                DType::I64 => i128::from(rounded as i64),
                DType::U64 => i128::from(rounded as u64),
                _ => i128::from(rounded as i32),
            };
            wrap(value, to)
        }
    }
}
