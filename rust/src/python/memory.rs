//! `MemoryReport`: what device memory is used for.

use super::buffer::Buffer;
use super::shared::Shared;
use super::tensor::Resident;
use crate::arena;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Weak};

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
                let view = |buffer: &Arc<arena::Buffer>| Resident { buffer: buffer.clone(), shared: self.shared.clone() };
                self.report.live_buffers.iter().map(|buffer| Buffer::new(view(buffer))).collect()
            }

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
    fragmentation: f64 = |report| report.fragmentation();
}

impl MemoryReport {
    pub(super) fn new(report: arena::MemoryReport, shared: &Arc<Shared>) -> Self {
        Self { report, shared: Arc::downgrade(shared) }
    }
}
