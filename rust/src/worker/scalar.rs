//! Scalar arguments: from what Python has to what a parameter holds, with a check instead of a silent truncation.

use super::error::WorkerError;
use super::value::Value;
use crate::dtype::{DType, DTypeKind};
use crate::program::Number;
use half::{bf16, f16};

/// As [`encode`], for a parameter whose value may have been fixed when the program was compiled: another one is refused,
/// where the program would ignore it.
pub(super) fn bind(
    value: &Value<'_>,
    dtype: DType,
    baked: Option<Number>,
    what: impl Fn() -> String,
) -> Result<u64, WorkerError> {
    let bits = encode(value, dtype, &what);
    let Some(baked) = baked else { return bits };
    if let Err(error @ WorkerError::ArgumentType(_)) = bits {
        return Err(error);
    }
    let wanted = encode(&baked.into(), dtype, &what)?;
    // What is out of range is another value, too.
    if bits.is_ok_and(|bits| bits == wanted) {
        return Ok(wanted);
    }
    Err(WorkerError::ArgumentValue(format!(
        "{} was compiled for {baked}, and another value would be ignored. Pass {baked}, compile with pl.RUNTIME in its place \
         so that each launch has its own value, or call the @pl.jit function, which compiles for each value",
        what()
    )))
}

/// The bits that the device gets for `value`: integers as two's complement, floats as a binary32, truth values as 0 or 1.
/// `what` names the parameter in messages.
pub(super) fn encode(value: &Value<'_>, dtype: DType, what: impl Fn() -> String) -> Result<u64, WorkerError> {
    let wrong_type = |got: &str, fix: &str| {
        WorkerError::ArgumentType(format!("{} expects a scalar of type {dtype}, got {got}. {fix}", what()))
    };
    let out_of_range = |number: String, range: String| {
        WorkerError::ScalarRange(format!("{}: {number} does not fit {dtype}, which holds {range}", what()))
    };
    let float = |number: f64| {
        let narrow = narrow(number, dtype)
            .ok_or_else(|| out_of_range(format!("{number:e}"), format!("magnitudes up to {:e}", largest(dtype))))?;
        Ok(u64::from(narrow.to_bits()))
    };
    match (value, dtype.kind()) {
        (Value::Bool(value), DTypeKind::Bool) => Ok(u64::from(*value)),
        (Value::Bool(_), _) => Err(wrong_type("a bool", "Pass int(...) or float(...) if that is what you mean")),
        (Value::Int(_) | Value::Large(_) | Value::Float(_), DTypeKind::Bool | DTypeKind::Stored) => {
            Err(wrong_type("a number", "Pass bool(...)"))
        }
        (Value::Int(value), DTypeKind::Signed | DTypeKind::Unsigned) => {
            let (low, high) = integer_range(dtype);
            if !(low..=high).contains(&i128::from(*value)) {
                return Err(out_of_range(value.to_string(), format!("{low} to {high}")));
            }
            Ok(*value as u64)
        }
        (Value::Large(value), DTypeKind::Unsigned) if dtype == DType::U64 => Ok(*value),
        (Value::Large(value), DTypeKind::Signed | DTypeKind::Unsigned) => {
            let (low, high) = integer_range(dtype);
            Err(out_of_range(value.to_string(), format!("{low} to {high}")))
        }
        (Value::Float(value), DTypeKind::Signed | DTypeKind::Unsigned) => {
            Err(wrong_type(&format!("the float {value}"), "Pass int(...) if truncation is what you mean"))
        }
        (Value::Int(value), DTypeKind::Float) => float(*value as f64),
        (Value::Large(value), DTypeKind::Float) => float(*value as f64),
        (Value::Float(value), DTypeKind::Float) => float(*value),
        (Value::Host(_) | Value::Resident { .. }, _) => Err(wrong_type("a tensor", "Pass a Python number")),
    }
}

/// `number` rounded to `dtype`, as a binary32; `None` where a finite number would become infinite.
fn narrow(number: f64, dtype: DType) -> Option<f32> {
    let narrow = match dtype {
        DType::F16 => f16::from_f64(number).to_f32(),
        DType::BF16 => bf16::from_f64(number).to_f32(),
        _ => number as f32,
    };
    (narrow.is_finite() || !number.is_finite()).then_some(narrow)
}

fn largest(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::MAX.to_f32(),
        DType::BF16 => bf16::MAX.to_f32(),
        _ => f32::MAX,
    }
}

/// The integers that `dtype` holds.
fn integer_range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size() as u32;
    match dtype.kind() {
        DTypeKind::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn bits(value: Value<'_>, dtype: DType) -> Result<u64, WorkerError> {
        encode(&value, dtype, || "Parameter 'n' of 'k'".into())
    }

    #[test]
    fn integers_are_accepted_up_to_the_limits_of_their_type_and_no_further() {
        let limits = [
            (DType::I8, -128, 127),
            (DType::U8, 0, 255),
            (DType::I16, -32768, 32767),
            (DType::U16, 0, 65535),
            (DType::I32, i64::from(i32::MIN), i64::from(i32::MAX)),
            (DType::U32, 0, i64::from(u32::MAX)),
        ];
        for (dtype, low, high) in limits {
            assert_eq!(bits(Value::Int(low), dtype).unwrap(), low as u64);
            assert_eq!(bits(Value::Int(high), dtype).unwrap(), high as u64);
            for outside in [low - 1, high + 1] {
                let error = bits(Value::Int(outside), dtype).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Overflow);
                let expected =
                    format!("Parameter 'n' of 'k': {outside} does not fit {dtype}, which holds {low} to {high}");
                assert_eq!(error.to_string(), expected);
            }
        }
        assert_eq!(bits(Value::Int(i64::MIN), DType::I64).unwrap(), i64::MIN as u64);
        assert!(bits(Value::Int(-1), DType::U64).is_err());
        assert_eq!(bits(Value::Large(u64::MAX), DType::U64).unwrap(), u64::MAX);
        for dtype in [DType::I64, DType::U32] {
            let error = bits(Value::Large(1 << 63), dtype).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Overflow);
            assert!(error.to_string().contains("9223372036854775808 does not fit"), "{error}");
        }
        assert_eq!(bits(Value::Large(1 << 63), DType::F32).unwrap(), u64::from(9_223_372_036_854_775_808f32.to_bits()));
    }

    #[test]
    fn floats_that_would_become_infinite_are_refused() {
        for (dtype, fits, overflows) in
            [(DType::F32, 3.4e38, 1e100), (DType::F16, 65519.0, 65520.0), (DType::BF16, 3.38e38, 3.4e38)]
        {
            assert!(bits(Value::Float(fits), dtype).is_ok());
            let error = bits(Value::Float(overflows), dtype).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Overflow, "{dtype}");
            assert!(error.to_string().contains("Parameter 'n'"), "{error}");
            let infinity = bits(Value::Float(f64::INFINITY), dtype).unwrap();
            assert_eq!(f32::from_bits(infinity as u32), f32::INFINITY);
            assert!(f32::from_bits(bits(Value::Float(f64::NAN), dtype).unwrap() as u32).is_nan());
        }
    }

    #[test]
    fn floats_are_rounded_to_the_declared_type() {
        let third = bits(Value::Float(1.0 / 3.0), DType::F16).unwrap();
        assert_eq!(f32::from_bits(third as u32), f16::from_f64(1.0 / 3.0).to_f32());
        assert_eq!(bits(Value::Int(3), DType::F32).unwrap(), u64::from(3f32.to_bits()));
    }

    #[test]
    fn kinds_are_not_mixed() {
        let mixed = [
            (Value::Bool(true), DType::I32),
            (Value::Bool(true), DType::F32),
            (Value::Int(1), DType::Bool),
            (Value::Float(1.0), DType::Bool),
            (Value::Float(1.0), DType::I64),
        ];
        for (value, dtype) in mixed {
            assert_eq!(bits(value, dtype).unwrap_err().kind(), ErrorKind::Type, "{value:?} as {dtype}");
        }
        assert_eq!(bits(Value::Bool(true), DType::Bool).unwrap(), 1);
    }
}
