//! Copies between host and device that the user asks for.
#![allow(unsafe_code)] // hands addresses of host arrays to the core's copies

use super::codes::Edge;
use super::errors;
use super::host::{HostArray, Role};
use super::numbers::{self, type_name};
use super::shared::{Entered, Shared};
use super::tensor::DeviceTensor;
use super::way;
use crate::arena;
use crate::dtype::DType;
use crate::error::Error;
use crate::id::DeviceAddr;
use crate::shape::Shape;
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// Nothing of a process lies below.
const FIRST_PAGE: u64 = 4096;

/// The host side of a copy.
pub(super) enum HostEnd {
    /// A bare pointer: the caller vouches for it.
    Pointer(u64),
    /// An array.
    Array(HostArray),
}

/// A copy, measured.
pub(super) struct Copy<'a> {
    /// What the user called.
    pub(super) method: &'static str,
    /// The parameter of it that is the device side; empty where that is the object itself.
    pub(super) name: &'static str,
    pub(super) device: DeviceAddr,
    /// The device side, unless it is a bare address.
    pub(super) tensor: Option<&'a DeviceTensor>,
    pub(super) bytes: u64,
}

impl Copy<'_> {
    /// Refuses an allocation that is not live on this worker. It says more than a look at the address could.
    fn check(&self, session: &Entered<'_>) -> PyResult<()> {
        let Some(resident) = self.tensor.and_then(DeviceTensor::resident) else { return Ok(()) };
        Ok(session.check_buffer(&resident.buffer, || self.subject())?)
    }

    /// What a message is about: `Parameter 'dst_dev_ptr' of copy_to()`.
    fn subject(&self) -> String {
        let Self { method, name, .. } = self;
        if name.is_empty() { format!("{method}()") } else { format!("Parameter '{name}' of {method}()") }
    }

    #[cold]
    fn failed(&self, error: Error) -> PyErr {
        let tensor = self.tensor.map_or_else(String::new, |tensor| format!(", {}", tensor.__repr__()));
        errors::about(&format!("{}{tensor}", self.subject()), error)
    }
}

impl HostEnd {
    /// Reads a pointer or an array.
    pub(super) fn read(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        if object.is_instance_of::<PyInt>() {
            let address = numbers::address(object, name)?;
            // What cannot be checked is trusted. These two mistakes can: a size or an index for an address, and an address
            // of the other side.
            if address < FIRST_PAGE {
                return Err(Edge::BadHostAddress.error(format!("{name} must be a host address, got {address}")));
            }
            if arena::is_device_address(address) {
                return Err(Edge::BadHostAddress.error(format!(
                    "{name} must be a host address, got {address:#x}, which is a device address; nothing copies from \
                     device to device"
                )));
            }
            return Ok(HostEnd::Pointer(address));
        }
        if object.is_instance_of::<DeviceTensor>() {
            return Err(Edge::WrongSide.error(format!(
                "'{name}' is the host side of the copy: pass a host pointer or a host tensor, not a DeviceTensor"
            )));
        }
        Ok(HostEnd::Array(HostArray::read(object, Role::Named(name))?))
    }

    /// Reads an array, where a pointer would not say enough.
    pub(super) fn array(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        if object.is_instance_of::<DeviceTensor>() {
            return Self::read(object, name);
        }
        Ok(HostEnd::Array(HostArray::read(object, Role::Named(name))?))
    }

    /// Refuses an array of another shape or element type.
    pub(super) fn require_extent(&self, method: &str, shape: &Shape, dtype: DType) -> PyResult<()> {
        match self {
            HostEnd::Array(array) if (array.shape, array.dtype) != (*shape, dtype) => {
                Err(Edge::SidesDiffer.error(format!(
                    "the two sides of {method}() differ: {dtype} {shape} on the device, {} {} on the host. Nothing is \
                     converted or broadcast: pass a host tensor of the same dtype and shape",
                    array.dtype, array.shape
                )))
            }
            _ => Ok(()),
        }
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
                Err(Edge::ReadOnly.error(format!("Tensor '{name}' is read-only; copy into a writable one")))
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

/// The device side of a copy: its address, and the tensor if it is one.
fn device_side<'a>(name: &str, device: &'a Bound<'_, PyAny>) -> PyResult<(u64, Option<&'a DeviceTensor>)> {
    if let Ok(tensor) = device.cast::<DeviceTensor>() {
        let tensor = tensor.get();
        return Ok((tensor.addr(), Some(tensor)));
    }
    if device.is_instance_of::<PyInt>() {
        return Ok((numbers::address(device, name)?, None));
    }
    Err(Edge::WrongSide.error(format!(
        "'{name}' is the device side of the copy: expected a device pointer or a DeviceTensor, got {}",
        type_name(device)
    )))
}

/// Measures a copy between `device` (a pointer or a `DeviceTensor`), which is the parameter `name` of `method`, and `host`.
///
/// # Errors
/// `TypeError` where neither side has a size and none is given; `ValueError` where sizes or element types disagree.
pub(super) fn plan<'a>(
    method: &'static str,
    name: &'static str,
    device: &'a Bound<'_, PyAny>,
    host: &HostEnd,
    nbytes: Option<&Bound<'_, PyAny>>,
) -> PyResult<Copy<'a>> {
    let (addr, tensor) = device_side(name, device)?;
    let view = tensor.map(|tensor| (*tensor.extents(), tensor.element(), tensor.bytes()));
    let bytes = match (nbytes, view, host.extent()) {
        (Some(nbytes), view, host) => {
            let bytes = numbers::byte_count(nbytes)?.ok_or_else(|| {
                Edge::CopyTooLong.error(format!("nbytes={nbytes} of {method}() is more than any memory has"))
            })?;
            for (shape, dtype, size) in [view, host].into_iter().flatten() {
                if bytes > size {
                    return Err(Edge::CopyTooLong.error(format!(
                        "nbytes={bytes} of {method}() is more than the {size} bytes of the {dtype} {shape} tensor; \
                         leave nbytes out to copy all of it"
                    )));
                }
            }
            bytes
        }
        (None, Some((shape, dtype, bytes)), Some((host_shape, host_dtype, host_bytes))) => {
            if (dtype, bytes) != (host_dtype, host_bytes) {
                return Err(Edge::SidesDiffer.error(format!(
                    "the two sides of {method}() differ: {dtype} {shape} ({bytes} bytes) on the device, {host_dtype} \
                     {host_shape} ({host_bytes} bytes) on the host. Pass a host tensor of the same dtype and size, or \
                     nbytes for a part"
                )));
            }
            bytes
        }
        (None, Some((_, _, bytes)), None) | (None, None, Some((_, _, bytes))) => bytes,
        (None, None, None) => {
            return Err(
                Edge::SizeMissing.error(format!("nbytes of {method}() is required where both sides are pointers"))
            );
        }
    };
    Ok(Copy { method, name, device: DeviceAddr(addr), tensor, bytes })
}

impl Shared {
    /// Measures a copy with [`plan`]. Of several mistakes the device side is told first, as in PyPTO. It is looked up last
    /// all the same, and only where something else is wrong: a good copy finds its allocation when it is made, and reading
    /// the host side runs Python code of others, which must not find the worker entered.
    ///
    /// # Errors
    /// Those of a copy from or to `device`, then those of `measure`.
    pub(super) fn measured<T>(
        &self,
        py: Python<'_>,
        (method, name): (&'static str, &'static str),
        (device, host): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        measure: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        measure().or_else(|error| {
            let (addr, tensor) = device_side(name, device)?;
            let copy = Copy { method, name, device: DeviceAddr(addr), tensor, bytes: 1 };
            let mut session = self.enter(py, method)?;
            copy.check(&session)?;
            let Err(missing) = session.find(copy.device) else { return Err(error) };
            Err(match host.extract().is_ok_and(arena::is_device_address) {
                true => errors::exception(
                    missing.kind(),
                    missing.code(),
                    format!(
                        "{}: {missing}. The host side is a device address: the destination of a copy comes first",
                        copy.subject()
                    ),
                ),
                false => copy.failed(missing),
            })
        })
    }

    /// Copies from the host to the device.
    pub(super) fn upload(&self, py: Python<'_>, copy: &Copy<'_>, host: &HostEnd) -> PyResult<()> {
        let mut session = self.enter(py, copy.method)?;
        copy.check(&session)?;
        way::copy(py, self, copy.bytes, |poll| {
            // SAFETY: an array was measured by `plan`; for a bare pointer the caller vouches.
            unsafe { session.copy_to(copy.device, host.data(), copy.bytes, poll) }
        })?
        .map_err(|error| copy.failed(error))
    }

    /// Copies from the device to the host.
    pub(super) fn download(&self, py: Python<'_>, copy: &Copy<'_>, host: &HostEnd) -> PyResult<()> {
        let mut session = self.enter(py, copy.method)?;
        copy.check(&session)?;
        way::copy(py, self, copy.bytes, |poll| {
            // SAFETY: an array was measured by `plan`; for a bare pointer the caller vouches.
            unsafe { session.copy_from(host.data(), copy.device, copy.bytes, poll) }
        })?
        .map_err(|error| copy.failed(error))
    }
}
