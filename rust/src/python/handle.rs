//! `RegistrationHandle`: calling it is a launch. This is the path that must cost nothing.
//!
//! A launch creates no Python object (not even the tuple of its arguments, see [`super::vectorcall`]), looks up no
//! dictionary, and reads arguments where they lie: device tensors by their Rust type, torch tensors through the DLPack
//! exchange API, everything else by the slower protocols of [`super::host`].
#![allow(unsafe_code)] // vouches to the core for host addresses whose objects the argument tuple keeps alive

use super::bound::BoundLaunch;
use super::codes::Edge;
use super::host::{HostArray, Role};
use super::keep::Keep;
use super::scalar;
use super::settings;
use super::shared::Shared;
use super::tensor::{self, DeviceTensor};
use super::vectorcall::{self, Callable, Vectorcall};
use super::{dtypes, submit, way};
use crate::program::{Dim, Param, ParamKind};
use crate::worker::{HostTensor, NO_VERSION, Registration, Value};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyTypeInfo, PyVisit};
use std::collections::HashMap;
use std::mem::{self, MaybeUninit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

/// Several Python objects.
type Objects<'py> = Vec<Bound<'py, PyAny>>;

/// Arguments up to this number need no memory of their own.
const INLINE_ARGS: usize = 8;

/// A registered program. Calling it launches the program.
#[pyclass(frozen, weakref, module = "pypto.runtime")]
pub(super) struct RegistrationHandle {
    shared: Arc<Shared>,
    registration: Arc<Registration>,
    /// The `ChipWorker`, which must not be collected while a handle may launch on it.
    owner: Py<PyAny>,
    compiled: Py<PyAny>,
    /// Which parameters a return-style call leaves out.
    outputs: Box<[usize]>,
    has_return: bool,
    unregistered: AtomicBool,
    /// Room for the arguments of a launch that has many, kept for the next one.
    spare: Mutex<Vec<Value<'static>>>,
    /// Where parameters are, by name, once that was asked of a program with many.
    positions: OnceLock<HashMap<String, usize>>,
    vectorcall: Vectorcall,
}

impl RegistrationHandle {
    pub(super) fn new(
        shared: Arc<Shared>,
        registration: Arc<Registration>,
        owner: Py<PyAny>,
        compiled: Py<PyAny>,
        outputs: Vec<usize>,
        has_return: bool,
    ) -> Self {
        Self {
            shared,
            registration,
            owner,
            compiled,
            outputs: outputs.into_boxed_slice(),
            has_return,
            unregistered: AtomicBool::new(false),
            spare: Mutex::default(),
            positions: OnceLock::new(),
            vectorcall: vectorcall::entry::<Self>(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn registration(&self) -> &Arc<Registration> {
        &self.registration
    }

    pub(super) fn params(&self) -> &[Param] {
        &self.registration.program().params
    }

    fn is_closed(&self) -> bool {
        self.unregistered.load(Ordering::Relaxed) || !self.shared.core().is_open()
    }

    /// Whether a call with so many arguments leaves the outputs out.
    ///
    /// # Errors
    /// `TypeError` where it fits neither form.
    pub(super) fn is_returning(&self, given: usize) -> PyResult<bool> {
        let all = self.params().len();
        let returning = self.has_return && given == all - self.outputs.len();
        if returning || given == all { Ok(returning) } else { Err(self.count_error(given)) }
    }

    /// The index of a parameter.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let params = self.params();
        if params.len() <= INLINE_ARGS {
            return params.iter().position(|param| param.name == name);
        }
        let all = || params.iter().enumerate().map(|(position, param)| (param.name.clone(), position)).collect();
        self.positions.get_or_init(all).get(name).copied()
    }

    /// Which parameters a return-style call leaves out.
    pub(super) fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// Refuses a launch that comes too late, and a `config` that is none.
    pub(super) fn check_call(&self, config: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        config.map_or(Ok(()), check_config)?;
        if self.is_closed() { Err(self.closed_error()) } else { Ok(()) }
    }

    pub(super) fn is_unregistered(&self) -> bool {
        self.unregistered.load(Ordering::Relaxed)
    }

    /// Launches with one argument for each parameter, which the caller has counted.
    fn launch(&self, py: Python<'_>, args: &[Bound<'_, PyAny>]) -> PyResult<()> {
        let count = self.params().len();
        assert_eq!(count, args.len(), "one argument for each parameter");
        if count <= INLINE_ARGS {
            // Left uninitialised: filling in 768 bytes would be a sixth of the instructions of this function.
            let mut slots = [const { MaybeUninit::<Value<'_>>::uninit() }; INLINE_ARGS];
            return self.launch_from(py, args, &mut slots[..count]);
        }
        // A launch from within this one, or from another thread, finds the room empty and makes its own.
        let mut values = empty(mem::take(&mut *self.spare()));
        values.reserve(count);
        let result = self.launch_from(py, args, &mut values.spare_capacity_mut()[..count]);
        *self.spare() = empty(values);
        result
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Value<'static>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the arguments into `slots`, and launches.
    fn launch_from<'a>(
        &self,
        py: Python<'_>,
        args: &'a [Bound<'_, PyAny>],
        slots: &mut [MaybeUninit<Value<'a>>],
    ) -> PyResult<()> {
        // Allocates only for arrays that are not read through the exchange API.
        let mut keep = Vec::new();
        let mut host_bytes = 0u64;
        let class = DeviceTensor::type_object_raw(py);
        for (position, ((slot, param), arg)) in slots.iter_mut().zip(self.params()).zip(args).enumerate() {
            if let ParamKind::Tensor { .. } = param.kind
                && arg.get_type_ptr() == class
                // SAFETY: it has exactly this class.
                && let tensor = unsafe { arg.cast_unchecked::<DeviceTensor>() }.get()
                && let Some(resident) = tensor.resident()
            {
                let (shape, dtype) = (tensor.extents(), tensor.element());
                slot.write(Value::Resident { buffer: &resident.buffer, offset: resident.offset, shape, dtype });
            } else {
                let value = slot.write(self.read_argument(arg, param, position, &mut keep)?);
                if let Value::Host(tensor) = value {
                    host_bytes = host_bytes.saturating_add(tensor.bytes());
                }
            }
        }
        // SAFETY: each slot was written: there are as many arguments as parameters.
        let values = unsafe { slots.assume_init_ref() };
        self.run(py, values, host_bytes)
    }

    /// Reads an argument that is no resident tensor. What the value points to lives as long as the argument and `keep`.
    pub(super) fn read_argument<'a>(
        &self,
        arg: &'a Bound<'_, PyAny>,
        param: &Param,
        position: usize,
        keep: &mut Vec<Keep>,
    ) -> PyResult<Value<'a>> {
        let role = Role::Argument(position, &param.name);
        match param.kind {
            ParamKind::Tensor { .. } => {
                if let Ok(tensor) = arg.cast_exact::<DeviceTensor>() {
                    let why = tensor::not_resident(tensor.get(), arg.py());
                    return Err(Edge::RawTensor.error(format!("At position {position}: {why}")));
                }
                let HostArray { data, shape, dtype, writable, keep: kept } = HostArray::read(arg, role)?;
                keep.extend(kept);
                let version = if self.shared.wants_versions() { version_of(arg) } else { NO_VERSION };
                Ok(Value::Host(HostTensor { data, shape, dtype, writable, version }))
            }
            ParamKind::Scalar { dtype, .. } => scalar::read(arg, dtype, role),
        }
    }

    /// Launches. `host_bytes` are those of the arguments on the host.
    fn run(&self, py: Python<'_>, values: &[Value<'_>], host_bytes: u64) -> PyResult<()> {
        let registration = &*self.registration;
        let launched = way::run(py, &self.shared, registration, host_bytes, |session, poll| {
            // SAFETY: the caller of the handle keeps the arguments alive, and they were read just now.
            unsafe { session.launch(registration, values, poll) }.map_err(Box::new)
        })?;
        launched.map_err(|error| way::launch_error(*error, values))
    }

    /// Whether a launch with these settings writes files about itself.
    #[cold]
    pub(super) fn writes_files(&self, py: Python<'_>, config: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        match config {
            Some(config) if !self.compiled.is_none(py) => settings::wants_files(config),
            _ => Ok(false),
        }
    }

    /// Launches while diagnostics are written. The worker's own launchers, which know no compiled program, come here no
    /// second time.
    #[cold]
    fn launch_with_files<'py>(
        &self,
        py: Python<'py>,
        args: &[Bound<'py, PyAny>],
        config: &Bound<'py, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let compiled = self.compiled.bind(py);
        let launcher = self.owner.bind(py).call_method1("_launcher", (compiled,))?;
        Ok(launcher.call_method1("launch", (compiled, PyTuple::new(py, args)?, config))?.unbind())
    }

    /// Launches with outputs made here: zeros of the declared shapes, on the host.
    fn launch_returning<'py>(&self, py: Python<'py>, args: &[Bound<'py, PyAny>]) -> PyResult<Py<PyAny>> {
        let (all, outputs) = self.with_outputs(py, args)?;
        self.launch(py, &all)?;
        way::result(py, outputs)
    }

    /// The arguments of a call that leaves the outputs out, with outputs made here, and those.
    pub(super) fn with_outputs<'py>(
        &self,
        py: Python<'py>,
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<(Objects<'py>, Objects<'py>)> {
        let params = self.params();
        let mut outputs = Vec::with_capacity(self.outputs.len());
        let mut inputs = args.iter();
        let mut all = Vec::with_capacity(params.len());
        for (index, param) in params.iter().enumerate() {
            if self.outputs.contains(&index) {
                let output = allocate_output(py, param)?;
                outputs.push(output.clone());
                all.push(output);
            } else {
                all.extend(inputs.next().cloned());
            }
        }
        Ok((all, outputs))
    }

    #[cold]
    pub(super) fn closed_error(&self) -> PyErr {
        Edge::HandleClosed.error(format!(
            "RegistrationHandle has been unregistered (or its parent Worker was closed). Re-register {:?} with \
             worker.register(...)",
            self.registration.program().name
        ))
    }

    #[cold]
    fn count_error(&self, got: usize) -> PyErr {
        let names = self.params().iter().map(|param| param.name.as_str()).collect::<Vec<_>>().join(", ");
        let expected = self.params().len();
        let returning =
            if self.has_return { format!(" or {} (return)", expected - self.outputs.len()) } else { String::new() };
        Edge::ArgumentCount.error(format!(
            "{} expects {expected} (in-place){returning} arguments, got {got}. Parameters: [{names}]",
            self.registration.program().name
        ))
    }
}

impl Callable for RegistrationHandle {
    fn vectorcall(&self) -> &Vectorcall {
        &self.vectorcall
    }

    fn once() -> &'static Once {
        static ONCE: Once = Once::new();
        &ONCE
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &[Bound<'py, PyAny>],
        config: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.check_call(config)?;
        if let Some(given) = config
            && self.writes_files(py, config)?
        {
            return self.launch_with_files(py, args, given);
        }
        let _settings = settings::announce(config)?;
        if self.is_returning(args.len())? {
            return self.launch_returning(py, args);
        }
        self.launch(py, args)?;
        Ok(py.None())
    }
}

#[pymethods]
impl RegistrationHandle {
    /// How Python calls it where it does not know of `vectorcall`: `type(handle).__call__(handle, ...)`.
    #[pyo3(signature = (*args, config = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        config: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(py, args.as_slice(), config)
    }

    /// Checks the arguments once, for launches that follow; `*args` as for a call.
    #[pyo3(signature = (*args))]
    fn bind<'py>(slf: &Bound<'py, Self>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, BoundLaunch>> {
        BoundLaunch::make(slf, args.as_slice())
    }

    /// Puts a launch into the queue of the worker; `*args` and `config` as for a call. Returns its future.
    #[pyo3(signature = (*args, config = None))]
    fn submit<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        config: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        submit::checked(slf, args.as_slice(), config)
    }

    #[getter]
    fn cid(&self) -> u64 {
        self.registration.cid()
    }

    #[getter]
    fn compiled(&self, py: Python<'_>) -> Py<PyAny> {
        self.compiled.clone_ref(py)
    }

    #[getter]
    fn worker(&self, py: Python<'_>) -> Py<PyAny> {
        self.owner.clone_ref(py)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.is_closed()
    }

    /// Makes this handle unusable. Other handles of the program stay usable; its memory is freed at close.
    fn unregister(&self) {
        self.unregistered.store(true, Ordering::Relaxed);
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, _exc: &Bound<'_, PyTuple>) {
        self.unregister();
    }

    fn __repr__(&self) -> String {
        let state = if self.is_closed() { ", closed" } else { "" };
        format!("RegistrationHandle({:?}, cid={}{state})", self.registration.program().name, self.registration.cid())
    }

    /// pytest must not collect it although programs may call theirs `test_...`.
    #[classattr]
    fn __test__() -> bool {
        false
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.compiled)
    }
}

/// Makes `RegistrationHandle(worker, cid, compiled)` give a handle that launches by way of `worker.run`: the `register` of a
/// user's own worker returns one. It is an object of another class, which PyO3 offers no constructor for, so the slot is set
/// here.
pub(super) fn open_constructor(py: Python<'_>) {
    let class = RegistrationHandle::type_object_raw(py);
    // SAFETY: attached; a heap type of this module that nobody inherits from and that has no objects yet.
    unsafe {
        (*class).tp_new = Some(by_hand);
        ffi::PyType_Modified(class);
    }
}

/// # Safety
/// The interpreter's promise: attached; a tuple, and a dictionary or null.
unsafe extern "C" fn by_hand(
    _class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the promise above.
    let py = unsafe { Python::assume_attached() };
    let make = || -> PyResult<Py<PyAny>> {
        // SAFETY: as above.
        let args = unsafe { Borrowed::from_ptr(py, args).cast_unchecked::<PyTuple>() };
        // SAFETY: as above.
        let keywords = unsafe { Bound::from_borrowed_ptr_or_opt(py, keywords) };
        let keywords = keywords.as_ref().map(|keywords| keywords.cast::<PyDict>()).transpose()?;
        let class = py.import("pypto.runtime.foreign_handle")?.getattr("ForeignHandle")?;
        Ok(class.call(&*args, keywords)?.unbind())
    };
    make().map_or_else(
        |error| {
            error.restore(py);
            std::ptr::null_mut()
        },
        Py::into_ptr,
    )
}

/// The room of a vector for values that live for another time.
fn empty<'b>(mut values: Vec<Value<'_>>) -> Vec<Value<'b>> {
    values.clear();
    // Collecting in place keeps the allocation, since both types have one layout.
    values.into_iter().map(|_| unreachable!("it is empty")).collect()
}

/// What torch counts writes to a tensor with. It does not see all of them, so it can only prove that there was one.
fn version_of(tensor: &Bound<'_, PyAny>) -> u64 {
    // A numpy array counts none, and a tensor of inference mode refuses to tell.
    let version = tensor.getattr_opt(pyo3::intern!(tensor.py(), "_version")).ok().flatten();
    version.and_then(|version| version.extract().ok()).unwrap_or(NO_VERSION)
}

pub(super) fn allocate_output<'py>(py: Python<'py>, param: &Param) -> PyResult<Bound<'py, PyAny>> {
    let ParamKind::Tensor { dtype, dims, .. } = &param.kind else {
        return Err(Edge::BadOutputs.error(format!("the output {:?} is no tensor", param.name)));
    };
    let mut extents = Vec::with_capacity(dims.len());
    for dim in dims {
        match dim {
            Dim::Const(extent) => extents.push(*extent),
            Dim::Symbol(_) => {
                return Err(Edge::DynamicOutput.error(format!(
                    "the output {:?} has a dynamic dimension, so it cannot be allocated for you: pass all tensors \
                     explicitly",
                    param.name
                )));
            }
        }
    }
    let keywords = PyDict::new(py);
    keywords.set_item(pyo3::intern!(py, "dtype"), dtypes::to_torch(py, *dtype)?)?;
    py.import("torch")?.call_method(pyo3::intern!(py, "zeros"), (extents,), Some(&keywords))
}

/// A launch takes `config=RunConfig(...)`. Nothing in it changes a launch on the simulated chip, but another object is a
/// mistake that must not pass unseen.
fn check_config(config: &Bound<'_, PyAny>) -> PyResult<()> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = config.py();
    let class = CLASS.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("pypto.runtime.run_config")?.getattr("RunConfig")?.unbind())
    })?;
    if config.is_instance(class.bind(py))? {
        return Ok(());
    }
    Err(Edge::BadConfig.error(format!("config must be a RunConfig, got {}", super::numbers::type_name(config))))
}
