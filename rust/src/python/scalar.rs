//! Scalar arguments of a launch: Python numbers, numpy scalars, ctypes values.
//!
//! This decides what *kind* of number an object is. Whether an integer fits its parameter is the worker's check.

use super::codes::Edge;
use super::host::{HostArray, Role};
use super::numbers::type_name;
use super::tensor::DeviceTensor;
use crate::dtype::{DType, DTypeKind};
use crate::worker::Value;
use half::{bf16, f16};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

const NO_BOOL: &str = "a bool is not a number; convert it with int(...)";

/// Reads `object` for a scalar parameter of type `dtype`.
///
/// # Errors
/// `TypeError` for a tensor, for a `bool` where a number is declared, for a number of another kind, and for a ctypes
/// value of another type; `OverflowError` for an integer beyond 64 bits.
pub(super) fn read(object: &Bound<'_, PyAny>, dtype: DType, role: Role<'_>) -> PyResult<Value<'static>> {
    // The order: what programs pass in every launch first.
    if let Ok(number) = object.cast_exact::<PyInt>() {
        return integer(number.as_any(), dtype, role);
    }
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        return float(number.value(), object, dtype, role);
    }
    if object.is_instance_of::<PyBool>() {
        return match dtype.kind() {
            DTypeKind::Bool => Ok(Value::Bool(object.extract()?)),
            _ => Err(mismatch(object, dtype, role, NO_BOOL)),
        };
    }
    if object.is_instance_of::<DeviceTensor>() || is_tensor(object) {
        return Err(mismatch(object, dtype, role, "pass a number, for a one-element tensor t.item()"));
    }
    if let Some(code) = ctypes_code(object) {
        return ctypes_value(object, &code, dtype, role);
    }
    other_number(object, dtype, role)
}

fn integer(number: &Bound<'_, PyAny>, dtype: DType, role: Role<'_>) -> PyResult<Value<'static>> {
    match dtype.kind() {
        DTypeKind::Float => match number.extract::<f64>() {
            Ok(value) => Ok(Value::Float(value)),
            // Beyond what FP64 holds: its digits would fill the screen.
            Err(_) => {
                Err(Edge::ScalarRange.error(format!("Argument {role}: this integer is out of range for {dtype}")))
            }
        },
        DTypeKind::Bool | DTypeKind::Stored => Err(mismatch(number, dtype, role, "convert it with bool(...)")),
        DTypeKind::Signed | DTypeKind::Unsigned => match (number.extract::<i64>(), number.extract::<u64>()) {
            (Ok(value), _) => Ok(Value::Int(value)),
            (_, Ok(value)) => Ok(Value::Large(value)),
            _ => Err(Edge::ScalarRange.error(format!(
                "Argument {role}: {number} is out of range for {dtype}: no scalar has more than 64 bits"
            ))),
        },
    }
}

fn float(value: f64, object: &Bound<'_, PyAny>, dtype: DType, role: Role<'_>) -> PyResult<Value<'static>> {
    match dtype.kind() {
        DTypeKind::Float => Ok(Value::Float(value)),
        _ => Err(mismatch(object, dtype, role, "convert it with int(...)")),
    }
}

/// numpy scalars and whatever else has `__index__` or `__float__`.
fn other_number(object: &Bound<'_, PyAny>, dtype: DType, role: Role<'_>) -> PyResult<Value<'static>> {
    let py = object.py();
    if type_name(object).starts_with("numpy.bool") {
        return match dtype.kind() {
            DTypeKind::Bool => Ok(Value::Bool(object.is_truthy()?)),
            _ => Err(mismatch(object, dtype, role, NO_BOOL)),
        };
    }
    if object.hasattr(pyo3::intern!(py, "__index__"))? {
        let number = object.call_method0(pyo3::intern!(py, "__index__"))?;
        return integer(&number, dtype, role);
    }
    if object.hasattr(pyo3::intern!(py, "__float__"))? {
        let number = object.call_method0(pyo3::intern!(py, "__float__"))?;
        return float(number.extract()?, object, dtype, role);
    }
    Err(mismatch(object, dtype, role, "pass a number"))
}

/// Whether `object` is an array. numpy scalars offer the array protocols too and are none.
fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    HostArray::is_array(object) && object.hasattr("__setitem__").unwrap_or(false)
}

/// The type code of a simple ctypes value.
fn ctypes_code(object: &Bound<'_, PyAny>) -> Option<String> {
    let ty = object.get_type();
    let base = ty.getattr("__mro__").ok()?.get_item(1).ok()?;
    (base.getattr("__name__").ok()?.extract::<String>().ok()? == "_SimpleCData")
        .then(|| ty.getattr("_type_").ok()?.extract().ok())
        .flatten()
}

fn ctypes_value(object: &Bound<'_, PyAny>, code: &str, dtype: DType, role: Role<'_>) -> PyResult<Value<'static>> {
    // `l` and `L` are the 64-bit types on every supported system.
    let expected = match dtype {
        DType::F32 => "f",
        // As the number, or as its 16 bits: programs that run compiled directories pass them so.
        DType::F16 | DType::BF16 => "fH",
        DType::F64 => "d",
        DType::I8 => "b",
        DType::I16 => "h",
        DType::I32 => "i",
        DType::I64 => "lq",
        DType::U8 => "B",
        DType::U16 => "H",
        DType::U32 => "I",
        DType::U64 => "LQ",
        DType::Bool => "?",
        // No parameter has another type.
        _ => "",
    };
    if !expected.contains(code) {
        return Err(mismatch(object, dtype, role, "use the ctypes class of the declared type"));
    }
    let value = object.getattr("value")?;
    match dtype.kind() {
        DTypeKind::Bool => Ok(Value::Bool(value.extract()?)),
        DTypeKind::Float if code == "H" => Ok(Value::Float(half_of(value.extract()?, dtype))),
        DTypeKind::Float => Ok(Value::Float(value.extract()?)),
        DTypeKind::Signed | DTypeKind::Unsigned | DTypeKind::Stored => integer(&value, dtype, role),
    }
}

/// The number with these 16 bits.
fn half_of(bits: u16, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::from_bits(bits).to_f64(),
        _ => bf16::from_bits(bits).to_f64(),
    }
}

#[cold]
fn mismatch(object: &Bound<'_, PyAny>, dtype: DType, role: Role<'_>, fix: &str) -> PyErr {
    let got = type_name(object);
    Edge::WrongScalar.error(format!("Argument {role} expects {} scalar, got {got}: {fix}", dtype.with_article()))
}
