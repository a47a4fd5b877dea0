//! One worker of the core as the Python objects share it, and the way in that never waits while the interpreter is attached.
//!
//! The rule: **nobody waits for a worker while holding the Python lock.** A running launch asks for Ctrl-C now and then and
//! needs the Python lock for that; a thread that held it and waited for the launch to end would be a deadlock. So the way
//! in is a try; only when somebody is inside does the thread detach and stand in [`Line`].
//!
//! While it looks for Ctrl-C a thread runs Python code of others: signal handlers, and finalizers since Python 3.12. What
//! these call on the same worker would wait for the call that they interrupt, so it is refused.
#![allow(unsafe_code)] // moves a mutex guard through `Python::detach`; leaves a worker undropped in a forked child

use super::codes::Edge;
use super::queue::Queue;
use crate::error::Error;
use crate::worker::{Line, Session, Ticket, Worker};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A worker, and the line of threads that wait for it.
pub(super) struct Shared {
    core: ManuallyDrop<Arc<Worker>>,
    /// The process that opened the worker.
    pid: u32,
    /// Who waits, queued launches included: so whoever comes after a queued launch is served after it.
    line: Line,
    stopping: AtomicBool,
    queue: Arc<Queue>,
    /// Whether launches want to know the versions of host tensors.
    wants_versions: bool,
}

/// The worker, entered. Leaving wakes the line.
pub(super) struct Entered<'a> {
    // Fields drop in this order: the session first, then the wake-up.
    session: Session<'a>,
    _leave: Leave<'a>,
}

struct Leave<'a>(&'a Line);

thread_local! {
    /// The workers that this thread holds or waits for while it looks for signals, the innermost last.
    static LOOKING: RefCell<Vec<*const Shared>> = const { RefCell::new(Vec::new()) };
}

/// Why a thread did not get in.
enum Refused {
    Core(Error),
    /// A signal handler raised.
    Signal(PyErr),
}

/// Carries a value through [`Python::detach`], which wants `Send` although it runs the closure on the calling thread.
pub(super) struct SameThread<T>(T);

// SAFETY: only handed to `Python::detach`, which calls its closure on this thread and returns after it.
unsafe impl<T> Send for SameThread<T> {}

impl<T> SameThread<T> {
    pub(super) fn new(value: T) -> Self {
        Self(value)
    }

    /// The value. A method, so that closures capture the whole wrapper and not the field.
    pub(super) fn into_inner(self) -> T {
        self.0
    }
}

/// Runs `work` with the interpreter detached.
///
/// `work` must not use anything that needs the interpreter, except by attaching again.
pub(super) fn detached<R>(py: Python<'_>, work: impl FnOnce() -> R) -> R {
    let work = SameThread::new(work);
    py.detach(move || SameThread::new((work.into_inner())())).into_inner()
}

impl Shared {
    pub(super) fn new(core: Arc<Worker>, queue_depth: usize, wants_versions: bool) -> Arc<Self> {
        let queue = Queue::new(core.id(), queue_depth);
        let (core, pid) = (ManuallyDrop::new(core), std::process::id());
        let (line, stopping) = (Line::default(), AtomicBool::new(false));
        Arc::new(Self { core, pid, line, stopping, queue, wants_versions })
    }

    /// The launches that wait for their turn.
    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Whether this is the process that opened the worker, and no fork of it.
    pub(super) fn is_mine(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Makes running launches stop at their next look around, and those that wait give up when it is their turn.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) fn wants_versions(&self) -> bool {
        self.wants_versions
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits, for a second at most, until no thread stands in line.
    pub(super) fn settle(&self) {
        self.line.settle(Duration::from_secs(1));
    }

    pub(super) fn core(&self) -> &Arc<Worker> {
        &self.core
    }

    /// Enters the worker. Waits, detached, for whoever is inside; Ctrl-C ends the wait.
    ///
    /// # Errors
    /// `RuntimeError` in a forked child; what a signal handler raised.
    // In line with what calls it: each move of the session copies a `bool` with the bytes around it, which the processor
    // cannot forward from the store (13 cycles).
    #[inline(always)]
    pub(super) fn enter(&self, py: Python<'_>, operation: &'static str) -> PyResult<Entered<'_>> {
        if self.line.is_empty()
            && let Some(session) = self.core.try_enter(operation)?
        {
            return Ok(self.entered(session));
        }
        self.enter_later(py, operation)
    }

    #[cold]
    fn enter_later(&self, py: Python<'_>, operation: &'static str) -> PyResult<Entered<'_>> {
        self.check_not_within(operation)?;
        detached(py, || self.wait(operation)).map_err(|refused| match refused {
            Refused::Core(error) => error.into(),
            Refused::Signal(error) => error,
        })
    }

    #[inline(always)]
    fn entered<'a>(&'a self, session: Session<'a>) -> Entered<'a> {
        Entered { session, _leave: Leave(&self.line) }
    }

    #[cold]
    fn wait(&self, operation: &'static str) -> Result<Entered<'_>, Refused> {
        if !self.is_mine()
            && let Err(error) = self.core.try_enter(operation)
        {
            // A forked child must not touch the line: the thread that held its lock does not exist here.
            return Err(Refused::Core(error));
        }
        self.line.wait(
            self.line.join(),
            || Ok(self.core.try_enter(operation).map_err(Refused::Core)?.map(|session| self.entered(session))),
            || Python::attach(|py| self.check_signals(py)).map_err(Refused::Signal),
        )
    }

    /// Runs the handlers of signals that came, for a thread that holds this worker or waits for it.
    ///
    /// # Errors
    /// What a handler raised.
    pub(super) fn check_signals(&self, py: Python<'_>) -> PyResult<()> {
        LOOKING.with_borrow_mut(|workers| workers.push(self));
        let checked = py.check_signals();
        LOOKING.with_borrow_mut(Vec::pop);
        checked
    }

    /// Refuses to wait for this worker inside of [`Shared::check_signals`].
    ///
    /// # Errors
    /// `RuntimeError`.
    pub(super) fn check_not_within(&self, operation: &str) -> PyResult<()> {
        if !LOOKING.with_borrow(|workers| workers.contains(&std::ptr::from_ref(self))) {
            return Ok(());
        }
        Err(Edge::CalledWithin.error(format!(
            "{operation}() was called by a signal handler, or by a finalizer, inside another call on the same {}, and would \
             wait for itself. Note the signal and act after that call, or raise from the handler to end it",
            self.core.owner()
        )))
    }

    /// Waits until the queue has room.
    ///
    /// # Errors
    /// What a signal handler raised; `RuntimeError` where the room would never come.
    pub(super) fn wait_for_room(&self, py: Python<'_>) -> PyResult<()> {
        if !self.queue.has_room() {
            self.check_not_within("submit")?;
        }
        self.queue.wait_for_room(py)
    }

    /// Joins the line.
    pub(super) fn join(&self) -> Ticket {
        self.line.join()
    }

    /// Leaves the line without having been served.
    pub(super) fn give_up(&self, ticket: Ticket) {
        self.line.leave(ticket);
    }

    /// Enters the worker when it is the turn of a ticket. For threads that Python does not know: no signal ends the wait.
    ///
    /// # Errors
    /// As for [`Worker::try_enter`].
    pub(super) fn enter_as(&self, ticket: Ticket, operation: &'static str) -> Result<Entered<'_>, Error> {
        let enter = || Ok(self.core.try_enter(operation)?.map(|session| self.entered(session)));
        self.line.wait(ticket, enter, || Ok(()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The threads of the device do not exist in a forked child; waiting for their end would be for ever. What the child
        // copied goes when it exits.
        if self.is_mine() {
            // Nobody is left who could submit; what was submitted kept this alive. The threads end by themselves: waiting
            // for one that needs the interpreter could be for ever here.
            self.queue.end();
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.core) };
        }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.next();
    }
}

impl<'a> Deref for Entered<'a> {
    type Target = Session<'a>;

    fn deref(&self) -> &Session<'a> {
        &self.session
    }
}

impl<'a> DerefMut for Entered<'a> {
    fn deref_mut(&mut self) -> &mut Session<'a> {
        &mut self.session
    }
}
