//! `config=` of a launch. Nothing in it changes a launch on the simulated chip; what a launch is given is in its trace.

use super::codes::Edge;
use super::numbers;
use crate::trace::{self, names};
use crate::worker::Note;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The settings that the trace shall hold; none while nobody records.
///
/// # Errors
/// Another object than a `RunConfig` is a mistake that must not pass unseen.
pub(super) fn read(config: &Bound<'_, PyAny>) -> PyResult<Vec<Note>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = config.py();
    let class = CLASS.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("pypto.runtime.run_config")?.getattr("RunConfig")?.unbind())
    })?;
    if !config.is_instance(class.bind(py))? {
        let text = format!("config must be a RunConfig, got {}", numbers::type_name(config));
        return Err(Edge::BadConfig.error(text));
    }
    if !trace::is_enabled() {
        return Ok(Vec::new());
    }
    let labels = py.import("pypto.runtime.labels")?.call_method1("of_launch", (config,))?;
    let labels: Vec<(String, u64)> = labels.extract()?;
    let note = |(name, value): (String, u64)| (trace::intern(&format!("{}.{name}", names::CONFIG.text())), value);
    Ok(labels.into_iter().map(note).collect())
}
