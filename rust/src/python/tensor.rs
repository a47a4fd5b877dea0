//! `DeviceTensor`: a typed view of device memory.

use super::absent;
use super::buffer::{self, Buffer};
use super::codes::Edge;
use super::dtypes;
use super::numbers::{self, ShapeRule, type_name};
use super::shared::Shared;
use super::transfer::{Copy, HostEnd};
use super::views;
use crate::arena::{self, BufferState};
use crate::dtype::DType;
use crate::id::DeviceAddr;
use crate::shape::Shape;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// How the constructor words its complaints about shapes.
const RULE: ShapeRule = ShapeRule { of: "DeviceTensor", positive: "must be all positive" };

/// A typed view of device memory.
///
/// `data_ptr` is its device address, `shape` its extents, outermost first, `dtype` the type of an element, and `buffer` the
/// allocation at that address. It is a value: pointer, shape and dtype decide equality. What a launch checks is the buffer.
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
    /// Distance of the view from the first byte.
    pub(super) offset: u64,
    /// Whether it is a part or another shape of a tensor, which frees it.
    pub(super) is_view: bool,
}

impl Resident {
    /// All of an allocation.
    pub(super) fn whole(buffer: Arc<arena::Buffer>, shared: Weak<Shared>) -> Self {
        Self { buffer, shared, offset: 0, is_view: false }
    }

    /// Device address of its first byte.
    pub(super) fn addr(&self) -> u64 {
        self.buffer.addr().0 + self.offset
    }

    /// Bytes from there to the end of the allocation.
    pub(super) fn room(&self) -> u64 {
        self.buffer.bytes() - self.offset
    }

    fn shared(&self, caller: &str) -> PyResult<Arc<Shared>> {
        self.shared.upgrade().ok_or_else(|| {
            let Self { buffer, .. } = self;
            Edge::WorkerGone.error(format!("{caller}: the worker of {buffer} is gone: {}", buffer.owner()))
        })
    }
}

impl DeviceTensor {
    /// A view of an allocation from the first byte of `resident` on.
    pub(super) fn of(resident: Resident, shape: Shape, dtype: DType) -> Self {
        Self { addr: resident.addr(), shape, dtype, resident: Some(resident), object: PyOnceLock::new() }
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

    /// The allocation of a tensor that has one.
    fn allocated(&self, caller: &str) -> PyResult<&Resident> {
        self.resident.as_ref().ok_or_else(|| {
            let is_foreign = Python::attach(|py| self.object.get(py).is_some());
            Edge::RawTensorType.error(match is_foreign {
                false => format!(
                    "{caller} needs a tensor that alloc_tensor() made; this one was made from a bare pointer"
                ),
                true => format!(
                    "{caller} needs memory of a device of this package, and that of {} is somebody else's. Copy it with its \
                     worker: copy_from(host.data_ptr(), t.data_ptr, t.nbytes)",
                    self.__repr__()
                ),
            })
        })
    }

    /// A view of a part, from `offset` bytes behind the first one on.
    fn part(&self, caller: &str, offset: u64, shape: Shape) -> PyResult<Self> {
        let resident = self.allocated(caller)?;
        let resident = Resident { offset: resident.offset + offset, is_view: true, ..resident.clone() };
        let part = Self::of(resident, shape, self.dtype);
        check_view(&part)?;
        Ok(part)
    }

    /// A copy of all of it.
    fn copy_all(&self, method: &'static str) -> Copy<'_> {
        Copy { method, name: "", device: DeviceAddr(self.addr), tensor: Some(self), bytes: self.bytes() }
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

    #[getter]
    fn is_live(&self) -> bool {
        self.resident.as_ref().is_some_and(|resident| resident.buffer.state() == BufferState::Live)
    }

    /// A torch tensor on the host with a copy of the elements.
    fn to_host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shared = self.allocated("to_host()")?.shared("to_host()")?;
        let keywords = PyDict::new(py);
        keywords.set_item(pyo3::intern!(py, "dtype"), self.dtype(py)?)?;
        let host = py.import("torch")?.call_method(pyo3::intern!(py, "empty"), (self.shape(py)?,), Some(&keywords))?;
        shared.download(py, &self.copy_all("to_host"), &HostEnd::read(&host, "host")?)?;
        Ok(host)
    }

    /// Copies `host`, an array of this shape and dtype, into the device memory. Returns the tensor.
    fn copy_<'py>(slf: Bound<'py, Self>, host: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let tensor = slf.get();
        let shared = tensor.allocated("copy_()")?.shared("copy_()")?;
        let host = shared.measured(slf.py(), ("copy_", ""), (slf.as_any(), host), || {
            let host = HostEnd::array(host, "host")?;
            host.require_extent("copy_", &tensor.shape, tensor.dtype)?;
            Ok(host)
        })?;
        shared.upload(slf.py(), &tensor.copy_all("copy_"), &host)?;
        Ok(slf)
    }

    /// A numpy array with a copy of the elements. BF16, which numpy has not, is a `TypeError`.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if matches!(self.dtype, DType::BF16 | DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 | DType::F4x2) {
            return Err(Edge::UnsupportedArrayDtype.error(format!(
                "numpy has no {}: use to_host(), or to_host().float().numpy() for float32",
                self.dtype.torch_name()
            )));
        }
        self.to_host(py)?.call_method0(pyo3::intern!(py, "numpy"))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        views::require_copy(copy, "__array__")?;
        let array = self.numpy(py)?;
        dtype.map_or(Ok(array.clone()), |dtype| array.call_method1(pyo3::intern!(py, "astype"), (dtype,)))
    }

    /// What numpy calls instead of an elementwise function: `np.add(x, t)`, `x + t`.
    #[pyo3(signature = (ufunc, _method, *_inputs, **_options))]
    fn __array_ufunc__(
        &self,
        ufunc: &Bound<'_, PyAny>,
        _method: &Bound<'_, PyAny>,
        _inputs: &Bound<'_, PyTuple>,
        _options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        Err(absent::numpy_function(ufunc))
    }

    /// What numpy calls instead of its other functions: `np.concatenate([x, t])`. `np.asarray(t)` is none of them.
    fn __array_function__(
        &self,
        func: &Bound<'_, PyAny>,
        _types: &Bound<'_, PyAny>,
        _args: &Bound<'_, PyAny>,
        _kwargs: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Err(absent::numpy_function(func))
    }

    /// Called for names that are not found.
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        Err(absent::attribute(py, name))
    }

    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<(i64, i64)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        views::require_copy(copy, "__dlpack__")?;
        views::require_cpu(stream.as_ref(), dl_device)?;
        let keywords = PyDict::new(py);
        if let Some(version) = max_version {
            keywords.set_item(pyo3::intern!(py, "max_version"), version)?;
        }
        self.to_host(py)?.call_method(pyo3::intern!(py, "__dlpack__"), (), Some(&keywords))
    }

    fn __dlpack_device__(&self) -> (i64, i64) {
        views::CPU
    }

    fn __len__(&self) -> usize {
        self.shape[0] as usize
    }

    /// Without it Python would compare `value` with each row, and no row equals anything but a row.
    fn __contains__(&self, _value: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(Edge::NotSearched.error(
            "`in` got a DeviceTensor, whose elements are on the device: `value in t.to_host()` searches a copy on the host",
        ))
    }

    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let part = views::part(&self.shape, index)?;
        self.part("indexing", part.first * self.dtype.size() as u64, part.shape)
    }

    /// The same memory with the extents `*shape`, as many elements as before; one of them may be -1.
    #[pyo3(signature = (*shape))]
    fn view(&self, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        self.part("view()", 0, views::reshaped(&self.shape, shape)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let resident = slf.get().allocated("with")?;
        if resident.is_view {
            return Err(not_its_own("with", resident));
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, PyTuple>) -> PyResult<()> {
        // Where the worker is gone, so is the memory.
        if let Some(resident) = &self.resident
            && let Some(shared) = resident.shared.upgrade()
        {
            shared.enter(py, "free_tensor")?.free(&resident.buffer)?;
        }
        Ok(())
    }

    pub(super) fn __repr__(&self) -> String {
        let Self { addr, shape, dtype, resident, .. } = self;
        let place = resident.as_ref().map_or_else(String::new, |Resident { buffer, .. }| {
            let freed = if buffer.state() == BufferState::Freed { ", freed" } else { "" };
            format!(", {}{freed}", buffer.owner())
        });
        format!("DeviceTensor(data_ptr={addr:#x}, shape={shape}, dtype=torch.{}{place})", dtype.torch_name())
    }

    /// The error of a frozen dataclass, which is an `AttributeError`.
    fn __setattr__(&self, name: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(frozen(name, "assign to"))
    }

    fn __delattr__(&self, name: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(frozen(name, "delete"))
    }

    /// A copy of the view, not of the memory: `to_host()` copies that.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    /// Only a bare pointer means something elsewhere.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        if this.resident.is_some() || this.object.get(py).is_some() {
            return Err(Edge::TensorPickled.error(format!(
                "cannot pickle {}: its memory belongs to a worker of this process. Pickle to_host(), a copy",
                this.__repr__()
            )));
        }
        let fields = (this.addr, this.shape(py)?, this.dtype(py)?);
        Ok((slf.as_any().get_type().into_any(), fields.into_pyobject(py)?))
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
        Ok(model(py)?.getattr("__dataclass_fields__")?.unbind())
    }

    /// Says that it is frozen.
    #[classattr]
    fn __dataclass_params__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(model(py)?.getattr("__dataclass_params__")?.unbind())
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("data_ptr", "shape", "dtype")
    }
}

/// A dataclass of Python with the same fields.
fn model(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let dataclasses = py.import("dataclasses")?;
    let hidden = PyDict::new(py);
    for (key, value) in [("kw_only", true), ("repr", false), ("hash", false), ("compare", false)] {
        hidden.set_item(key, value)?;
    }
    hidden.set_item("default", py.None())?;
    let buffer = dataclasses.call_method("field", (), Some(&hidden))?;
    let fields =
        (("data_ptr", "int"), ("shape", "tuple[int, ...]"), ("dtype", "torch.dtype"), ("buffer", "object", buffer));
    let options = PyDict::new(py);
    options.set_item("frozen", true)?;
    dataclasses.call_method("make_dataclass", ("DeviceTensor", fields), Some(&options))
}

#[cold]
fn frozen(name: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = name.py().import("dataclasses")?.getattr("FrozenInstanceError")?;
        Ok(PyErr::from_value(class.call1((format!("cannot {what} field {}", name.repr()?),))?))
    };
    make().unwrap_or_else(|error| error)
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

/// An error for a view that is used as if it owned its memory.
#[cold]
pub(super) fn not_its_own(caller: &str, resident: &Resident) -> PyErr {
    Edge::ViewOwnsNothing.error(format!(
        "{caller}: this tensor is a view and owns no memory. Free the tensor that it views: {}",
        resident.buffer
    ))
}

/// An error for a view that is larger than the allocation behind it.
pub(super) fn check_view(tensor: &DeviceTensor) -> PyResult<()> {
    match tensor.resident() {
        Some(resident) if tensor.bytes() > resident.room() => Err(Edge::ViewTooLarge.error(format!(
            "{} has {} bytes, more than the {} bytes of its allocation",
            tensor.__repr__(),
            tensor.bytes(),
            resident.room()
        ))),
        _ => Ok(()),
    }
}
