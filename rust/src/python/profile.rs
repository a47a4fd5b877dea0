//! Profiles, peaks and tasks as plain data; `runtime/profiling` makes tables of them.

use super::codes::Edge;
use super::handle::RegistrationHandle;
use super::shared::detached;
use crate::device::profile::{Profile, StepKind, TaskOf};
use crate::device::sim::pool::MAX_CORES;
use crate::kernels::Isa;
use crate::kernels::peaks::Peaks;
use crate::program::{Loc, Program};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// What the launches of a registered program took, step by step, since this was asked for last: `launches` and `steps`, times
/// in nanoseconds. None where its worker was not opened with
/// `observe="steps"`.
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

/// The tasks of the last launch of a registered program in order: `kernel` (None for the orchestration), `file`, `line`,
/// `blocks`, and `waits`, the numbers of the tasks that each waits for. None where its worker was not opened with
/// `observe="tasks"`.
///
/// # Errors
/// `RuntimeError` for a closed worker.
#[pyfunction]
pub(super) fn take_tasks<'py>(
    py: Python<'py>,
    handle: &Bound<'py, RegistrationHandle>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let handle = handle.get();
    let registration = handle.registration();
    let Some(tasks) = handle.shared().enter(py, "profile")?.take_tasks(registration)? else { return Ok(None) };
    let program = registration.program();
    let list = PyList::empty(py);
    for TaskOf { kernel, at, blocks, waits } in tasks {
        let item = PyDict::new(py);
        item.set_item("kernel", kernel.map(|kernel| program.kernels[kernel as usize].name.as_str()))?;
        place(&item, program, at)?;
        item.set_item("blocks", blocks)?;
        item.set_item("waits", waits)?;
        list.append(item)?;
    }
    Ok(Some(list))
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
    let steps = PyList::empty(py);
    for step in &profile.steps {
        let operations = PyList::empty(py);
        for operation in &step.operations {
            let item = PyDict::new(py);
            item.set_item("name", operation.name)?;
            place(&item, program, operation.at)?;
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
        place(&item, program, step.at)?;
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

fn place(dict: &Bound<'_, PyDict>, program: &Program, Loc(file, line, _): Loc) -> PyResult<()> {
    dict.set_item("file", program.files.get(file as usize).map_or("", String::as_str))?;
    dict.set_item("line", line)
}
