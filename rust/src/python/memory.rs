//! `MemoryReport`: what device memory is used for; `MemoryScope`: what it is counted for; its past.

use super::buffer::Buffer;
use super::shared::Shared;
use super::site;
use super::tensor::Resident;
use crate::arena;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The memory of one worker at one moment.
#[pyclass(frozen, module = "pypto.runtime")]
pub(super) struct MemoryReport {
    report: arena::MemoryReport,
    shared: Weak<Shared>,
}

macro_rules! getters {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        #[pymethods]
        impl MemoryReport {
            $(
                #[getter]
                fn $name(&self) -> $type {
                    let value: fn(&arena::MemoryReport) -> $type = $value;
                    value(&self.report)
                }
            )*

            #[getter]
            fn live_buffers(&self) -> Vec<Buffer> {
                let view = |buffer: &Arc<arena::Buffer>| Resident::whole(buffer.clone(), self.shared.clone());
                self.report.live_buffers.iter().map(|buffer| Buffer::new(view(buffer))).collect()
            }

            /// All figures by name; sizes are bytes.
            fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let dict = PyDict::new(py);
                $(dict.set_item(stringify!($name), self.$name())?;)*
                dict.set_item("live_buffers", self.live_buffers())?;
                Ok(dict)
            }

            fn __str__(&self) -> String {
                // All buffers: whoever asks for the report looks for one of them.
                format!("{:.1$}", self.report, self.report.count()).trim_end().to_owned()
            }

            fn __repr__(&self) -> String {
                let arena::MemoryReport { live, capacity, .. } = self.report;
                format!("MemoryReport(live={live}, capacity={capacity}, count={})", self.report.count())
            }
        }
    };
}

getters! {
    capacity: u64 = |report| report.capacity;
    reserved: u64 = |report| report.reserved;
    committed: u64 = |report| report.committed;
    live: u64 = |report| report.live;
    peak: u64 = |report| report.peak;
    staging: u64 = |report| report.staging;
    scratch: u64 = |report| report.scratch;
    packed: u64 = |report| report.packed;
    free: u64 = |report| report.free;
    largest_free: u64 = |report| report.largest_free;
    count: usize = |report| report.count();
    tags: HashMap<String, (u64, u64)> = |report| {
        report.tags.iter().map(|tag| (tag.name.clone(), (tag.live, tag.peak))).collect()
    };
    fragmentation: f64 = |report| report.fragmentation();
}

impl MemoryReport {
    pub(super) fn new(report: arena::MemoryReport, shared: &Arc<Shared>) -> Self {
        Self { report, shared: Arc::downgrade(shared) }
    }
}

/// A part of the program whose allocations count for a tag.
#[pyclass(frozen, module = "pypto.runtime")]
pub(super) struct MemoryScope {
    scope: Arc<arena::Scope>,
    /// The line that allocations are put down to; the one that calls into this package where there is none.
    site: Option<arena::Site>,
}

impl MemoryScope {
    pub(super) fn new(scope: arena::Scope, site: Option<(String, u32)>) -> Self {
        let site = site.map(|(file, line)| arena::Site { file: file.into(), line });
        Self { scope: Arc::new(scope), site }
    }

    pub(super) fn core(&self) -> Arc<arena::Scope> {
        self.scope.clone()
    }
}

/// What an allocation in `scope` counts for, and the line that it is put down to.
pub(super) fn origin(
    py: Python<'_>,
    scope: Option<&Bound<'_, MemoryScope>>,
) -> (Option<Arc<arena::Scope>>, Option<arena::Site>) {
    let scope = scope.map(|scope| scope.get());
    let site = scope.and_then(|scope| scope.site.clone()).or_else(|| site::caller(py));
    (scope.map(MemoryScope::core), site)
}

#[pymethods]
impl MemoryScope {
    #[getter]
    fn tag(&self) -> &str {
        self.scope.tag.name()
    }

    #[getter]
    fn budget(&self) -> Option<u64> {
        self.scope.budget
    }

    #[getter]
    fn live(&self) -> u64 {
        self.scope.tag.live()
    }

    #[getter]
    fn peak(&self) -> u64 {
        self.scope.tag.peak()
    }

    fn __repr__(&self) -> String {
        let Self { scope, .. } = self;
        let of = scope.budget.map_or_else(String::new, |budget| format!(" of {}", arena::Bytes(budget)));
        let (live, peak) = (arena::Bytes(scope.tag.live()), arena::Bytes(scope.tag.peak()));
        format!("MemoryScope(tag={:?}, live {live}{of}, peak {peak})", scope.tag.name())
    }
}

/// The past of device memory as plain data: times as nanoseconds before now.
pub(super) fn timeline<'py>(py: Python<'py>, timeline: &arena::Timeline) -> PyResult<Bound<'py, PyDict>> {
    let now = Instant::now();
    let entry = |memory: &arena::Memory| match &memory.holder {
        arena::Holder::Buffer(buffer) => {
            let site = buffer.site().map(|site| (site.file.to_string(), site.line));
            let tag = buffer.scope().map(|scope| scope.tag.name().to_owned());
            (memory.offset, memory.bytes, buffer.bytes(), buffer.to_string(), site, tag)
        }
        arena::Holder::Kept(purpose) => {
            let what = match purpose {
                arena::Purpose::Staging => "staging of host arguments",
                arena::Purpose::Scratch => "scratch of launches",
                arena::Purpose::Packed => "packed form of a weight",
            };
            (memory.offset, memory.bytes, memory.bytes, what.to_owned(), None, None)
        }
    };
    let age = |at: Instant| u64::try_from(now.duration_since(at).as_nanos()).unwrap_or(u64::MAX);
    let events = timeline.events.iter().map(|event| (age(event.at), event.is_taken, entry(&event.memory)));
    let dict = PyDict::new(py);
    dict.set_item("events", events.collect::<Vec<_>>())?;
    dict.set_item("live", timeline.live.iter().map(entry).collect::<Vec<_>>())?;
    dict.set_item("lost", timeline.lost)?;
    dict.set_item("touched", timeline.touched)?;
    Ok(dict)
}
