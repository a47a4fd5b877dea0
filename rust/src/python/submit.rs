//! One queued launch: what it needs, what becomes of it, and the future that is told.
#![allow(unsafe_code)] // vouches to the core for host addresses whose objects the launch keeps alive

use super::bound::BoundLaunch;
use super::handle::RegistrationHandle;
use super::keep::{self, Keep};
use super::shared::Shared;
use super::tensor::DeviceTensor;
use super::{settings, vectorcall, way};
use crate::arena::Owner;
use crate::error::Error;
use crate::fork;
use crate::program::ParamKind;
use crate::worker::{Kept, Notes, Prepared, Registration, Ticket, Value, WorkerError};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const QUEUED: u8 = 0;
const RUNNING: u8 = 1;
const CANCELLED: u8 = 2;

/// A queued launch.
pub(super) struct Job {
    state: AtomicU8,
    ticket: Ticket,
    /// Taken when it runs.
    work: Mutex<Option<Work>>,
    /// Taken when its future is told.
    objects: Mutex<Option<Objects>>,
}

/// What the launcher needs.
struct Work {
    shared: Arc<Shared>,
    registration: Arc<Registration>,
    args: Args,
    /// Settings for the trace.
    notes: Option<Box<Notes>>,
}

enum Args {
    Plain(Vec<Kept>),
    Prepared(Arc<Prepared>),
}

/// What belongs to Python.
#[expect(dead_code, reason = "some are held only to be dropped after the launch")]
struct Objects {
    future: Py<PyAny>,
    outputs: Option<Vec<Py<PyAny>>>,
    args: Vec<Py<PyAny>>,
    keep: Vec<Keep>,
    /// The handle or the bound launch, which keep their worker.
    of: Py<PyAny>,
}

/// How a launch ended.
pub(super) enum Outcome {
    Done,
    Cancelled,
    Stopped,
    /// The error, and the position of the argument that it is about.
    Failed(Error, Option<usize>),
    Panicked(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    fn advance(&self, to: u8) -> Result<(), u8> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(QUEUED, to, success, failure).map(drop)
    }

    /// Launches, on a thread that Python does not know.
    pub(super) fn launch(&self) -> Outcome {
        let work = lock(&self.work).take().expect("a job is launched once");
        if self.advance(RUNNING).is_err() {
            work.shared.give_up(self.ticket);
            return Outcome::Cancelled;
        }
        if work.shared.is_stopping() {
            work.shared.give_up(self.ticket);
            return Outcome::Stopped;
        }
        let shared = work.shared.clone();
        let result = match catch_unwind(AssertUnwindSafe(|| work.run(self.ticket))) {
            Ok(result) => result,
            Err(panic) => return Outcome::Panicked(vectorcall::panic_text(&*panic)),
        };
        match result {
            Ok(()) => Outcome::Done,
            Err(_) if shared.is_stopping() => Outcome::Stopped,
            Err(failure) => Outcome::Failed(failure.error, failure.position),
        }
    }

    /// Tells the future.
    pub(super) fn tell(&self, py: Python<'_>, outcome: Outcome) {
        let Some(mut objects) = lock(&self.objects).take() else { return };
        // Whoever has the result may do what he likes with the memory.
        keep::cast_off(py, mem::take(&mut objects.keep));
        let future = objects.future.bind(py);
        let told = match outcome {
            Outcome::Done => objects.result(py).and_then(|result| finish(future, false, Some(result), None)),
            Outcome::Cancelled => finish(future, true, None, None),
            Outcome::Stopped => finish(future, false, None, Some(way::stopped())),
            Outcome::Failed(error, position) => {
                // The thread that launches knows the arguments of a bound launch only as its worker keeps them.
                let error = match objects.of.bind(py).cast::<BoundLaunch>() {
                    Ok(bound) if position.is_none() => bound.get().raise(py, error),
                    _ => way::placed(error, position),
                };
                finish(future, false, None, Some(error))
            }
            Outcome::Panicked(text) => finish(future, false, None, Some(PanicException::new_err(text))),
        };
        if let Err(error) = told {
            error.write_unraisable(py, Some(future));
        }
    }
}

/// An error of a launch, and the position of the argument that it is about.
struct Failure {
    error: Error,
    position: Option<usize>,
}

impl Failure {
    fn new(error: Error) -> Box<Self> {
        Box::new(Self { error, position: None })
    }
}

impl Work {
    fn run(self, ticket: Ticket) -> Result<(), Box<Failure>> {
        let Self { shared, registration, args, notes } = &self;
        let mut session = shared.enter_as(ticket, "run").map_err(Failure::new)?;
        session.note(notes.clone());
        let mut poll = || !shared.is_stopping();
        match args {
            Args::Plain(args) => {
                let values: Vec<Value<'_>> = args.iter().map(Kept::value).collect();
                // SAFETY: the job keeps the memory of host tensors, and their owner was told to leave them alone.
                let result = unsafe { session.launch(registration, &values, &mut poll) };
                result.map_err(|error| {
                    let buffers = args.iter().map(|arg| match arg {
                        Kept::Resident { buffer, .. } => Some(buffer),
                        Kept::Other(_) => None,
                    });
                    let position = way::position_of(&error, buffers);
                    Box::new(Failure { error, position })
                })
            }
            Args::Prepared(prepared) => {
                // SAFETY: there are no host tensors.
                let launched = unsafe { session.launch_prepared(prepared, &[], &mut poll) };
                match launched.map_err(Failure::new)? {
                    true => Ok(()),
                    false => {
                        let name = &registration.program().name;
                        let text = format!(
                            "another thread gave the bound launch of '{name}' a host tensor while it was being submitted; \
                             submit it again"
                        );
                        Err(Failure::new(WorkerError::ArgumentValue(text).into()))
                    }
                }
            }
        }
    }
}

impl Objects {
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.outputs {
            None => Ok(py.None()),
            Some(outputs) => way::result(py, outputs.iter().map(|output| output.bind(py).clone()).collect()),
        }
    }
}

fn finish(future: &Bound<'_, PyAny>, cancelled: bool, result: Option<Py<PyAny>>, error: Option<PyErr>) -> PyResult<()> {
    future.call_method1(pyo3::intern!(future.py(), "_finish"), (cancelled, result, error)).map(drop)
}

/// What a future knows of its launch.
#[pyclass(frozen, module = "pypto._pypto")]
pub(super) struct QueuedLaunch {
    job: Arc<Job>,
    generation: u32,
    shared: Weak<Shared>,
    owner: Arc<Owner>,
}

#[pymethods]
impl QueuedLaunch {
    /// Takes the launch out of the queue, if it has not begun.
    fn cancel(&self) -> bool {
        matches!(self.job.advance(CANCELLED), Ok(()) | Err(CANCELLED))
    }

    /// Whether it has begun. It may be over.
    fn begun(&self) -> bool {
        self.job.state.load(Ordering::Acquire) == RUNNING
    }

    /// Refuses to wait where it never ends: in a forked child, where nobody launches it, and inside a call on its worker.
    fn check_wait(&self) -> PyResult<()> {
        if fork::generation() == self.generation {
            return self.shared.upgrade().map_or(Ok(()), |shared| shared.check_not_within("result"));
        }
        let error = WorkerError::Forked { operation: "submit", owner: self.owner.clone() };
        Err(Error::from(error).into())
    }
}

/// Queues a launch of a handle. One that writes files about itself is not queued: those are written by Python, with the
/// results. It runs here, after all that was queued before, and its future is done.
pub(super) fn checked<'py>(
    handle: &Bound<'py, RegistrationHandle>,
    args: &[Bound<'py, PyAny>],
    config: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (handle.py(), handle.get());
    this.check_call(config)?;
    if !this.writes_files(py, config)? {
        let _settings = settings::announce(config)?;
        return plain(handle, args);
    }
    let all = if this.is_returning(args.len())? { &this.with_outputs(py, args)?.0 } else { args };
    for (position, (param, arg)) in this.params().iter().zip(all).enumerate() {
        read(this, arg, param, position, &mut Vec::new())?;
    }
    let finished = py.import("pypto.runtime.futures")?.getattr("finished")?;
    finished.call1((handle, PyTuple::new(py, args)?, config))
}

fn plain<'py>(handle: &Bound<'py, RegistrationHandle>, args: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let this = handle.get();
    if !this.is_returning(args.len())? {
        return queue_plain(handle, handle.as_any(), args, None);
    }
    let (all, outputs) = this.with_outputs(handle.py(), args)?;
    queue_plain(handle, handle.as_any(), &all, Some(outputs))
}

/// Queues a launch with one argument for each parameter; `of` is what it was asked of.
pub(super) fn queue_plain<'py>(
    handle: &Bound<'py, RegistrationHandle>,
    of: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    outputs: Option<Vec<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    let this = handle.get();
    let mut keep = Vec::new();
    let kept: PyResult<Vec<Kept>> = this
        .params()
        .iter()
        .zip(args)
        .enumerate()
        .map(|(position, (param, arg))| {
            let before = keep.len();
            let kept = read(this, arg, param, position, &mut keep)?;
            // Outputs that were made for this launch are nobody else's until it is over.
            let is_ours = || outputs.iter().flatten().any(|output| output.is(arg));
            if matches!(kept, Kept::Other(Value::Host(_))) && !is_ours() {
                match keep.get(before) {
                    None => keep.push(Keep::memory_of(arg)?),
                    Some(Keep::Buffer(_)) => Keep::array(arg, &mut keep),
                    Some(_) => {}
                }
            }
            Ok(kept)
        })
        .collect();
    let kept = kept?;
    keep::moor(handle.py(), &mut keep)?;
    let work = Work {
        shared: this.shared().clone(),
        registration: this.registration().clone(),
        args: Args::Plain(kept),
        notes: settings::take(),
    };
    let args = args.iter().map(|arg| arg.clone().unbind()).collect();
    let outputs = outputs.map(|outputs| outputs.into_iter().map(Bound::unbind).collect());
    queue(handle.py(), this, work, |future| Objects { future, outputs, args, keep, of: of.clone().unbind() })
}

/// Queues a launch of a bound launch without host tensors.
pub(super) fn queue_prepared<'py>(
    bound: &Bound<'py, BoundLaunch>,
    prepared: Arc<Prepared>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = bound.py();
    let this = bound.get().handle().get();
    let work = Work {
        shared: this.shared().clone(),
        registration: this.registration().clone(),
        args: Args::Prepared(prepared),
        notes: settings::take(),
    };
    let of = bound.clone().into_any().unbind();
    queue(py, this, work, |future| Objects { future, outputs: None, args: Vec::new(), keep: Vec::new(), of })
}

/// Reads an argument to keep it.
pub(super) fn read(
    handle: &RegistrationHandle,
    arg: &Bound<'_, PyAny>,
    param: &crate::program::Param,
    position: usize,
    keep: &mut Vec<Keep>,
) -> PyResult<Kept> {
    if let ParamKind::Tensor { .. } = param.kind
        && let Ok(tensor) = arg.cast_exact::<DeviceTensor>()
        && let tensor = tensor.get()
        && let Some(resident) = tensor.resident()
    {
        let (shape, dtype) = (*tensor.extents(), tensor.element());
        return Ok(Kept::Resident { buffer: resident.buffer.clone(), offset: resident.offset, shape, dtype });
    }
    Ok(Kept::from(handle.read_argument(arg, param, position, keep)?))
}

fn queue<'py>(
    py: Python<'py>,
    handle: &RegistrationHandle,
    work: Work,
    objects: impl FnOnce(Py<PyAny>) -> Objects,
) -> PyResult<Bound<'py, PyAny>> {
    static FUTURE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let shared = work.shared.clone();
    if !shared.is_mine() {
        let owner = shared.core().owner().clone();
        return Err(Error::from(WorkerError::Forked { operation: "submit", owner }).into());
    }
    shared.wait_for_room(py)?;
    let class = FUTURE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("pypto.runtime.futures")?.getattr("LaunchFuture")?.unbind())
    })?;
    let future = class.bind(py).call0()?;
    let objects = objects(future.clone().unbind());
    let job = shared.queue().push(py, || {
        Arc::new(Job {
            state: AtomicU8::new(QUEUED),
            ticket: shared.join(),
            work: Mutex::new(Some(work)),
            objects: Mutex::new(Some(objects)),
        })
    })?;
    let Some(job) = job else { return Err(handle.closed_error()) };
    let (generation, owner) = (fork::generation(), shared.core().owner().clone());
    let launch = QueuedLaunch { job, generation, shared: Arc::downgrade(&shared), owner };
    future.setattr(pyo3::intern!(py, "_launch"), launch)?;
    Ok(future)
}
