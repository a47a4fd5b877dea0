//! `config=` of a launch. Nothing in it changes a launch on the simulated chip; what a launch was given is in its trace.
//!
//! The settings wait in the thread from where a handle is called to where its launch begins. Passing them down would put
//! another argument through every function of the path that must cost nothing, for launches that are traced.

use crate::trace::{self, names};
use crate::worker::{Note, Notes};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::Cell;

thread_local! {
    static ANNOUNCED: Cell<Option<Box<Notes>>> = const { Cell::new(None) };
}

/// Settings that belong to the launches of one call.
pub(super) struct Announced;

impl Drop for Announced {
    /// A call that was refused leaves nothing to the next.
    fn drop(&mut self) {
        ANNOUNCED.take();
    }
}

/// Keeps the settings of `config` for the launch of this call; nothing while nobody records.
pub(super) fn announce(config: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Announced>> {
    let Some(config) = config.filter(|_| trace::is_enabled()) else { return Ok(None) };
    let labels = config.py().import("pypto.runtime.labels")?.call_method1("of_launch", (config,))?;
    let labels: Vec<(String, u64)> = labels.extract()?;
    if labels.is_empty() {
        return Ok(None);
    }
    let note =
        |(name, value): (String, u64)| -> Note { (trace::intern(&format!("{}.{name}", names::CONFIG.text())), value) };
    ANNOUNCED.set(Some(Box::new(labels.into_iter().map(note).collect())));
    Ok(Some(Announced))
}

/// Whether `config` asks for files about the launch. A field that was assigned something else later asks for none.
pub(super) fn wants_files(config: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = config.py();
    let is_on =
        |name: &Bound<'_, PyString>| PyResult::Ok(config.getattr(name)?.extract::<i64>().is_ok_and(|level| level > 0));
    Ok(is_on(intern!(py, "enable_chip_swimlane"))?
        || is_on(intern!(py, "enable_dump_args"))?
        || is_on(intern!(py, "enable_dep_gen"))?
        || is_on(intern!(py, "enable_scope_stats"))?)
}

/// The settings of the call that this thread is in.
#[inline]
pub(super) fn take() -> Option<Box<Notes>> {
    if trace::is_enabled() { ANNOUNCED.take() } else { None }
}
