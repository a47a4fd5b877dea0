//! The trace for Python: recordings that are drained as data, and the mirror that prints `[STRACE]` lines.

use super::codes::Edge;
use super::shared::detached;
use crate::trace::strace::Strace;
use crate::trace::{self, Drained, Enabled, SpanRecord};
use pyo3::prelude::*;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `drain` gives for one span: `(tid, inv, depth, name, ts, dur, arg, attribute, core, timed_with, is_device)`.
type SpanTuple = (u32, u32, usize, &'static str, u64, u64, u64, Option<&'static str>, Option<usize>, u32, bool);

/// Records spans of all threads while it is open.
#[pyclass(frozen, module = "pypto._pypto")]
pub(super) struct Recording {
    guard: Mutex<Option<Enabled>>,
}

impl Recording {
    fn guard(&self) -> MutexGuard<'_, Option<Enabled>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Recording {
    #[new]
    fn new(py: Python<'_>) -> Self {
        Self { guard: Mutex::new(Some(detached(py, trace::enable))) }
    }

    fn drain(&self, py: Python<'_>) -> PyResult<(u32, Vec<SpanTuple>, u64)> {
        let drained = detached(py, || self.guard().as_ref().map(Enabled::drain));
        let Drained { spans, dropped, pid, .. } =
            drained.ok_or_else(|| Edge::RecordingStopped.error("the recording was stopped; make a new Recording"))?;
        Ok((pid, spans.iter().map(span_tuple).collect(), dropped))
    }

    fn stop(&self, py: Python<'_>) {
        detached(py, || drop(self.guard().take()));
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, pyo3::types::PyTuple>) {
        self.stop(py);
    }
}

fn span_tuple(span: &SpanRecord) -> SpanTuple {
    let SpanRecord { begin_ns, duration_ns, arg, timed_with, invocation, tid, name, track } = *span;
    let text = name.text();
    let (attribute, core) = (name.attribute(), track.core_index());
    (tid, invocation, name.depth(), text, begin_ns, duration_ns, arg, attribute, core, timed_with, track.is_device())
}

/// Whether launches print their spans; see [`mirror_trace`].
static MIRRORING: AtomicBool = AtomicBool::new(false);

/// Where the printed spans come from.
static MIRROR: Mutex<Option<(Enabled, Strace)>> = Mutex::new(None);

/// Prints `[STRACE]` lines on standard error after each launch, or stops doing so.
#[pyfunction]
#[pyo3(signature = (on, *, device_spans = true))]
pub(super) fn mirror_trace(py: Python<'_>, on: bool, device_spans: bool) {
    detached(py, || {
        let mut mirror = MIRROR.lock().unwrap_or_else(PoisonError::into_inner);
        match (on, &*mirror) {
            (true, None) => *mirror = Some((trace::enable(), Strace::new(device_spans))),
            (false, Some(_)) => *mirror = None,
            _ => {}
        }
        MIRRORING.store(on, Ordering::Relaxed);
    });
}

/// Whether this build records spans at all.
#[pyfunction]
pub(super) fn trace_available() -> bool {
    cfg!(not(feature = "trace-off"))
}

/// Prints what was recorded since the last call, if spans are mirrored. One relaxed load if not.
#[inline]
pub(super) fn flush_mirror(py: Python<'_>) {
    if MIRRORING.load(Ordering::Relaxed) {
        detached(py, print_mirror);
    }
}

#[cold]
fn print_mirror() {
    let mut mirror = MIRROR.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((recording, strace)) = &mut *mirror {
        let mut text = String::new();
        strace.write(&recording.drain(), &mut text);
        // A closed standard error must not fail a launch.
        let mut stderr = std::io::stderr().lock();
        for line in text.split_inclusive('\n') {
            let _ = stderr.write_all(line.as_bytes());
        }
    }
}
