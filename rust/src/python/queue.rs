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
use crate::trace::{counter, names};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

/// How often a waiting thread looks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The queue of one worker.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// The launcher has something to do.
    submitted: Condvar,
    /// The teller has something to do.
    launched: Condvar,
    /// Somebody's launch is over.
    told: Condvar,
    /// How many launches may be between submission and the end of their callbacks.
    depth: usize,
    /// The worker, for traces.
    worker: WorkerId,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Arc<Job>>,
    over: Vec<(Arc<Job>, Outcome)>,
    /// Launches since the worker was opened: submitted, and over with their futures told.
    count: u64,
    done: u64,
    ending: bool,
    launcher: Option<JoinHandle<()>>,
    launcher_waits: bool,
    launcher_ended: bool,
    /// The thread that tells futures, as Python knows it and as it knows itself.
    teller: Option<Py<PyAny>>,
    teller_id: Option<ThreadId>,
    teller_waits: bool,
    teller_ended: bool,
}

impl Queue {
    pub(super) fn new(worker: WorkerId, depth: usize) -> Arc<Self> {
        let [submitted, launched, told] = [(); 3].map(|()| Condvar::new());
        Arc::new(Self { inner: Mutex::default(), submitted, launched, told, depth, worker })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how many launches are not over. Under the lock, so that values are in the order of what they count.
    fn count_open(&self, inner: &Inner) {
        counter(names::QUEUE_DEPTH, self.worker.get() as u32, || inner.count - inner.done);
    }

    /// Waits, detached, until `is_so`; Ctrl-C ends the wait.
    fn wait_until(&self, py: Python<'_>, is_so: impl Fn(&Inner) -> bool) -> PyResult<()> {
        if is_so(&self.inner()) {
            return Ok(());
        }
        detached(py, || {
            loop {
                {
                    let inner = self.inner();
                    if is_so(&inner) {
                        return Ok(());
                    }
                    let _ = self.told.wait_timeout(inner, SIGNAL_INTERVAL);
                }
                // Outside of the lock: attaching may wait for a thread that wants it.
                Python::attach(|py| py.check_signals())?;
            }
        })
    }

    /// Waits until the queue has room. A callback of a future never waits: the room that it would wait for comes when it
    /// is over.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(super) fn wait_for_room(&self, py: Python<'_>) -> PyResult<()> {
        let me = thread::current().id();
        let has_room =
            |inner: &Inner| inner.count - inner.done < self.depth as u64 || inner.teller_id == Some(me) || inner.ending;
        self.wait_until(py, has_room)
    }

    /// Waits until every launch that was submitted before is over and its future told; called by a callback, does not wait
    /// for futures.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(super) fn wait_for_all(&self, py: Python<'_>) -> PyResult<()> {
        let (count, me) = (self.inner().count, thread::current().id());
        self.wait_until(py, |inner| inner.done >= count || inner.teller_id == Some(me))
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
        let mut inner = self.inner();
        if inner.ending {
            return Ok(None);
        }
        let job = make();
        inner.jobs.push_back(job.clone());
        inner.count += 1;
        self.count_open(&inner);
        let wake = inner.launcher_waits;
        drop(inner);
        // Waking nobody costs a system call too.
        if wake {
            self.submitted.notify_one();
        }
        Ok(Some(job))
    }

    /// Starts the threads, unless they run.
    fn start(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        {
            let mut inner = self.inner();
            if inner.teller.is_some() || inner.ending {
                return Ok(());
            }
            if inner.launcher.is_none() {
                let queue = self.clone();
                let launcher = thread::Builder::new().name("pypto-launcher".into()).spawn(move || queue.launch());
                inner.launcher = Some(launcher?);
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
            let mut inner = self.inner();
            if inner.teller.is_some() {
                return Ok(());
            }
            inner.teller = Some(teller.clone().unbind());
        }
        teller.call_method0("start").map(drop).inspect_err(|_| self.inner().teller = None)
    }

    /// What the launcher does.
    fn launch(&self) {
        loop {
            let mut inner = self.inner();
            let job = loop {
                if let Some(job) = inner.jobs.pop_front() {
                    break job;
                }
                if inner.ending {
                    inner.launcher_ended = true;
                    self.launched.notify_one();
                    return;
                }
                inner.launcher_waits = true;
                inner = self.submitted.wait(inner).unwrap_or_else(PoisonError::into_inner);
                inner.launcher_waits = false;
            };
            drop(inner);
            let outcome = job.launch();
            let mut inner = self.inner();
            inner.over.push((job, outcome));
            let wake = inner.teller_waits;
            drop(inner);
            if wake {
                self.launched.notify_one();
            }
        }
    }

    /// What the teller does.
    fn tell(&self, py: Python<'_>) {
        self.inner().teller_id = Some(thread::current().id());
        loop {
            let over = detached(py, || {
                let mut inner = self.inner();
                while inner.over.is_empty() && !inner.launcher_ended {
                    inner.teller_waits = true;
                    inner = self.launched.wait(inner).unwrap_or_else(PoisonError::into_inner);
                    inner.teller_waits = false;
                }
                std::mem::take(&mut inner.over)
            });
            if over.is_empty() {
                self.inner().teller_ended = true;
                self.told.notify_all();
                return;
            }
            for (job, outcome) in over {
                job.tell(py, outcome);
                {
                    let mut inner = self.inner();
                    inner.done += 1;
                    self.count_open(&inner);
                }
                self.told.notify_all();
            }
            trace::flush_mirror(py);
        }
    }

    /// Lets the threads end when everything that was submitted is over. Later launches are refused.
    pub(super) fn end(&self) {
        self.inner().ending = true;
        self.submitted.notify_one();
        self.told.notify_all();
    }

    /// Ends the threads and waits for them, except for the thread that calls.
    ///
    /// # Errors
    /// What a signal handler raised while waiting.
    pub(super) fn end_and_wait(&self, py: Python<'_>) -> PyResult<()> {
        self.end();
        let launcher = self.inner().launcher.take();
        if let Some(launcher) = launcher {
            // A panic of it is not ours to raise: each launch catches its own.
            let _ = detached(py, || launcher.join());
        }
        let me = thread::current().id();
        self.wait_until(py, |inner| inner.teller.is_none() || inner.teller_ended || inner.teller_id == Some(me))?;
        let teller = {
            let inner = self.inner();
            inner.teller.as_ref().filter(|_| inner.teller_id != Some(me)).map(|teller| teller.clone_ref(py))
        };
        teller.map_or(Ok(()), |teller| teller.call_method0(py, "join").map(drop))
    }
}
