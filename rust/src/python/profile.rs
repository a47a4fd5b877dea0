//! Profiles and peaks as plain data; `runtime/profile` makes tables of them.

use super::codes::Edge;
use super::handle::RegistrationHandle;
use super::shared::detached;
use crate::device::profile::{Profile, StepKind};
use crate::device::sim::pool::MAX_CORES;
use crate::kernels::Isa;
use crate::kernels::peaks::Peaks;
use crate::program::{Loc, Program};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// What the launches of a registered program took, step by step, since this was asked for last: `launches` and `steps`, times
/// in nanoseconds. None where its worker was not opened with `profile=True`.
///
/// # Errors
/// `RuntimeError` for a closed worker.
#[pyfunction]
pub(super) fn take_profile<'py>(
    py: Python<'py>,
    handle: &Bound<'py, RegistrationHandle>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let handle = handle.get();
    let registration = handle.registration();
    let profile = handle.shared().enter(py, "profile")?.take_profile(registration)?;
    profile.map(|profile| plain(py, registration.program(), &profile)).transpose()
}

/// What this machine can do on `threads` threads at once: bytes and operations in a second by name, and the instruction set.
/// Takes about a second.
///
/// # Errors
/// `ValueError` for a number of threads that no chip has cores for, and for a `PYPTO_ISA` that cannot be had.
#[pyfunction]
pub(super) fn measure_peaks<'py>(py: Python<'py>, threads: usize) -> PyResult<Bound<'py, PyDict>> {
    let isa = Isa::from_env().map_err(|error| Edge::BadIsa.error(error.to_string()))?;
    if !(1..=MAX_CORES).contains(&threads) {
        return Err(Edge::BadCores.error(format!("threads must be from 1 to {MAX_CORES}, got {threads}")));
    }
    let Peaks { read, copy, cached_read, fp32, bf16, int8 } = detached(py, || Peaks::measure(isa, threads));
    let dict = PyDict::new(py);
    dict.set_item("isa", isa.to_string())?;
    dict.set_item("threads", threads)?;
    let all =
        [("read", read), ("copy", copy), ("cached_read", cached_read), ("fp32", fp32), ("bf16", bf16), ("int8", int8)];
    for (name, peak) in all {
        dict.set_item(name, peak)?;
    }
    Ok(dict)
}

/// The instruction set of the kernels of new workers: `generic`, `avx2` or `avx512`.
///
/// # Errors
/// `ValueError` for a `PYPTO_ISA` that cannot be had.
#[pyfunction]
pub(super) fn instruction_set() -> PyResult<String> {
    Ok(Isa::from_env().map_err(|error| Edge::BadIsa.error(error.to_string()))?.to_string())
}

fn plain<'py>(py: Python<'py>, program: &Program, profile: &Profile) -> PyResult<Bound<'py, PyDict>> {
    let place = |dict: &Bound<'py, PyDict>, Loc(file, line, _): Loc| {
        dict.set_item("file", program.files.get(file as usize).map_or("", String::as_str))?;
        dict.set_item("line", line)
    };
    let steps = PyList::empty(py);
    for step in &profile.steps {
        let operations = PyList::empty(py);
        for operation in &step.operations {
            let item = PyDict::new(py);
            item.set_item("name", operation.name)?;
            place(&item, operation.at)?;
            item.set_item("dtype", operation.dtype.to_string())?;
            item.set_item("operations", operation.operations)?;
            item.set_item("device_bytes", operation.device_bytes)?;
            item.set_item("tile_bytes", operation.tile_bytes)?;
            item.set_item("alone_ns", operation.alone_ns)?;
            operations.append(item)?;
        }
        let item = PyDict::new(py);
        item.set_item("kernel", &program.kernels[step.kernel as usize].name)?;
        let kind = match step.kind {
            StepKind::Chain => "chain",
            StepKind::Product => "product",
            StepKind::Tile => "tile",
        };
        item.set_item("kind", kind)?;
        place(&item, step.at)?;
        item.set_item("runs", step.runs)?;
        item.set_item("ns", step.ns)?;
        item.set_item("operations", operations)?;
        steps.append(item)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("launches", profile.launches)?;
    dict.set_item("steps", steps)?;
    Ok(dict)
}
