//! Timelines in files: what `pypto.trace` opens and closes.

use super::codes::Edge;
use super::shared::detached;
use crate::fork;
use crate::sync::global::{Mutex, lock};
use crate::trace::chrome::Chrome;
use crate::trace::perfetto::Perfetto;
use crate::trace::strace::Strace;
use crate::trace::timeline::Timeline;
use crate::trace::{self, Drained, Enabled};
use pyo3::prelude::*;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the rings are emptied. A core that runs tasks of 300 ns fills its ring of 32,768 spans in 10 ms.
const INTERVAL: Duration = Duration::from_millis(5);

/// A recording that is written to a file while it goes on, by a thread of its own, until it is closed.
#[pyclass(frozen, module = "pypto._pypto")]
pub(super) struct TraceFile {
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    thread: JoinHandle<io::Result<u64>>,
    /// Dropping it ends the thread.
    stop: Sender<()>,
    /// The process that the thread belongs to.
    generation: u32,
}

enum Format {
    Chrome(Timeline<Chrome>),
    Perfetto(Timeline<Perfetto>),
    Strace(Strace, String),
}

impl Format {
    fn add(&mut self, drained: &Drained) {
        match self {
            Format::Chrome(timeline) => timeline.add(drained),
            Format::Perfetto(timeline) => timeline.add(drained),
            Format::Strace(strace, out) => strace.write(drained, out),
        }
    }

    fn finish(&mut self, pid: u32) {
        match self {
            Format::Chrome(timeline) => {
                timeline.finish(pid);
                timeline.sink().finish();
            }
            Format::Perfetto(timeline) => timeline.finish(pid),
            Format::Strace(..) => {}
        }
    }

    /// Moves what was written since the last call to the file.
    fn flush(&mut self, file: &mut File) -> io::Result<()> {
        match self {
            Format::Chrome(timeline) => file.write_all(&timeline.sink().out).map(|()| timeline.sink().out.clear()),
            Format::Perfetto(timeline) => file.write_all(&timeline.sink().out).map(|()| timeline.sink().out.clear()),
            Format::Strace(_, out) => file.write_all(out.as_bytes()).map(|()| out.clear()),
        }
    }
}

#[pymethods]
impl TraceFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, format: &str) -> PyResult<Self> {
        let format = match format {
            "chrome" => Format::Chrome(Timeline::new(Chrome::new())),
            "perfetto" => Format::Perfetto(Timeline::new(Perfetto::default())),
            "strace" => Format::Strace(Strace::new(true), String::new()),
            other => return Err(Edge::TraceFormat.error(format!("there is no trace format {other:?}"))),
        };
        let file = File::create(path)?;
        let (stop, stopped) = channel();
        let recording = detached(py, trace::enable);
        let thread = std::thread::Builder::new()
            .name("pypto-trace".into())
            .spawn(move || write(&recording, format, file, &stopped))?;
        let writer = Writer { thread, stop, generation: fork::generation() };
        Ok(Self { writer: Mutex::new(Some(writer)) })
    }

    /// Ends the recording; returns how many spans were lost. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<u64> {
        let Some(Writer { thread, stop, generation }) = detached(py, || lock(&self.writer).take()) else {
            return Ok(0);
        };
        if generation != fork::generation() {
            // The thread belongs to the parent of this process.
            return Ok(0);
        }
        drop(stop);
        let outcome = detached(py, || thread.join());
        let ended_early = |_| Err(io::Error::other("the thread that writes the trace ended early"));
        Ok(outcome.unwrap_or_else(ended_early)?)
    }
}

/// Writes until it is told to stop; returns how many spans were lost.
fn write(recording: &Enabled, mut format: Format, mut file: File, stopped: &Receiver<()>) -> io::Result<u64> {
    let mut lost = 0;
    loop {
        let last = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
        let drained = recording.drain();
        lost += drained.dropped;
        format.add(&drained);
        if last {
            format.finish(drained.pid);
        }
        format.flush(&mut file)?;
        if last {
            return Ok(lost);
        }
    }
}
