//! Host arrays as the runtime sees them: pointer, shape, element type, and whether they may be written.
//!
//! Every array is checked here for what the device cannot work with (another device's memory, gaps between elements, an
//! element type without a counterpart); whether it fits a parameter is the worker's business.

use super::codes::Edge;
use super::dlpack::{BufferTensor, CapsuleTensor, DlTensor, ExchangeApi};
use super::keep::Keep;
use crate::dtype::{DType, DTypeKind};
use crate::shape::{MAX_RANK, Shape};
use pyo3::exceptions::{PyAttributeError, PyException};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::fmt;

/// Arguments from this size on are asked what costs time; see [`HostArray::is_questioned`].
const QUESTIONED_BYTES: u64 = 64 << 10;

/// What an array is for, in messages.
#[derive(Clone, Copy)]
pub(super) enum Role<'a> {
    /// The argument of a launch at this position, for the parameter of this name.
    Argument(usize, &'a str),
    /// A named argument of a method.
    Named(&'a str),
}

impl fmt::Display for Role<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Argument(position, name) => write!(f, "at position {position} (parameter '{name}')"),
            Role::Named(name) => write!(f, "'{name}'"),
        }
    }
}

impl Role<'_> {
    /// Where the array stands: the beginning of messages that PyPTO's programs look for.
    fn place(&self) -> String {
        match self {
            Role::Argument(position, _) => format!("at position {position}"),
            Role::Named(_) => self.to_string(),
        }
    }

    /// What such a message says besides.
    fn parameter(&self) -> String {
        match self {
            Role::Argument(_, name) => format!(" (parameter '{name}')"),
            Role::Named(_) => String::new(),
        }
    }
}

/// A row-major array in memory that the CPU can read. Valid while the object it was read from is alive and unchanged.
pub(super) struct HostArray {
    pub(super) data: *mut u8,
    pub(super) shape: Shape,
    pub(super) dtype: DType,
    pub(super) writable: bool,
    /// What else must live as long as the pointer is used.
    pub(super) keep: Option<Keep>,
}

/// How objects of one type are read.
#[derive(Clone, Copy)]
enum Protocol {
    Exchange(&'static ExchangeApi),
    Buffer,
    Capsule,
    Masked,
    None,
}

impl Protocol {
    /// How objects of `ty` are read. The first few types of a process are remembered: programs use one or two.
    fn of(ty: &Bound<'_, PyType>) -> Self {
        static SEEN: [PyOnceLock<(Py<PyType>, Protocol)>; 8] = [const { PyOnceLock::new() }; 8];
        let py = ty.py();
        for slot in &SEEN {
            match slot.get(py) {
                Some((seen, protocol)) if seen.is(ty) => return *protocol,
                Some(_) => {}
                None => {
                    let protocol = Self::probe(ty);
                    // Another thread may have filled the slot meanwhile; then this type is probed again next time.
                    let _ = slot.set(py, (ty.clone().unbind(), protocol));
                    return protocol;
                }
            }
        }
        Self::probe(ty)
    }

    fn probe(ty: &Bound<'_, PyType>) -> Self {
        let has = |name: &str| ty.hasattr(name).unwrap_or(false);
        if let Some(api) = ExchangeApi::of_type(ty) {
            Protocol::Exchange(api)
        } else if has("__array_interface__") {
            // The mask lies beside the elements, where no buffer shows it.
            if has("mask") && has("filled") { Protocol::Masked } else { Protocol::Buffer }
        } else if has("__dlpack__") {
            Protocol::Capsule
        } else {
            Protocol::None
        }
    }
}

impl HostArray {
    /// Whether objects of this type are arrays at all.
    pub(super) fn is_array(object: &Bound<'_, PyAny>) -> bool {
        !matches!(Protocol::of(&object.get_type()), Protocol::None)
    }

    /// Reads `object`: a torch tensor, a numpy array, or anything else that speaks DLPack.
    ///
    /// # Errors
    /// `TypeError` for an object that is no array or has an element type that the device does not know; `ValueError` for
    /// an array that is not on the CPU, not contiguous, or of too many dimensions.
    pub(super) fn read(object: &Bound<'_, PyAny>, role: Role<'_>) -> PyResult<Self> {
        match Protocol::of(&object.get_type()) {
            Protocol::Exchange(api) => match api.describe(object) {
                Ok(tensor) => {
                    let array = Self::from_dlpack(&tensor, object, role)?;
                    if array.is_questioned(role) {
                        array.question(object, role)?;
                    }
                    Ok(array)
                }
                Err(error) => Err(unreadable(object, role, error)),
            },
            Protocol::Buffer => match BufferTensor::request(object) {
                Ok(buffer) => Self::from_buffer(buffer, object, role),
                Err(error) => Err(unreadable(object, role, error)),
            },
            Protocol::Capsule => match CapsuleTensor::request(object) {
                Ok(capsule) => {
                    let mut array = Self::from_dlpack(capsule.tensor(), object, role)?;
                    array.writable = !capsule.read_only();
                    array.keep = Some(Keep::Object(capsule.into_capsule().unbind()));
                    Ok(array)
                }
                Err(error) => Err(unreadable(object, role, error)),
            },
            Protocol::Masked => Err(masked(role)),
            Protocol::None => Err(not_an_array(object, role)),
        }
    }

    fn from_dlpack(tensor: &DlTensor, object: &Bound<'_, PyAny>, role: Role<'_>) -> PyResult<Self> {
        if !tensor.on_host() {
            return Err(not_on_cpu(object, role));
        }
        let dtype = tensor.data_type().dtype().ok_or_else(|| unknown_dtype(object, role))?;
        let shape = shape_of(tensor.shape(), role)?;
        if tensor.strides().is_some_and(|strides| !is_row_major(&shape, strides, 1)) {
            return Err(not_contiguous(&shape, role));
        }
        if tensor.data().is_null() && !shape.contains(&0) {
            return Err(without_memory(object, role));
        }
        Ok(Self { data: tensor.data(), shape, dtype, writable: true, keep: None })
    }

    fn from_buffer(buffer: BufferTensor, object: &Bound<'_, PyAny>, role: Role<'_>) -> PyResult<Self> {
        let dtype = buffer.dtype().ok_or_else(|| unknown_dtype(object, role))?;
        let shape = shape_of(buffer.shape(), role)?;
        if !is_row_major(&shape, buffer.strides(), dtype.size() as i64) {
            return Err(not_contiguous(&shape, role));
        }
        let (data, writable) = (buffer.data(), !buffer.read_only());
        Ok(Self { data, shape, dtype, writable, keep: Some(Keep::Buffer(buffer)) })
    }

    /// Whether to ask torch what the description of a tensor for other libraries does not tell. The questions cost 0.2 us,
    /// a fifth of a small launch and 3 % of one that copies 64 KiB, so small arguments are asked only where torch itself
    /// makes what must be refused: the imaginary part of a conjugate is negated, and contiguous where it has one element.
    /// A small argument that was negated by `torch._neg_view`, or whose storage was shrunk by `resize_`, is not noticed.
    /// Copies are asked always.
    fn is_questioned(&self, role: Role<'_>) -> bool {
        !matches!(role, Role::Argument(..))
            || self.shape.iter().all(|&extent| extent == 1)
            || self.bytes() >= QUESTIONED_BYTES
    }

    /// Refuses a torch tensor whose elements are not what, or not all of what, lies at its address.
    fn question(&self, object: &Bound<'_, PyAny>, role: Role<'_>) -> PyResult<()> {
        let answers = || -> PyResult<(bool, u64)> {
            let py = object.py();
            let is = |method| object.call_method0(method)?.is_truthy();
            // A view of a complex tensor may be conjugated, and the parts of such a one negated.
            let negated = (self.dtype.is_float() && is("is_neg")?)
                || (self.dtype.kind() == DTypeKind::Stored && (is("is_neg")? || is("is_conj")?));
            let first: u64 = object.call_method0(intern!(py, "storage_offset"))?.extract()?;
            let storage = object.call_method0(intern!(py, "untyped_storage"))?;
            let stored: u64 = storage.call_method0(intern!(py, "nbytes"))?.extract()?;
            Ok((negated, stored.saturating_sub(first * self.dtype.size() as u64)))
        };
        match answers() {
            Ok((true, _)) => Err(negated(role)),
            Ok((false, stored)) if stored < self.bytes() => Err(cut_short(stored, self.bytes(), role)),
            Ok(_) => Ok(()),
            // Another producer of the same protocol, which knows no such views.
            Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Bytes of all elements.
    pub(super) fn bytes(&self) -> u64 {
        // An array that exists in memory has a size that fits.
        self.shape.elements().unwrap_or(0) * self.dtype.size() as u64
    }
}

fn shape_of<T: Copy + TryInto<u64>>(dims: &[T], role: Role<'_>) -> PyResult<Shape> {
    let mut all = [0u64; MAX_RANK];
    if dims.len() > MAX_RANK {
        return Err(Edge::TooManyAxes
            .error(format!("Tensor {role} has {} dimensions; at most {MAX_RANK} are supported", dims.len())));
    }
    for (to, &from) in all.iter_mut().zip(dims) {
        *to = from.try_into().map_err(|_| Edge::BadExtent.error(format!("Tensor {role} has a negative extent")))?;
    }
    Ok(Shape::new(&all[..dims.len()]).expect("the rank was checked"))
}

/// Whether elements follow each other without gaps. The stride of an axis with one element says nothing, and neither
/// does any stride of an array without elements: torch gives such axes arbitrary strides.
fn is_row_major<T: Copy + TryInto<i64>>(shape: &Shape, strides: &[T], unit: i64) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut expected = unit;
    for (&extent, &stride) in shape.iter().zip(strides).rev() {
        if extent != 1 && stride.try_into().ok() != Some(expected) {
            return false;
        }
        expected = expected.wrapping_mul(extent as i64);
    }
    true
}

#[cold]
fn not_an_array(object: &Bound<'_, PyAny>, role: Role<'_>) -> PyErr {
    let got = object.get_type().fully_qualified_name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let expected = match role {
        Role::Argument(..) => "a torch.Tensor or a DeviceTensor",
        Role::Named(_) => "a torch.Tensor",
    };
    Edge::NotAnArray.error(format!(
        "Argument {} must be {expected}{} (a numpy array or another DLPack array works too), got {got}",
        role.place(),
        role.parameter()
    ))
}

#[cold]
fn masked(role: Role<'_>) -> PyErr {
    Edge::MaskedArray.error(format!(
        "Array {role} is masked, and the device knows no masks. Pass .filled(value), or .data for what lies under the mask"
    ))
}

#[cold]
fn not_contiguous(shape: &Shape, role: Role<'_>) -> PyErr {
    Edge::NotContiguous.error(format!(
        "Tensor {} is not contiguous{}: its shape is {shape}, but its elements are not in row-major order. \
         Call .contiguous() on it first",
        role.place(),
        role.parameter()
    ))
}

#[cold]
fn negated(role: Role<'_>) -> PyErr {
    Edge::NegatedView.error(format!(
        "Tensor {role} is a view whose elements are stored with the opposite sign. Call .resolve_neg() on it first (a complex one: \
         .resolve_conj() too)"
    ))
}

#[cold]
fn cut_short(stored: u64, bytes: u64, role: Role<'_>) -> PyErr {
    Edge::StorageResized.error(format!(
        "Tensor {role} has {bytes} bytes, but its storage holds only {stored} of them: the storage was resized. Pass a \
         tensor that owns its memory, for example a clone made before"
    ))
}

#[cold]
fn without_memory(object: &Bound<'_, PyAny>, role: Role<'_>) -> PyErr {
    let kind = object.get_type().fully_qualified_name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Edge::NoMemory.error(format!(
        "Tensor {role} has no memory of its own (a {kind}: fake, functional or freed storage); pass a tensor with data"
    ))
}

#[cold]
fn not_on_cpu(object: &Bound<'_, PyAny>, role: Role<'_>) -> PyErr {
    let device = device_of(object).unwrap_or_else(|| "another device".to_owned());
    let (place, parameter) = (role.place(), role.parameter());
    Edge::NotOnCpu.error(format!("Tensor {place} is on {device}, expected CPU{parameter}. Call .cpu() on it first"))
}

#[cold]
fn unknown_dtype(object: &Bound<'_, PyAny>, role: Role<'_>) -> PyErr {
    let dtype = object.getattr("dtype").map_or_else(|_| "?".to_owned(), |dtype| dtype.to_string());
    let method = if object.hasattr("astype").unwrap_or(false) { "astype" } else { "to" };
    Edge::UnsupportedArrayDtype
        .error(format!("Tensor {role} has unsupported dtype {dtype}; convert it with .{method}(...) first"))
}

/// The producer refused. Memory elsewhere is the usual reason (torch cannot describe a `meta` tensor), and it has its own text.
#[cold]
fn unreadable(object: &Bound<'_, PyAny>, role: Role<'_>, error: PyErr) -> PyErr {
    if device_of(object).is_some_and(|device| device != "cpu") {
        return not_on_cpu(object, role);
    }
    let py = object.py();
    // What ends the program, such as Ctrl-C, is no fault of the tensor.
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    if let Some(how) = not_dense(object) {
        return Edge::NotDense.error(format!("Tensor {role} has no plain elements in memory: {how} on it first"));
    }
    let text = error.value(py).to_string();
    // What torch says in C++ ends with its stack.
    let said = text.split("\nException raised from").next().unwrap_or_default();
    let text = format!("Tensor {role} cannot be read: {said}");
    let wrapped = Edge::UnreadableArray.error(text);
    wrapped.set_cause(py, Some(error));
    wrapped
}

/// What turns a tensor of torch that stores something else than its elements into one that has them.
fn not_dense(object: &Bound<'_, PyAny>) -> Option<String> {
    let is = |name: &str| object.getattr(name).and_then(|answer| answer.is_truthy()).unwrap_or(false);
    if is("is_quantized") {
        return Some("it is quantized. Call .dequantize()".into());
    }
    let layout = object.getattr("layout").ok()?.to_string();
    (layout != "torch.strided").then(|| format!("its layout is {layout}. Call .to_dense()"))
}

fn device_of(object: &Bound<'_, PyAny>) -> Option<String> {
    Some(object.getattr("device").ok()?.to_string())
}
