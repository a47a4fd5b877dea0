//! What a worker counted about host arguments, as plain data; `runtime/advice.py` words it.

use crate::worker::ResidencyReport;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The report as `{"programs": [...], "arguments": [...]}`, times in nanoseconds.
pub(super) fn report<'py>(py: Python<'py>, report: &ResidencyReport) -> PyResult<Bound<'py, PyDict>> {
    let programs = PyList::empty(py);
    for (registration, asked, program) in &report.programs {
        let params = registration.program().params.iter().map(|param| param.name.as_str());
        let item = PyDict::new(py);
        item.set_item("name", &registration.program().name)?;
        item.set_item("params", params.collect::<Vec<_>>())?;
        item.set_item("registered", asked)?;
        item.set_item("launches", program.launches)?;
        item.set_item("wall_ns", program.wall_ns)?;
        programs.append(item)?;
    }
    let arguments = PyList::empty(py);
    for argument in &report.arguments {
        let item = PyDict::new(py);
        item.set_item("program", argument.cid)?;
        item.set_item("param", argument.param)?;
        item.set_item("bytes", argument.bytes)?;
        item.set_item("uploads", argument.uploads)?;
        item.set_item("unchanged", argument.unchanged)?;
        item.set_item("unchanged_ns", argument.unchanged_ns)?;
        item.set_item("kept", argument.kept)?;
        item.set_item("round_trips", argument.round_trips)?;
        item.set_item("round_trip_ns", argument.round_trip_ns)?;
        arguments.append(item)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("programs", programs)?;
    dict.set_item("arguments", arguments)?;
    Ok(dict)
}
