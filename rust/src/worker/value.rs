//! What a launch is given.

use crate::arena::Buffer;
use crate::dtype::DType;
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
    /// A floating point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
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
