//! What every launch from Python has in common: it enters the worker, looks for Ctrl-C, and words its errors.

use super::codes::Edge;
use super::shared::{Shared, detached};
use super::trace;
use super::{errors, settings};
use crate::error::Error;
use crate::worker::{Registration, Session, Value, WorkerError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// Launches that are expected to take longer than this run detached. Detaching and attaching again costs about 0.1 us
/// when no other thread wants the interpreter, and up to a switch interval (5 ms) when one does.
const ATTACHED_NS: u64 = 20_000;

/// Copies are estimated at this many bytes per nanosecond (10 GB/s). Only their order of magnitude matters.
const COPY_BYTES_PER_NS: u64 = 10;

/// What a launch said. An error lies elsewhere: one of the core has a hundred bytes, and a result as large as that is
/// copied, unwritten bytes and all, at each step back to Python.
pub(super) type Launched<R> = std::result::Result<R, Box<Error>>;

/// Enters the worker and launches there: detached where that takes long. `host_bytes` are those of the arguments on the
/// host.
///
/// # Errors
/// What a signal handler raised, or the end of the interpreter; within, what the launch says.
#[inline]
pub(super) fn run<R>(
    py: Python<'_>,
    shared: &Shared,
    registration: &Registration,
    host_bytes: u64,
    launch: impl FnOnce(&mut Session<'_>, &mut dyn FnMut() -> bool) -> Launched<R>,
) -> PyResult<Launched<R>> {
    let mut session = shared.enter(py, "run")?;
    session.note(settings::take());
    let estimate = registration.estimate_ns().saturating_add(host_bytes / COPY_BYTES_PER_NS);
    let mut raised = None;
    let result = if estimate <= ATTACHED_NS {
        let mut poll = || {
            let signals = shared.check_signals(py);
            // The estimate was wrong: give other threads their turn.
            py.detach(|| {});
            keep_going(shared, signals, &mut raised)
        };
        launch(&mut session, &mut poll)
    } else {
        detached(py, || {
            let mut poll = || keep_going(shared, Python::attach(|py| shared.check_signals(py)), &mut raised);
            launch(&mut session, &mut poll)
        })
    };
    drop(session);
    trace::flush_mirror(py);
    // What a signal handler raised goes first: the launch failed because of it.
    raised.map_or(Ok(result), Err)
}

/// Copies of at least this many bytes run detached. Detaching costs about 0.1 us when nobody waits, and a copy of this size
/// takes about 20 us; another thread loses no more than that to a smaller one.
const DETACH_BYTES: u64 = 256 << 10;

/// Runs a copy of `bytes` bytes in a worker that was entered: detached where it is long, and ended by Ctrl-C where it is
/// very long.
///
/// # Errors
/// What a signal handler raised, or the end of the interpreter; within, what the copy says.
pub(super) fn copy<R>(
    py: Python<'_>,
    shared: &Shared,
    bytes: u64,
    copy: impl FnOnce(&mut dyn FnMut() -> bool) -> R,
) -> PyResult<R> {
    if bytes < DETACH_BYTES {
        return Ok(copy(&mut || true));
    }
    let mut raised = None;
    let result =
        detached(py, || copy(&mut || keep_going(shared, Python::attach(|py| shared.check_signals(py)), &mut raised)));
    raised.map_or(Ok(result), Err)
}

/// Whether a launch or a copy goes on; keeps the reason where it does not.
fn keep_going(shared: &Shared, signals: PyResult<()>, raised: &mut Option<PyErr>) -> bool {
    *raised = match signals {
        Err(error) => Some(error),
        Ok(()) if shared.is_stopping() => Some(stopped()),
        Ok(()) => None,
    };
    raised.is_none()
}

/// The exception of a launch that the end of the interpreter ended.
pub(super) fn stopped() -> PyErr {
    Edge::LaunchStopped.error("the launch was stopped: its ChipWorker is being closed at exit")
}

/// What a return-style call gives: the output, or a tuple of outputs.
pub(super) fn result<'py>(py: Python<'py>, mut outputs: Vec<Bound<'py, PyAny>>) -> PyResult<Py<PyAny>> {
    match outputs.len() {
        1 => Ok(outputs.remove(0).unbind()),
        _ => Ok(PyTuple::new(py, outputs)?.into_any().unbind()),
    }
}

/// The exception of a launch. One about a resident buffer also says where that stands among the arguments.
#[cold]
pub(super) fn launch_error(error: Error, values: &[Value<'_>]) -> PyErr {
    let buffers = values.iter().map(|value| match value {
        Value::Resident { buffer, .. } => Some(*buffer),
        _ => None,
    });
    let position = position_of(&error, buffers);
    placed(error, position)
}

/// The position of the buffer that an error is about, among the buffers of all arguments.
pub(super) fn position_of<'a>(
    error: &Error,
    mut buffers: impl Iterator<Item = Option<&'a Arc<crate::arena::Buffer>>>,
) -> Option<usize> {
    let Error::Worker(
        WorkerError::FreedBuffer { buffer, .. }
        | WorkerError::StaleBuffer { buffer, .. }
        | WorkerError::ForeignBuffer { buffer, .. },
    ) = error
    else {
        return None;
    };
    buffers.position(|other| other.is_some_and(|other| Arc::ptr_eq(other, buffer)))
}

/// The exception for an error about the argument at a position, if it is about one.
pub(super) fn placed(error: Error, position: Option<usize>) -> PyErr {
    match position {
        Some(position) => errors::at_position(position, &error),
        None => error.into(),
    }
}
