//! `DeviceTensor`: a typed view of device memory.

use super::buffer::{self, Buffer};
use super::codes::Edge;
use super::dtypes;
use super::numbers::{self, ShapeRule, type_name};
use super::shared::Shared;
use super::transfer::{Copy, HostEnd};
use crate::arena;
use crate::dtype::DType;
use crate::shape::Shape;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// How the constructor words its complaints about shapes.
const RULE: ShapeRule = ShapeRule { of: "DeviceTensor", positive: "must be all positive" };

/// A typed view of device memory from its first byte.
///
/// It is a value: pointer, shape and dtype decide equality. What a launch checks is the buffer behind it.
#[pyclass(frozen, weakref, module = "pypto.runtime")]
pub(super) struct DeviceTensor {
    addr: u64,
    shape: Shape,
    dtype: DType,
    /// The allocation that it views, unless it was made from a bare pointer.
    resident: Option<Resident>,
    /// What `buffer` returns: made when first asked for, or given by the caller.
    object: PyOnceLock<Py<PyAny>>,
}

/// An allocation of this process.
#[derive(Clone)]
pub(super) struct Resident {
    pub(super) buffer: Arc<arena::Buffer>,
    pub(super) shared: Weak<Shared>,
}

impl DeviceTensor {
    /// A view of a whole allocation, or of its leading part.
    pub(super) fn view(resident: Resident, shape: Shape, dtype: DType) -> Self {
        Self { addr: resident.buffer.addr().0, shape, dtype, resident: Some(resident), object: PyOnceLock::new() }
    }

    pub(super) fn addr(&self) -> u64 {
        self.addr
    }

    pub(super) fn extents(&self) -> &Shape {
        &self.shape
    }

    pub(super) fn element(&self) -> DType {
        self.dtype
    }

    /// The allocation; `None` for a bare pointer and for a buffer that this runtime did not make.
    pub(super) fn resident(&self) -> Option<&Resident> {
        self.resident.as_ref()
    }

    /// Bytes of all elements.
    pub(super) fn bytes(&self) -> u64 {
        // The constructor refused what does not fit.
        self.shape.elements().unwrap_or(0) * self.dtype.size() as u64
    }
}

#[pymethods]
impl DeviceTensor {
    #[new]
    #[pyo3(signature = (data_ptr, shape, dtype, *, buffer = None))]
    fn new(
        data_ptr: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        buffer: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = data_ptr.py();
        let addr = numbers::address(data_ptr, "data_ptr")?;
        let shape = numbers::shape(shape, &RULE)?;
        let dtype = dtypes::from_torch(dtype)?;
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(dtype.size() as u64));
        if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(Edge::TensorTooLarge.error(format!(
                "DeviceTensor of shape {shape} and dtype torch.{} needs more bytes than any memory has",
                dtype.torch_name()
            )));
        }
        let object = PyOnceLock::new();
        let mut resident = None;
        if let Some(buffer) = buffer {
            buffer::check(&buffer, addr)?;
            resident = buffer.cast::<Buffer>().ok().map(|ours| ours.get().resident().clone());
            let _ = object.set(py, buffer.unbind());
        }
        Ok(Self { addr, shape, dtype, resident, object })
    }

    #[getter]
    fn data_ptr(&self) -> u64 {
        self.addr
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.dims())
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dtypes::to_torch(py, self.dtype)
    }

    #[getter]
    fn buffer<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let (None, Some(resident)) = (self.object.get(py), &self.resident) {
            let object = Bound::new(py, Buffer::new(resident.clone()))?.into_any().unbind();
            // Where another thread was faster, its object is the one.
            let _ = self.object.set(py, object);
        }
        Ok(self.object.get(py).map(|object| object.bind(py).clone()))
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.bytes()
    }

    fn to_host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let resident = self.resident.as_ref().ok_or_else(|| {
            Edge::RawTensorType
                .error("to_host() needs a tensor that alloc_tensor() made; this one was made from a bare pointer")
        })?;
        let shared = resident.shared.upgrade().ok_or_else(|| {
            Edge::WorkerGone.error(format!(
                "to_host(): the worker of {} is gone: {}",
                resident.buffer,
                resident.buffer.owner()
            ))
        })?;
        let keywords = PyDict::new(py);
        keywords.set_item(pyo3::intern!(py, "dtype"), self.dtype(py)?)?;
        let host = py.import("torch")?.call_method(pyo3::intern!(py, "empty"), (self.shape(py)?,), Some(&keywords))?;
        let device = resident.buffer.addr();
        let copy = Copy { method: "to_host", name: "", device, tensor: Some(self), bytes: self.bytes() };
        shared.download(py, &copy, &HostEnd::read(&host, "host")?)?;
        Ok(host)
    }

    pub(super) fn __repr__(&self) -> String {
        let Self { addr, shape, dtype, .. } = self;
        format!("DeviceTensor(data_ptr={addr:#x}, shape={shape}, dtype=torch.{})", dtype.torch_name())
    }

    fn __eq__(&self, other: &Self) -> bool {
        (self.addr, self.shape, self.dtype) == (other.addr, other.shape, other.dtype)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.addr, self.shape, self.dtype).hash(&mut hasher);
        hasher.finish()
    }

    /// Makes `dataclasses.replace` and its relatives work: they read the fields of a dataclass from here.
    #[classattr]
    fn __dataclass_fields__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        let dataclasses = py.import("dataclasses")?;
        let hidden = PyDict::new(py);
        for (key, value) in [("kw_only", true), ("repr", false), ("hash", false), ("compare", false)] {
            hidden.set_item(key, value)?;
        }
        hidden.set_item("default", py.None())?;
        let buffer = dataclasses.call_method("field", (), Some(&hidden))?;
        let fields =
            (("data_ptr", "int"), ("shape", "tuple[int, ...]"), ("dtype", "torch.dtype"), ("buffer", "object", buffer));
        let model = dataclasses.call_method1("make_dataclass", ("DeviceTensor", fields))?;
        Ok(model.getattr("__dataclass_fields__")?.unbind())
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("data_ptr", "shape", "dtype")
    }
}

/// A `DeviceTensor`, or an error that names what was given.
pub(super) fn expect<'a, 'py>(object: &'a Bound<'py, PyAny>, caller: &str) -> PyResult<&'a DeviceTensor> {
    match object.cast::<DeviceTensor>() {
        Ok(tensor) => Ok(tensor.get()),
        Err(_) => {
            Err(Edge::NotADeviceTensor.error(format!("{caller} expects a DeviceTensor, got {}", type_name(object))))
        }
    }
}

/// Refuses a bare pointer where an allocation of a worker is needed.
#[cold]
pub(super) fn not_resident(tensor: &DeviceTensor, py: Python<'_>) -> String {
    if tensor.object.get(py).is_some() {
        return format!(
            "{} is not a live allocation owned by this ChipWorker: its buffer was made elsewhere. Allocate it with \
             this ChipWorker.alloc_tensor()",
            tensor.__repr__()
        );
    }
    format!(
        "raw pointer {} cannot be dispatched by ChipWorker; use the same ChipWorker.alloc_tensor()",
        tensor.__repr__()
    )
}

/// An error for a view that is larger than the allocation behind it.
pub(super) fn check_view(tensor: &DeviceTensor) -> PyResult<()> {
    match tensor.resident() {
        Some(resident) if tensor.bytes() > resident.buffer.bytes() => Err(Edge::ViewTooLarge.error(format!(
            "{} has {} bytes, more than the {} bytes of its allocation",
            tensor.__repr__(),
            tensor.bytes(),
            resident.buffer.bytes()
        ))),
        _ => Ok(()),
    }
}
