//! The part of the DLPack ABI (version 1) that reads arrays of other libraries.
//!
//! There are two ways in. A type that has `__dlpack_c_exchange_api__` (torch 2.9 and later) fills a [`DlTensor`] without
//! creating a Python object: 47 ns for a torch tensor, where `t.__dlpack__()` takes 2,100 ns and reading pointer, shape,
//! dtype, strides and device as attributes over 400 ns. Everything else that speaks DLPack hands over a capsule.
//!
//! The structures follow `dlpack.h`; owning these forty lines keeps this crate free of a second binding crate that would have to
//! be upgraded in step with PyO3.
#![allow(unsafe_code)] // reads structures behind pointers that foreign libraries hand over

use crate::dtype::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

/// The major version whose structures this module describes.
const MAJOR: u32 = 1;

/// `kDLCPU`, `kDLCUDAHost`, `kDLROCMHost`: memory that the CPU can read in place.
const HOST_DEVICES: [i32; 3] = [1, 3, 11];

/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;

/// `DLVersion`.
#[repr(C)]
struct DlVersion {
    major: u32,
    minor: u32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`: a strided array. Strides count elements; a null pointer stands for row-major.
#[repr(C)]
pub(super) struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DlDataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensor`, the form before version 1.0.
#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    manager: *mut c_void,
    deleter: *mut c_void,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct DlManagedTensorVersioned {
    version: DlVersion,
    manager: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: DlTensor,
}

/// `DLPackExchangeAPI`, its header spelled out. Functions that are not called here are opaque.
#[repr(C)]
pub(super) struct ExchangeApi {
    version: DlVersion,
    previous: *const ExchangeApi,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    tensor_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    current_work_stream: *const c_void,
}

impl DlDataType {
    /// The element type, where the device knows it.
    pub(super) fn dtype(self) -> Option<DType> {
        if self.lanes != 1 {
            return ((self.code, self.bits, self.lanes) == (17, 4, 2)).then_some(DType::F4x2);
        }
        Some(match (self.code, self.bits) {
            (0, 8) => DType::I8,
            (0, 16) => DType::I16,
            (0, 32) => DType::I32,
            (0, 64) => DType::I64,
            (1, 8) => DType::U8,
            (1, 16) => DType::U16,
            (1, 32) => DType::U32,
            (1, 64) => DType::U64,
            (2, 16) => DType::F16,
            (2, 32) => DType::F32,
            (2, 64) => DType::F64,
            (4, 16) => DType::BF16,
            (5, 64) => DType::C64,
            (5, 128) => DType::C128,
            (6, 8) => DType::Bool,
            (10, 8) => DType::F8E4M3,
            (12, 8) => DType::F8E5M2,
            (14, 8) => DType::F8E8M0,
            _ => return None,
        })
    }
}

impl DlTensor {
    /// Whether the CPU can read the memory in place.
    pub(super) fn on_host(&self) -> bool {
        HOST_DEVICES.contains(&self.device_type)
    }

    /// The element type as the producer encodes it.
    pub(super) fn data_type(&self) -> DlDataType {
        self.dtype
    }

    /// The first element.
    pub(super) fn data(&self) -> *mut u8 {
        self.data.cast::<u8>().wrapping_add(self.byte_offset as usize)
    }

    /// Extents, outermost first.
    pub(super) fn shape(&self) -> &[i64] {
        if self.ndim <= 0 {
            return &[];
        }
        // SAFETY: the producer filled the structure: `shape` has `ndim` entries, alive as long as the structure is used.
        unsafe { std::slice::from_raw_parts(self.shape, self.ndim as usize) }
    }

    /// Strides in elements; `None` for a row-major array.
    pub(super) fn strides(&self) -> Option<&[i64]> {
        if self.ndim <= 0 || self.strides.is_null() {
            return None;
        }
        // SAFETY: as for `shape`: a producer that sets `strides` gives `ndim` entries.
        Some(unsafe { std::slice::from_raw_parts(self.strides, self.ndim as usize) })
    }
}

// SAFETY: a table of functions with static lifetime that nobody writes.
unsafe impl Sync for ExchangeApi {}

impl ExchangeApi {
    /// The exchange API of a type, where it has one of the version that this module reads.
    pub(super) fn of_type(ty: &Bound<'_, PyAny>) -> Option<&'static ExchangeApi> {
        const NAME: &CStr = c"dlpack_exchange_api";
        let capsule = ty.getattr("__dlpack_c_exchange_api__").ok()?;
        let mut api: *const ExchangeApi =
            capsule.cast::<PyCapsule>().ok()?.pointer_checked(Some(NAME)).ok()?.as_ptr().cast_const().cast();
        while !api.is_null() {
            // SAFETY: the protocol: the capsule points to a structure of static lifetime, which starts with version and
            // predecessor in every version.
            let (major, previous) = unsafe { ((*api).version.major, (*api).previous) };
            if major == MAJOR {
                // SAFETY: the version says that the rest of the structure is as declared here.
                let api = unsafe { &*api };
                return api.tensor_from_object.is_some().then_some(api);
            }
            api = previous;
        }
        None
    }

    /// Describes `object`, whose type (or a base of it) this API was found on. What the description points to lives as
    /// long as `object` is alive and unchanged.
    pub(super) fn describe(&self, object: &Bound<'_, PyAny>) -> PyResult<DlTensor> {
        let Some(read) = self.tensor_from_object else {
            return Err(PyBufferError::new_err("the DLPack exchange API has no dltensor_from_py_object_no_sync"));
        };
        let mut tensor = std::mem::MaybeUninit::<DlTensor>::uninit();
        // SAFETY: the function fills the structure and returns 0, or returns another value with an exception set.
        let status = unsafe { read(object.as_ptr().cast(), tensor.as_mut_ptr()) };
        if status != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: status 0 says that it is filled.
        Ok(unsafe { tensor.assume_init() })
    }
}

/// An array handed over in a capsule. Dropping the capsule unconsumed releases the array.
pub(super) struct CapsuleTensor<'py> {
    capsule: Bound<'py, PyAny>,
    tensor: NonNull<DlTensor>,
    read_only: bool,
}

impl<'py> CapsuleTensor<'py> {
    /// Calls `object.__dlpack__()`, asking for the versioned form first: only that can say "read-only".
    pub(super) fn request(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let method = object.getattr(pyo3::intern!(py, "__dlpack__"))?;
        let keywords = PyDict::new(py);
        keywords.set_item(pyo3::intern!(py, "max_version"), (MAJOR, 0))?;
        let capsule = match method.call((), Some(&keywords)) {
            // Producers from before version 1.0 do not know the keyword.
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => method.call0()?,
            other => other?,
        };
        Self::open(capsule)
    }

    fn open(capsule: Bound<'py, PyAny>) -> PyResult<Self> {
        let handle =
            capsule.cast::<PyCapsule>().map_err(|_| PyBufferError::new_err("__dlpack__() did not return a capsule"))?;
        if handle.is_valid_checked(Some(c"dltensor_versioned")) {
            let managed: NonNull<DlManagedTensorVersioned> =
                handle.pointer_checked(Some(c"dltensor_versioned"))?.cast();
            // SAFETY: a capsule of this name points to this structure; the version stands first in every version.
            let major = unsafe { managed.as_ref() }.version.major;
            if major != MAJOR {
                return Err(PyBufferError::new_err(format!(
                    "the array speaks DLPack {major}; this build reads {MAJOR}"
                )));
            }
            // SAFETY: as above, and the version is the one declared here.
            let managed = unsafe { managed.as_ref() };
            let (tensor, read_only) = (NonNull::from(&managed.tensor), managed.flags & READ_ONLY != 0);
            Ok(Self { capsule, tensor, read_only })
        } else {
            let managed: NonNull<DlManagedTensor> = handle.pointer_checked(Some(c"dltensor"))?.cast();
            // SAFETY: a capsule of this name points to this structure.
            let tensor = NonNull::from(unsafe { &managed.as_ref().tensor });
            Ok(Self { capsule, tensor, read_only: false })
        }
    }

    /// The description; valid while this object lives.
    pub(super) fn tensor(&self) -> &DlTensor {
        // SAFETY: the capsule, which this object holds, owns the structure.
        unsafe { self.tensor.as_ref() }
    }

    /// Whether the producer forbids writing.
    pub(super) fn read_only(&self) -> bool {
        self.read_only
    }

    /// The capsule, which keeps the array alive.
    pub(super) fn into_capsule(self) -> Bound<'py, PyAny> {
        self.capsule
    }
}

/// An array handed over by the buffer protocol, which is how numpy arrays are read: 128 ns, and it says "read-only".
pub(super) struct BufferTensor(Box<ffi::Py_buffer>);

// SAFETY: the buffer is only read, and released by `Drop`, which attaches to the interpreter.
unsafe impl Send for BufferTensor {}

impl BufferTensor {
    /// Asks `object` for its buffer, strides and format included.
    pub(super) fn request(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: an attached thread, a live object, and a structure that stays in place (boxed) until it is released.
        let status =
            unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *view, ffi::PyBUF_STRIDES | ffi::PyBUF_FORMAT) };
        if status != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Self(view))
    }

    /// First element.
    pub(super) fn data(&self) -> *mut u8 {
        self.0.buf.cast()
    }

    /// Whether writing is forbidden.
    pub(super) fn read_only(&self) -> bool {
        self.0.readonly != 0
    }

    /// Extents, outermost first.
    pub(super) fn shape(&self) -> &[isize] {
        // SAFETY: PyBUF_STRIDES promises `ndim` entries.
        unsafe { slice_or_empty(self.0.shape, self.0.ndim) }
    }

    /// Strides in bytes.
    pub(super) fn strides(&self) -> &[isize] {
        // SAFETY: as for `shape`.
        unsafe { slice_or_empty(self.0.strides, self.0.ndim) }
    }

    /// The element format in the syntax of `struct`.
    pub(super) fn format(&self) -> &str {
        if self.0.format.is_null() {
            return "B";
        }
        // SAFETY: a NUL-terminated string owned by the view.
        unsafe { CStr::from_ptr(self.0.format) }.to_str().unwrap_or("?")
    }

    /// The element type, where the device knows it.
    pub(super) fn dtype(&self) -> Option<DType> {
        let format = self.format();
        let native = if cfg!(target_endian = "little") { '<' } else { '>' };
        let code = format.strip_prefix(['@', '=', native]).unwrap_or(format);
        let signed = |bytes| match bytes {
            1 => Some(DType::I8),
            2 => Some(DType::I16),
            4 => Some(DType::I32),
            8 => Some(DType::I64),
            _ => None,
        };
        let unsigned = |bytes| match bytes {
            1 => Some(DType::U8),
            2 => Some(DType::U16),
            4 => Some(DType::U32),
            8 => Some(DType::U64),
            _ => None,
        };
        match code {
            "e" => Some(DType::F16),
            "f" => Some(DType::F32),
            "d" => Some(DType::F64),
            "?" => Some(DType::Bool),
            "b" | "h" | "i" | "l" | "q" => signed(self.0.itemsize),
            "B" | "H" | "I" | "L" | "Q" => unsigned(self.0.itemsize),
            _ => None,
        }
    }
}

impl Drop for BufferTensor {
    fn drop(&mut self) {
        // SAFETY: attached, and the view was filled by `request`.
        Python::attach(|_| unsafe { ffi::PyBuffer_Release(&mut *self.0) });
    }
}

/// # Safety
/// `data` has `len` entries, or `len` is not positive.
unsafe fn slice_or_empty<'a>(data: *const isize, len: c_int) -> &'a [isize] {
    if len <= 0 || data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, len as usize) }
}
