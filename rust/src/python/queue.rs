//! Queued launches: the threads that run them, and the order in which they and everybody else are served.
//!
//! A queued launch takes a ticket of the worker's line when it is submitted. So launches of one worker run in the order in
//! which they were submitted, and a synchronous call waits for those that came before it, like for any other thread.
//!
//! Two threads serve a queue, both started with the first launch and ended by `close`. The launcher is no thread of Python:
//! it launches while Python code runs elsewhere and never waits for the interpreter. The other one is, and tells the
//! futures. With one thread for both, a program that computes in Python would delay each launch by a switch interval
//! (5 ms), because the thread would need the interpreter between any two.

use super::shared::detached;
use super::submit::{Job, Outcome};
use super::trace;
use crate::id::WorkerId;
use crate::trace::{Gauge, names};
use crate::worker;
use crate::worker::Progress;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

/// How often a waiting thread looks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The queue of one worker.
pub(super) struct Queue {
    core: worker::Queue<Arc<Job>, Outcome>,
    threads: Mutex<Threads>,
    /// How many launches may be between submission and the end of their callbacks.
    depth: u64,
    /// How many launches are not over, for recordings.
    open: Arc<Gauge>,
}

#[derive(Default)]
struct Threads {
    launcher: Option<JoinHandle<()>>,
    /// The thread that tells futures, as Python knows it and as it knows itself.
    teller: Option<Py<PyAny>>,
    teller_id: Option<ThreadId>,
}

impl Queue {
    pub(super) fn new(worker: WorkerId, depth: usize) -> Arc<Self> {
        let (core, threads) = (worker::Queue::default(), Mutex::default());
        let open = Gauge::new(names::QUEUE_DEPTH, worker.get() as u32);
        Arc::new(Self { core, threads, depth: depth as u64, open })
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the calling thread is the one that tells futures.
    fn is_teller(&self) -> bool {
        self.threads().teller_id == Some(thread::current().id())
    }

    /// Records how many launches are not over, in the order of what is counted.
    fn count(&self, open: u64) {
        self.open.set(open);
    }

    /// Waits, detached, until `is_so`; Ctrl-C ends the wait.
    fn wait_until(&self, py: Python<'_>, is_so: impl Fn(&Progress) -> bool) -> PyResult<()> {
        if is_so(&self.core.progress()) {
            return Ok(());
        }
        detached(py, || {
            while !self.core.wait(SIGNAL_INTERVAL, &is_so) {
                // Outside of the lock: attaching may wait for a thread that wants it.
                Python::attach(|py| py.check_signals())?;
            }
            Ok(())
        })
    }

    /// Waits until the queue has room. A callback of a future never waits: the room that it would wait for comes when it
    /// is over.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(super) fn wait_for_room(&self, py: Python<'_>) -> PyResult<()> {
        let is_teller = self.is_teller();
        self.wait_until(py, |now| is_teller || self.would_take(now))
    }

    /// Whether [`Queue::wait_for_room`] would not wait.
    pub(super) fn has_room(&self) -> bool {
        self.is_teller() || self.would_take(&self.core.progress())
    }

    fn would_take(&self, now: &Progress) -> bool {
        now.open() < self.depth || now.ending
    }

    /// Waits until every launch that was submitted before is over and its future told; called by a callback, does not wait
    /// for futures.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(super) fn wait_for_all(&self, py: Python<'_>) -> PyResult<()> {
        let (submitted, is_teller) = (self.core.progress().submitted, self.is_teller());
        self.wait_until(py, |now| now.told >= submitted || is_teller)
    }

    /// Appends a launch, `None` where the queue has ended. `make` takes its place in the line of the worker while nobody
    /// else can append.
    ///
    /// # Errors
    /// `OSError` or `RuntimeError` where the machine has no thread left.
    pub(super) fn push(
        self: &Arc<Self>,
        py: Python<'_>,
        make: impl FnOnce() -> Arc<Job>,
    ) -> PyResult<Option<Arc<Job>>> {
        self.start(py)?;
        let mut made = None;
        let is_queued = self.core.push(|open| {
            self.count(open);
            made.insert(make()).clone()
        });
        Ok(made.filter(|_| is_queued))
    }

    /// Starts the threads, unless they run.
    fn start(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        {
            let mut threads = self.threads();
            if threads.teller.is_some() || self.core.progress().ending {
                return Ok(());
            }
            if threads.launcher.is_none() {
                let queue = self.clone();
                let serve = move || queue.core.serve(|job| job.launch());
                threads.launcher = Some(thread::Builder::new().name("pypto-launcher".into()).spawn(serve)?);
            }
        }
        let queue = self.clone();
        let tell = PyCFunction::new_closure(py, None, None, move |args, _| queue.tell(args.py()))?;
        let keywords = PyDict::new(py);
        keywords.set_item("target", tell)?;
        keywords.set_item("name", "pypto-futures")?;
        keywords.set_item("daemon", true)?;
        let teller = py.import("threading")?.call_method("Thread", (), Some(&keywords))?;
        {
            let mut threads = self.threads();
            if threads.teller.is_some() {
                return Ok(());
            }
            threads.teller = Some(teller.clone().unbind());
        }
        // `start` waits for the thread that it has started. A signal handler that raises in that wait would leave it unknown
        // which runs, and handlers run on the main thread alone: so another one starts it.
        let teller = teller.unbind();
        let start = || Python::attach(|py| teller.call_method0(py, "start").map(drop));
        let started = detached(py, || {
            thread::scope(|scope| {
                let starter = thread::Builder::new().spawn_scoped(scope, start)?;
                starter.join().unwrap_or_else(|panic| resume_unwind(panic))
            })
        });
        started.inspect_err(|_| self.threads().teller = None)
    }

    /// What the teller does.
    fn tell(&self, py: Python<'_>) {
        self.threads().teller_id = Some(thread::current().id());
        loop {
            let over = detached(py, || self.core.over());
            if over.is_empty() {
                return;
            }
            for (job, outcome) in over {
                job.tell(py, outcome);
                self.core.told(|open| self.count(open));
            }
            trace::flush_mirror(py);
        }
    }

    /// Lets the threads end when everything that was submitted is over. Later launches are refused.
    pub(super) fn end(&self) {
        self.core.end();
    }

    /// Ends the threads and waits for them, except for the thread that calls.
    ///
    /// # Errors
    /// What a signal handler raised while waiting.
    pub(super) fn end_and_wait(&self, py: Python<'_>) -> PyResult<()> {
        self.end();
        let launcher = self.threads().launcher.take();
        if let Some(launcher) = launcher {
            // A panic of it is not ours to raise: each launch catches its own.
            let _ = detached(py, || launcher.join());
        }
        let teller = self.threads().teller.as_ref().map(|teller| teller.clone_ref(py));
        let Some(teller) = teller.filter(|_| !self.is_teller()) else { return Ok(()) };
        self.wait_until(py, |now| now.ended)?;
        teller.call_method0(py, "join").map(drop)
    }
}
