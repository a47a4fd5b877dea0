//! Copies between host and device that the user asks for.
#![allow(unsafe_code)] // hands addresses of host arrays to the core's copies

use super::host::{HostArray, Role};
use super::numbers::{self, type_name};
use super::shared::{Shared, detached};
use super::tensor::DeviceTensor;
use crate::dtype::DType;
use crate::id::DeviceAddr;
use crate::shape::Shape;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// Copies of at least this many bytes run detached. Detaching costs about 0.1 us when nobody waits, and a copy of this size
/// takes about 20 us; another thread loses no more than that to a smaller one.
const DETACH_BYTES: u64 = 256 << 10;

/// The host side of a copy.
pub(super) enum HostEnd {
    /// A bare pointer: the caller vouches for it.
    Pointer(u64),
    /// An array.
    Array(HostArray),
}

/// A copy, measured.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    pub(super) device: DeviceAddr,
    pub(super) bytes: u64,
}

impl HostEnd {
    /// Reads a pointer or an array.
    pub(super) fn read(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        if object.is_instance_of::<PyInt>() {
            return Ok(HostEnd::Pointer(numbers::address(object, name)?));
        }
        if object.is_instance_of::<DeviceTensor>() {
            return Err(PyTypeError::new_err(format!(
                "'{name}' is the host side of the copy: pass a host pointer or a host tensor, not a DeviceTensor"
            )));
        }
        Ok(HostEnd::Array(HostArray::read(object, Role::Named(name))?))
    }

    pub(super) fn data(&self) -> *mut u8 {
        match self {
            HostEnd::Pointer(address) => std::ptr::with_exposed_provenance_mut(*address as usize),
            HostEnd::Array(array) => array.data,
        }
    }

    /// Refuses an array that may only be read.
    pub(super) fn require_writable(&self, name: &str) -> PyResult<()> {
        match self {
            HostEnd::Array(array) if !array.writable => {
                Err(PyValueError::new_err(format!("Tensor '{name}' is read-only; copy into a writable one")))
            }
            _ => Ok(()),
        }
    }

    fn extent(&self) -> Option<(Shape, DType, u64)> {
        match self {
            HostEnd::Pointer(_) => None,
            HostEnd::Array(array) => Some((array.shape, array.dtype, array.bytes())),
        }
    }
}

/// Measures a copy between `device` (a pointer or a `DeviceTensor`) and `host`.
///
/// # Errors
/// `TypeError` where neither side has a size and none is given; `ValueError` where sizes or element types disagree.
pub(super) fn plan(
    device: &Bound<'_, PyAny>,
    name: &str,
    host: &HostEnd,
    nbytes: Option<&Bound<'_, PyAny>>,
) -> PyResult<Copy> {
    let tensor = device.cast::<DeviceTensor>().ok().map(|tensor| tensor.get());
    let addr = match tensor {
        Some(tensor) => tensor.addr(),
        None if device.is_instance_of::<PyInt>() => numbers::address(device, name)?,
        None => {
            return Err(PyTypeError::new_err(format!(
                "'{name}' is the device side of the copy: expected a device pointer or a DeviceTensor, got {}",
                type_name(device)
            )));
        }
    };
    let view = tensor.map(|tensor| (*tensor.extents(), tensor.element(), tensor.bytes()));
    let bytes = match (nbytes, view, host.extent()) {
        (Some(nbytes), view, host) => {
            let bytes = numbers::byte_count(nbytes)?;
            for (shape, dtype, size) in [view, host].into_iter().flatten() {
                if bytes > size {
                    return Err(PyValueError::new_err(format!(
                        "nbytes={bytes} is more than the {size} bytes of the {dtype} {shape} tensor"
                    )));
                }
            }
            bytes
        }
        (None, Some((shape, dtype, bytes)), Some((host_shape, host_dtype, host_bytes))) => {
            if (dtype, bytes) != (host_dtype, host_bytes) {
                return Err(PyValueError::new_err(format!(
                    "the two sides of the copy differ: {dtype} {shape} on the device, {host_dtype} {host_shape} on the host"
                )));
            }
            bytes
        }
        (None, Some((_, _, bytes)), None) | (None, None, Some((_, _, bytes))) => bytes,
        (None, None, None) => {
            return Err(PyTypeError::new_err("nbytes is required where both sides are pointers"));
        }
    };
    Ok(Copy { device: DeviceAddr(addr), bytes })
}

/// Runs a copy of `bytes` bytes, detached from the interpreter where it is long.
pub(super) fn maybe_detached<R>(py: Python<'_>, bytes: u64, copy: impl FnOnce() -> R) -> R {
    if bytes >= DETACH_BYTES { detached(py, copy) } else { copy() }
}

impl Shared {
    /// Copies from the device to the host.
    pub(super) fn download(&self, py: Python<'_>, copy: Copy, host: &HostEnd) -> PyResult<()> {
        let mut session = self.enter(py, "copy_from")?;
        maybe_detached(py, copy.bytes, || {
            // SAFETY: an array was measured by `plan`; for a bare pointer the caller vouches.
            unsafe { session.copy_from(host.data(), copy.device, copy.bytes) }
        })?;
        Ok(())
    }
}
