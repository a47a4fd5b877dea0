//! `Buffer`: the allocation behind a `DeviceTensor`, for inspection.

use super::codes::Edge;
use super::dtypes;
use super::numbers::{self, ShapeRule};
use super::tensor::{DeviceTensor, Resident};
use crate::arena::BufferState;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

/// One allocation of device memory. It stays inspectable after it is freed.
#[pyclass(frozen, module = "pypto._pypto")]
pub(super) struct Buffer {
    resident: Resident,
}

impl Buffer {
    pub(super) fn new(resident: Resident) -> Self {
        Self { resident }
    }

    pub(super) fn resident(&self) -> &Resident {
        &self.resident
    }
}

#[pymethods]
impl Buffer {
    /// The same allocation: memory is copied by `to_host()`. `dataclasses.asdict` of a tensor copies what is behind it.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    #[getter]
    fn base(&self) -> u64 {
        self.resident.addr()
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.resident.room()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.resident.buffer.shape().dims())
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dtypes::to_torch(py, self.resident.buffer.dtype())
    }

    #[getter]
    fn site(&self) -> Option<String> {
        self.resident.buffer.site().map(ToString::to_string)
    }

    #[getter]
    fn description(&self) -> String {
        self.resident.buffer.describe()
    }

    #[getter]
    fn state(&self) -> &'static str {
        match self.resident.buffer.state() {
            BufferState::Live => "live",
            BufferState::Freed => "freed",
            BufferState::WorkerClosed => "worker closed",
        }
    }

    fn tensor(&self, shape: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<DeviceTensor> {
        const RULE: ShapeRule = ShapeRule { of: "Buffer.tensor", positive: "must be all positive" };
        let (shape, dtype) = (numbers::shape(shape, &RULE)?, dtypes::from_torch(dtype)?);
        let view = DeviceTensor::of(self.resident.clone(), shape, dtype);
        super::tensor::check_view(&view)?;
        Ok(view)
    }

    fn __repr__(&self) -> String {
        format!("Buffer({}, {}, {})", self.resident.buffer, self.state(), self.resident.buffer.owner())
    }
}

/// Checks that an object can stand behind a `DeviceTensor` at `addr`.
///
/// # Errors
/// `TypeError` where it is no buffer, `ValueError` where it begins elsewhere.
pub(super) fn check(object: &Bound<'_, PyAny>, addr: u64) -> PyResult<()> {
    let base = object.getattr("base").ok().and_then(|base| base.cast_into::<PyInt>().ok());
    let Some(base) = base else {
        return Err(Edge::BadBuffer
            .error(format!("buffer must have an int attribute 'base', got {}", numbers::type_name(object))));
    };
    if base.extract::<u64>().ok() != Some(addr) {
        return Err(Edge::BufferMismatch.error(format!("buffer base {base} does not match data_ptr {addr}")));
    }
    if !object.getattr("tensor").is_ok_and(|method| method.is_callable()) {
        return Err(
            Edge::BadBuffer.error(format!("buffer must have a method 'tensor', got {}", numbers::type_name(object)))
        );
    }
    Ok(())
}
