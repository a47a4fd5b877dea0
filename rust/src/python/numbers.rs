//! Strict reading of integers: a `bool` is no extent and no pointer, and nothing is truncated.

use super::codes::Edge;
use crate::shape::{MAX_RANK, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

/// A plain integer.
enum Integer {
    Fits(i64),
    /// Below 64 bits.
    Low,
    /// Above 64 bits.
    High,
}

impl Integer {
    /// Reads an integer; `None` for anything else.
    fn read(object: &Bound<'_, PyAny>) -> Option<Self> {
        if object.is_instance_of::<PyBool>() {
            return None;
        }
        let number = object.cast::<PyInt>().ok()?;
        Some(match number.extract() {
            Ok(value) => Integer::Fits(value),
            Err(_) if number.lt(0).unwrap_or(false) => Integer::Low,
            Err(_) => Integer::High,
        })
    }
}

/// An address: a positive integer.
///
/// # Errors
/// `ValueError` for everything else.
pub(super) fn address(object: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    match Integer::read(object) {
        Some(Integer::Fits(value)) if value > 0 => Ok(value as u64),
        Some(Integer::High) => {
            Err(Edge::BadAddress.error(format!("{name} must be a positive int below 2**63, got {}", object.repr()?)))
        }
        _ => Err(Edge::BadAddress.error(format!("{name} must be a positive int, got {}", shown(object)?))),
    }
}

/// An object in a message: itself where that is short, else its type.
fn shown(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = object.repr()?.to_string();
    Ok(if text.len() <= 120 { text } else { format!("an object of type {}", type_name(object)) })
}

/// What `malloc` is asked for: as [`byte_count`], but `True` counts as 1, as it does in PyPTO.
///
/// # Errors
/// As there.
pub(super) fn malloc_size(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if object.is_instance_of::<PyBool>() && object.is_truthy()? {
        return Ok(Some(1));
    }
    byte_count(object)
}

/// A number of bytes: a positive integer, `None` for one that no memory reaches (2**63 and more).
///
/// # Errors
/// `ValueError` for everything else.
pub(super) fn byte_count(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    match Integer::read(object) {
        Some(Integer::Fits(value)) if value > 0 => Ok(Some(value as u64)),
        Some(Integer::High) => Ok(None),
        _ => Err(Edge::BadSize.error(format!("nbytes must be a positive int, got {}", shown(object)?))),
    }
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
        Edge::BadShape.error(format!("{of} shape must contain ints: expected a tuple, got {}", type_name(object)))
    })?;
    for item in items {
        let item = item?;
        let Some(extent) = Integer::read(&item) else {
            return Err(Edge::BadShape.error(format!(
                "{of} shape must contain ints, got {} of type {}; convert it with int(...)",
                item.repr()?,
                type_name(&item)
            )));
        };
        let extent = match extent {
            Integer::Fits(extent) => extent,
            Integer::Low => -1,
            Integer::High => {
                return Err(Edge::BadExtent
                    .error(format!("{of} shape has an extent of {}: no memory holds 2**63 elements", item.repr()?)));
            }
        };
        positive &= extent > 0;
        if rank < MAX_RANK {
            dims[rank] = extent.max(0) as u64;
        }
        rank += 1;
    }
    if rank == 0 {
        return Err(Edge::BadExtent.error(format!("{of} shape must be non-empty: 0-dimensional tensors do not exist")));
    }
    if !positive {
        return Err(Edge::BadExtent.error(format!("{of} shape {}, got {}", rule.positive, object.repr()?)));
    }
    Shape::new(dims.get(..rank).unwrap_or(&[0; MAX_RANK + 1])).ok_or_else(|| {
        Edge::TooManyAxes.error(format!("{of} shape has {rank} dimensions; at most {MAX_RANK} are supported"))
    })
}

/// The type of an object, for messages.
pub(super) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}
