//! What a launch is given.

use crate::arena::Buffer;
use crate::dtype::DType;
use crate::program::Number;
use crate::shape::Shape;
use std::sync::Arc;

/// One argument of a launch.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A tensor in host memory. It is copied as the direction of its parameter says.
    Host(HostTensor),
    /// A view of a resident buffer. It is never copied.
    Resident {
        /// The buffer.
        buffer: &'a Arc<Buffer>,
        /// Distance of the view from the first byte of the buffer.
        offset: u64,
        /// Extents of the view.
        shape: &'a Shape,
        /// Element type of the view.
        dtype: DType,
    },
    /// An integer.
    Int(i64),
    /// An integer that [`Value::Int`] cannot hold.
    Large(u64),
    /// A floating point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

/// A [`Value`] that keeps the description of its buffer.
#[derive(Clone, Debug)]
pub enum Kept {
    /// See [`Value::Resident`].
    Resident {
        /// The buffer.
        buffer: Arc<Buffer>,
        /// Distance of the view from the first byte of the buffer.
        offset: u64,
        /// Extents of the view.
        shape: Shape,
        /// Element type of the view.
        dtype: DType,
    },
    /// Anything else.
    Other(Value<'static>),
}

impl Kept {
    /// The value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Kept::Resident { buffer, offset, shape, dtype } => {
                Value::Resident { buffer, offset: *offset, shape, dtype: *dtype }
            }
            Kept::Other(value) => *value,
        }
    }
}

impl From<Number> for Value<'_> {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(number) => Value::Int(number),
            Number::Large(number) => Value::Large(number),
            Number::Float(number) => Value::Float(number),
            Number::Bool(truth) => Value::Bool(truth),
        }
    }
}

impl From<Value<'_>> for Kept {
    fn from(value: Value<'_>) -> Self {
        Kept::Other(match value {
            Value::Resident { buffer, offset, shape, dtype } => {
                return Kept::Resident { buffer: buffer.clone(), offset, shape: *shape, dtype };
            }
            Value::Host(host) => Value::Host(host),
            Value::Int(number) => Value::Int(number),
            Value::Large(number) => Value::Large(number),
            Value::Float(number) => Value::Float(number),
            Value::Bool(truth) => Value::Bool(truth),
        })
    }
}

/// A row-major tensor in host memory.
#[derive(Clone, Copy, Debug)]
pub struct HostTensor {
    /// First element.
    pub data: *mut u8,
    /// Extents.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// Whether the memory may be written.
    pub writable: bool,
    /// What its owner counts writes with, [`crate::worker::NO_VERSION`] where it does not, or nobody asks.
    pub version: u64,
}

impl HostTensor {
    /// Bytes of all elements; saturates, which no memory reaches.
    pub fn bytes(&self) -> u64 {
        self.shape.elements().unwrap_or(u64::MAX).saturating_mul(self.dtype.size() as u64)
    }
}

// SAFETY: it is an address with a description. Only `launch` dereferences it, and its caller vouches for the memory.
#[allow(unsafe_code)]
unsafe impl Send for HostTensor {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for HostTensor {}
