//! Strict reading of integers: a `bool` is no extent and no pointer, and nothing is truncated.

use crate::shape::{MAX_RANK, Shape};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

/// A plain integer, or `None` for anything else. What does not fit 64 bits saturates.
fn integer(object: &Bound<'_, PyAny>) -> Option<i64> {
    if object.is_instance_of::<PyBool>() {
        return None;
    }
    let number = object.cast::<PyInt>().ok()?;
    Some(number.extract().unwrap_or_else(|_| if number.lt(0).unwrap_or(false) { i64::MIN } else { i64::MAX }))
}

/// An address: a positive integer.
///
/// # Errors
/// `ValueError` for everything else.
pub(super) fn address(object: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    match integer(object) {
        // The largest number stands for everything that is larger, and no address is.
        Some(value) if value > 0 && value < i64::MAX => Ok(value as u64),
        _ => Err(PyValueError::new_err(format!("{name} must be a positive int, got {}", object.repr()?))),
    }
}

/// A number of bytes: a positive integer. `True` counts as 1, as it does in PyPTO.
///
/// # Errors
/// `ValueError` for everything else.
pub(super) fn byte_count(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    let value =
        if object.is_instance_of::<PyBool>() { object.extract::<bool>()? as i64 } else { integer(object).unwrap_or(0) };
    if value > 0 {
        return Ok(value as u64);
    }
    Err(PyValueError::new_err(format!("nbytes must be a positive int, got {}", object.repr()?)))
}

/// How the two places that take a shape word their complaints.
pub(super) struct ShapeRule {
    /// What the shape is of.
    pub(super) of: &'static str,
    /// The rule that an extent below 1 breaks.
    pub(super) positive: &'static str,
}

/// A shape: a sequence of 1 to [`MAX_RANK`] positive integers.
///
/// # Errors
/// `TypeError` where something is no integer, `ValueError` where it is empty, too long, or not positive.
pub(super) fn shape(object: &Bound<'_, PyAny>, rule: &ShapeRule) -> PyResult<Shape> {
    let of = rule.of;
    let mut dims = [0u64; MAX_RANK];
    let mut rank = 0;
    let mut positive = true;
    let items = object.try_iter().map_err(|_| {
        PyTypeError::new_err(format!("{of} shape must contain ints: expected a tuple, got {}", type_name(object)))
    })?;
    for item in items {
        let item = item?;
        let Some(extent) = integer(&item) else {
            return Err(PyTypeError::new_err(format!(
                "{of} shape must contain ints, got {} of type {}",
                item.repr()?,
                type_name(&item)
            )));
        };
        positive &= extent > 0;
        if rank < MAX_RANK {
            dims[rank] = extent.max(0) as u64;
        }
        rank += 1;
    }
    if rank == 0 {
        return Err(PyValueError::new_err(format!("{of} shape must be non-empty: 0-dimensional tensors do not exist")));
    }
    if !positive {
        return Err(PyValueError::new_err(format!("{of} shape {}, got {}", rule.positive, object.repr()?)));
    }
    Shape::new(dims.get(..rank).unwrap_or(&[0; MAX_RANK + 1])).ok_or_else(|| {
        PyValueError::new_err(format!("{of} shape has {rank} dimensions; at most {MAX_RANK} are supported"))
    })
}

/// The type of an object, for messages.
pub(super) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}
