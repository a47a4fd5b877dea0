//! `BoundLaunch`: a launch whose arguments were checked before.
//!
//! Where all tensors are resident, a call reads no argument and takes no lock but the worker's. Host tensors are looked at
//! in each call: nothing keeps torch from giving them other memory in between.
#![allow(unsafe_code)] // vouches to the core for host addresses whose objects the launch keeps alive

use super::codes::Edge;
use super::handle::{RegistrationHandle, allocate_output};
use super::submit::{self, read};
use super::tensor::DeviceTensor;
use super::vectorcall::{self, Callable, Vectorcall};
use super::{settings, way};
use crate::error::Error;
use crate::worker::{HostTensor, Kept, Prepared, Value};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

/// A launch with its arguments. Calling it launches.
#[pyclass(frozen, weakref, module = "pypto.runtime")]
pub(super) struct BoundLaunch {
    handle: Py<RegistrationHandle>,
    prepared: Arc<Prepared>,
    /// Whether each call makes the outputs.
    returning: bool,
    /// Whether there are host tensors, or outputs to make.
    has_hosts: AtomicBool,
    given: Mutex<Arc<Given>>,
    /// Room for the host tensors of a call, kept for the next one.
    spare: Mutex<Vec<(usize, HostTensor)>>,
    vectorcall: Vectorcall,
}

/// The arguments as Python objects.
struct Given {
    /// One for each parameter; `None` for an output that each call makes.
    args: Vec<Py<PyAny>>,
    /// Which of them are host tensors, in order.
    hosts: Vec<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BoundLaunch {
    /// Checks `args` for launches of `handle`.
    pub(super) fn make<'py>(
        handle: &Bound<'py, RegistrationHandle>,
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (handle.py(), handle.get());
        this.check_call(None)?;
        let returning = this.is_returning(args.len())?;
        let made;
        let all = if returning {
            made = this.with_outputs(py, args)?.0;
            &made
        } else {
            args
        };
        let mut keep = Vec::new();
        let all_params = this.params().iter().zip(all).enumerate();
        let kept: PyResult<Vec<Kept>> =
            all_params.map(|(at, (param, arg))| read(this, arg, param, at, &mut keep)).collect();
        let kept = kept?;
        let hosts: Vec<usize> = (0..kept.len()).filter(|&position| is_host(&kept[position])).collect();
        let mut session = this.shared().enter(py, "bind")?;
        let prepared = session.prepare(this.registration(), kept);
        drop(session);
        let prepared = prepared.map_err(|error| raise(error, all))?;
        let mut args: Vec<Py<PyAny>> = all.iter().map(|arg| arg.clone().unbind()).collect();
        if returning {
            this.outputs().iter().for_each(|&output| args[output] = py.None());
        }
        let bound = Self {
            handle: handle.clone().unbind(),
            prepared: Arc::new(prepared),
            returning,
            has_hosts: AtomicBool::new(!hosts.is_empty()),
            given: Mutex::new(Arc::new(Given { args, hosts })),
            spare: Mutex::default(),
            vectorcall: vectorcall::entry::<Self>(),
        };
        let bound = Bound::new(py, bound)?;
        vectorcall::announce(&bound);
        Ok(bound)
    }

    pub(super) fn handle(&self) -> &Py<RegistrationHandle> {
        &self.handle
    }

    fn given(&self) -> Arc<Given> {
        lock(&self.given).clone()
    }

    /// Launches where `config` asks for files about it: as a plain launch of the same arguments, since those who want files
    /// do not count its microseconds.
    #[cold]
    fn call_with_files<'py>(&self, py: Python<'py>, config: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        let handle = self.handle.get();
        handle.check_call(config)?;
        if !handle.writes_files(py, config)? {
            return Ok(None);
        }
        handle.call(py, &self.given_by_user(py), config).map(Some)
    }

    /// The arguments as a call of the handle takes them: without outputs that each call makes.
    #[cold]
    fn given_by_user<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let is_made = |position: &usize| self.returning && self.handle.get().outputs().contains(position);
        let given = self.given();
        let given = given.args.iter().enumerate().filter(|(position, _)| !is_made(position));
        given.map(|(_, arg)| arg.bind(py).clone()).collect()
    }

    /// Refuses a launch that comes too late.
    #[inline]
    fn check_usable(&self) -> PyResult<()> {
        let handle = self.handle.get();
        if handle.is_unregistered() || !handle.shared().core().is_open() { Err(self.unusable()) } else { Ok(()) }
    }

    #[cold]
    fn unusable(&self) -> PyErr {
        let handle = self.handle.get();
        let name = &handle.registration().program().name;
        if handle.is_unregistered() {
            return Edge::HandleClosed.error(format!(
                "the handle of this bound launch of {name:?} was unregistered. Register the program again and bind again"
            ));
        }
        Edge::WorkerClosed.error(format!(
            "the worker of this bound launch of {name:?} was closed ({}). Register the program on an open worker and bind \
             again",
            handle.shared().core().owner()
        ))
    }

    /// Launches without host tensors. `false` where there are some.
    #[inline]
    fn launch_resident(&self, py: Python<'_>) -> PyResult<bool> {
        let handle = self.handle.get();
        let launched = way::run(py, handle.shared(), handle.registration(), 0, |session, poll| {
            // SAFETY: there are no host tensors.
            unsafe { session.launch_prepared(&self.prepared, &[], poll) }.map_err(Box::new)
        })?;
        launched.map_err(|error| self.raise(py, *error))
    }

    /// Launches with the host tensors as they are now. `None` where the arguments were replaced meanwhile.
    fn launch_hosts(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let (handle, given) = (self.handle.get(), self.given());
        let (mut keep, mut outputs) = (Vec::new(), Vec::new());
        let mut hosts = mem::take(&mut *lock(&self.spare));
        hosts.clear();
        let mut bytes = 0u64;
        for &position in &given.hosts {
            let param = &handle.params()[position];
            let arg = if self.returning && handle.outputs().contains(&position) {
                outputs.push(allocate_output(py, param)?);
                &outputs[outputs.len() - 1]
            } else {
                given.args[position].bind(py)
            };
            if let Value::Host(host) = handle.read_argument(arg, param, position, &mut keep)? {
                bytes = bytes.saturating_add(host.bytes());
                hosts.push((position, host));
            }
        }
        let launched = way::run(py, handle.shared(), handle.registration(), bytes, |session, poll| {
            // SAFETY: the arrays were read just now; `given` and `outputs` keep their objects alive.
            unsafe { session.launch_prepared(&self.prepared, &hosts, poll) }.map_err(Box::new)
        })?;
        *lock(&self.spare) = hosts;
        match launched {
            Ok(false) => Ok(None),
            Ok(true) if self.returning => way::result(py, outputs).map(Some),
            Ok(true) => Ok(Some(py.None())),
            Err(error) => Err(self.raise(py, *error)),
        }
    }

    /// The exception of a launch that failed: where the error is about an argument, its position is said.
    #[cold]
    pub(super) fn raise(&self, py: Python<'_>, error: Error) -> PyErr {
        let args: Vec<Bound<'_, PyAny>> = self.given().args.iter().map(|arg| arg.bind(py).clone()).collect();
        raise(error, &args)
    }

    /// Replaces arguments.
    fn replace(&self, py: Python<'_>, changes: Vec<(usize, Bound<'_, PyAny>)>) -> PyResult<()> {
        self.check_usable()?;
        let handle = self.handle.get();
        let mut keep = Vec::new();
        let mut kept = Vec::with_capacity(changes.len());
        for (position, arg) in &changes {
            let param = &handle.params()[*position];
            if self.returning && handle.outputs().contains(position) {
                return Err(Edge::OutputMade.error(format!(
                    "'{}' is made by each call, because bind() was called without outputs; bind with all {} arguments to \
                     choose it",
                    param.name,
                    handle.params().len()
                )));
            }
            kept.push((*position, read(handle, arg, param, *position, &mut keep)?));
        }
        let are_hosts: Vec<bool> = kept.iter().map(|(_, kept)| is_host(kept)).collect();
        let mut session = handle.shared().enter(py, "update")?;
        let updated = session.update(&self.prepared, kept);
        if let Err(error) = updated {
            drop(session);
            let mut args: Vec<Bound<'_, PyAny>> = self.given().args.iter().map(|arg| arg.bind(py).clone()).collect();
            changes.into_iter().for_each(|(position, arg)| args[position] = arg);
            return Err(raise(error, &args));
        }
        // Within the session, so that objects and core never disagree for whoever enters next. What goes is dropped after
        // it: that may run code of the user.
        let mut gone: Vec<Py<PyAny>> = Vec::with_capacity(changes.len());
        let mut given = lock(&self.given);
        if Arc::get_mut(&mut given).is_none() {
            let args = given.args.iter().map(|arg| arg.clone_ref(py)).collect();
            *given = Arc::new(Given { args, hosts: given.hosts.clone() });
        }
        let now = Arc::get_mut(&mut given).expect("nobody else has it");
        for ((position, arg), is_host) in changes.into_iter().zip(are_hosts) {
            gone.push(mem::replace(&mut now.args[position], arg.unbind()));
            match (now.hosts.binary_search(&position), is_host) {
                (Ok(at), false) => drop(now.hosts.remove(at)),
                (Err(at), true) => now.hosts.insert(at, position),
                _ => {}
            }
        }
        self.has_hosts.store(!now.hosts.is_empty(), Ordering::Release);
        drop(given);
        drop(session);
        Ok(())
    }

    fn position_of(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        let handle = self.handle.get();
        if let Ok(name) = key.cast::<PyString>() {
            let name = name.to_cow()?;
            return handle.position(&name).ok_or_else(|| PyKeyError::new_err(name.into_owned()));
        }
        if !key.is_instance_of::<PyInt>() {
            let kind = super::numbers::type_name(key);
            return Err(Edge::WrongKey.error(format!("an argument is found by position or name, not by {kind}")));
        }
        let count = handle.params().len();
        let index: i64 = key.extract()?;
        let position = if index < 0 { index + count as i64 } else { index };
        let position = usize::try_from(position).ok().filter(|&position| position < count);
        position.ok_or_else(|| PyIndexError::new_err(format!("there are {count} arguments, no argument {index}")))
    }
}

fn is_host(kept: &Kept) -> bool {
    matches!(kept, Kept::Other(Value::Host(_)))
}

/// The exception of an error; `args` are all arguments.
#[cold]
fn raise(error: Error, args: &[Bound<'_, PyAny>]) -> PyErr {
    let tensors = args.iter().map(|arg| arg.cast_exact::<DeviceTensor>().ok().map(|tensor| tensor.get()));
    let buffers = tensors.map(|tensor| tensor.and_then(DeviceTensor::resident).map(|resident| &resident.buffer));
    let position = way::position_of(&error, buffers);
    way::placed(error, position)
}

impl Callable for BoundLaunch {
    fn vectorcall(&self) -> &Vectorcall {
        &self.vectorcall
    }

    fn once() -> &'static Once {
        static ONCE: Once = Once::new();
        &ONCE
    }

    #[inline]
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &[Bound<'py, PyAny>],
        config: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        if !args.is_empty() {
            return Err(Edge::ArgumentCount.error(format!(
                "a bound launch has its arguments already and takes none, got {}; update(name=...) replaces one",
                args.len()
            )));
        }
        if config.is_some()
            && let Some(result) = self.call_with_files(py, config)?
        {
            return Ok(result);
        }
        let _settings = settings::announce(config)?;
        self.check_usable()?;
        loop {
            if !self.has_hosts.load(Ordering::Acquire) {
                if self.launch_resident(py)? {
                    return Ok(py.None());
                }
            } else if let Some(result) = self.launch_hosts(py)? {
                return Ok(result);
            }
        }
    }
}

#[pymethods]
impl BoundLaunch {
    #[pyo3(signature = (*args, config = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        config: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(py, args.as_slice(), config)
    }

    /// Replaces arguments, by the names of their parameters (`**changes`). Where one is refused, nothing is replaced.
    #[pyo3(signature = (**changes))]
    fn update(&self, py: Python<'_>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let handle = self.handle.get();
        let mut found = Vec::new();
        for (name, arg) in changes.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_cow()?;
            let position = handle.position(&name).ok_or_else(|| {
                let names: Vec<&str> = handle.params().iter().map(|param| param.name.as_str()).collect();
                let program = &handle.registration().program().name;
                Edge::UnknownParameter
                    .error(format!("{program} has no parameter '{name}'. Parameters: [{}]", names.join(", ")))
            })?;
            found.push((position, arg));
        }
        self.replace(py, found)
    }

    /// Puts the launch into the queue of the worker; `config` as for a call.
    #[pyo3(signature = (*, config = None))]
    fn submit<'py>(slf: &Bound<'py, Self>, config: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        this.check_usable()?;
        if config.is_some() {
            let handle = this.handle.bind(py);
            handle.get().check_call(config)?;
            if handle.get().writes_files(py, config)? {
                return submit::checked(handle, &this.given_by_user(py), config);
            }
        }
        let _settings = settings::announce(config)?;
        if !this.has_hosts.load(Ordering::Acquire) {
            return submit::queue_prepared(slf, this.prepared.clone());
        }
        let (handle, given) = (this.handle.bind(py), this.given());
        let mut all: Vec<Bound<'py, PyAny>> = given.args.iter().map(|arg| arg.bind(py).clone()).collect();
        let mut outputs = this.returning.then(Vec::new);
        for &output in outputs.iter_mut().flat_map(|_| handle.get().outputs()) {
            all[output] = allocate_output(py, &handle.get().params()[output])?;
        }
        if let Some(outputs) = &mut outputs {
            outputs.extend(handle.get().outputs().iter().map(|&output| all[output].clone()));
        }
        submit::queue_plain(handle, slf.as_any(), &all, outputs)
    }

    #[getter(handle)]
    fn shown_handle(&self, py: Python<'_>) -> Py<RegistrationHandle> {
        self.handle.clone_ref(py)
    }

    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.given().args.iter().map(|arg| arg.bind(py)))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.check_usable().is_err()
    }

    fn __len__(&self) -> usize {
        self.handle.get().params().len()
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Ok(self.given().args[self.position_of(key)?].clone_ref(py))
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, arg: Bound<'_, PyAny>) -> PyResult<()> {
        self.replace(py, vec![(self.position_of(key)?, arg)])
    }

    fn __repr__(&self) -> String {
        let handle = self.handle.get();
        let (all, hosts) = (handle.params().len(), lock(&self.given).hosts.len());
        let state = if self.closed() { ", closed" } else { "" };
        format!("BoundLaunch({:?}, {all} arguments, {hosts} on the host{state})", handle.registration().program().name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.handle)?;
        match self.given.try_lock() {
            Ok(given) => given.args.iter().try_for_each(|arg| visit.call(arg)),
            // Somebody replaces an argument at this moment: then it is no garbage.
            Err(_) => Ok(()),
        }
    }
}
