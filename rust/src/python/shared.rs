//! One worker of the core as the Python objects share it, and the way in that never waits while the interpreter is attached.
//!
//! The rule: **nobody waits for a worker while holding the Python lock.** A running launch asks for Ctrl-C now and then and
//! needs the Python lock for that; a thread that held it and waited for the launch to end would be a deadlock. So the way
//! in is a try; only when somebody is inside does the thread detach and stand in line. The line is served in order, and
//! nobody passes it: a thread that launches in a loop would otherwise come back before a sleeping one is awake, for ever.
#![allow(unsafe_code)] // moves a mutex guard through `Python::detach`; leaves a worker undropped in a forked child

use super::queue::Queue;
use crate::error::Error;
use crate::worker::{Session, Worker};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting thread looks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// A worker, and the line of threads that wait for it.
pub(super) struct Shared {
    core: ManuallyDrop<Arc<Worker>>,
    /// The process that opened the worker.
    pid: u32,
    /// How many stand in line, queued launches included: so whoever comes after a queued launch is served after it.
    waiting: AtomicUsize,
    line: Mutex<Line>,
    left: Condvar,
    stopping: AtomicBool,
    queue: Arc<Queue>,
}

/// Tickets of the threads that wait and of the launches that are queued, the next one first.
#[derive(Default)]
struct Line {
    tickets: VecDeque<u64>,
    last: u64,
}

/// The worker, entered. Leaving wakes the line.
pub(super) struct Entered<'a> {
    // Fields drop in this order: the session first, then the wake-up.
    session: Session<'a>,
    _leave: Leave<'a>,
}

struct Leave<'a>(&'a Shared);

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
    pub(super) fn new(core: Arc<Worker>, queue_depth: usize) -> Arc<Self> {
        let queue = Queue::new(queue_depth);
        let (waiting, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (core, pid) = (ManuallyDrop::new(core), std::process::id());
        Arc::new(Self { core, pid, waiting, line: Mutex::default(), left: Condvar::new(), stopping, queue })
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

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits, for a second at most, until no thread stands in line.
    pub(super) fn settle(&self) {
        let end = Instant::now() + Duration::from_secs(1);
        while self.waiting.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            drop(self.line());
            self.left.notify_all();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn core(&self) -> &Arc<Worker> {
        &self.core
    }

    /// Enters the worker. Waits, detached, for whoever is inside; Ctrl-C ends the wait.
    ///
    /// # Errors
    /// `RuntimeError` in a forked child; what a signal handler raised.
    pub(super) fn enter(&self, py: Python<'_>, operation: &'static str) -> PyResult<Entered<'_>> {
        if self.waiting.load(Ordering::Relaxed) == 0
            && let Some(session) = self.core.try_enter(operation)?
        {
            return Ok(self.entered(session));
        }
        detached(py, || self.wait(operation)).map_err(|refused| match refused {
            Refused::Core(error) => error.into(),
            Refused::Signal(error) => error,
        })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entered<'a>(&'a self, session: Session<'a>) -> Entered<'a> {
        Entered { session, _leave: Leave(self) }
    }

    #[cold]
    fn wait(&self, operation: &'static str) -> Result<Entered<'_>, Refused> {
        if !self.is_mine()
            && let Err(error) = self.core.try_enter(operation)
        {
            // A forked child must not touch the line: the thread that held its lock does not exist here.
            return Err(Refused::Core(error));
        }
        let ticket = self.ticket();
        let mut look = || Python::attach(|py| py.check_signals()).map_err(Refused::Signal);
        self.served(ticket, operation, &mut look)
    }

    /// Joins the line.
    pub(super) fn ticket(&self) -> u64 {
        let mut line = self.line();
        line.last += 1;
        let ticket = line.last;
        line.tickets.push_back(ticket);
        self.waiting.store(line.tickets.len(), Ordering::SeqCst);
        ticket
    }

    /// Leaves the line without having been served.
    pub(super) fn give_up(&self, ticket: u64) {
        self.forget(ticket);
        // Whoever is next may have become the first.
        self.left.notify_all();
    }

    /// Enters the worker when it is the turn of a ticket. For threads that Python does not know: no signal ends the wait.
    ///
    /// # Errors
    /// As for [`Worker::try_enter`].
    pub(super) fn enter_as(&self, ticket: u64, operation: &'static str) -> Result<Entered<'_>, Error> {
        self.served(ticket, operation, &mut || Ok(())).map_err(|refused| match refused {
            Refused::Core(error) => error,
            Refused::Signal(_) => unreachable!("nobody looked for signals"),
        })
    }

    fn forget(&self, ticket: u64) {
        let mut line = self.line();
        line.tickets.retain(|&other| other != ticket);
        self.waiting.store(line.tickets.len(), Ordering::SeqCst);
    }

    fn served(
        &self,
        ticket: u64,
        operation: &'static str,
        look: &mut dyn FnMut() -> Result<(), Refused>,
    ) -> Result<Entered<'_>, Refused> {
        let result = self.stand_in_line(ticket, operation, look);
        if result.is_ok() {
            self.forget(ticket)
        } else {
            self.give_up(ticket)
        }
        result
    }

    fn stand_in_line(
        &self,
        ticket: u64,
        operation: &'static str,
        look: &mut dyn FnMut() -> Result<(), Refused>,
    ) -> Result<Entered<'_>, Refused> {
        loop {
            {
                let line = self.line();
                // Tried under `line`: whoever leaves after this try takes `line` to wake us, so the wake-up cannot fall
                // between the try and the wait.
                if line.tickets.front() == Some(&ticket)
                    && let Some(session) = self.core.try_enter(operation).map_err(Refused::Core)?
                {
                    return Ok(self.entered(session));
                }
                let _ = self.left.wait_timeout(line, SIGNAL_INTERVAL);
            }
            // Outside of `line`: attaching may wait for a thread that is about to leave and wants `line`.
            look()?;
        }
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
        // Orders the release of the session before the look at `waiting`; pairs with the increment in `wait`.
        fence(Ordering::SeqCst);
        if self.0.waiting.load(Ordering::Relaxed) > 0 {
            drop(self.0.line());
            self.0.left.notify_all();
        }
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
