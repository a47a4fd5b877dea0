//! `check_arguments`: what a launch would say about its arguments, without the launch.

use super::codes::Edge;
use super::handle::{RegistrationHandle, read_argument};
use super::tensor::DeviceTensor;
use super::way::launch_error;
use crate::program::ParamKind;
use crate::worker::Value;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Checks one argument for each parameter of a registered program. Returns the scalars among them as the device takes
/// them, 64 bits each.
///
/// # Errors
/// Those of a launch.
#[pyfunction]
pub(super) fn check_arguments(
    py: Python<'_>,
    handle: &Bound<'_, RegistrationHandle>,
    args: &Bound<'_, PyTuple>,
) -> PyResult<Vec<u64>> {
    let handle = handle.get();
    let params = &handle.registration().program().params;
    if args.len() != params.len() {
        let (expected, got) = (params.len(), args.len());
        return Err(
            Edge::ArgumentCount.error(format!("expected one argument for each of {expected} parameters, got {got}"))
        );
    }
    let (mut values, mut keep) = (Vec::with_capacity(args.len()), Vec::new());
    for (position, (param, arg)) in params.iter().zip(args.as_slice()).enumerate() {
        let tensor = arg.cast::<DeviceTensor>().ok().map(|tensor| tensor.get());
        values.push(match tensor.and_then(DeviceTensor::resident) {
            Some(resident) if matches!(param.kind, ParamKind::Tensor { .. }) => {
                let (shape, dtype) = tensor.map(|tensor| (tensor.extents(), tensor.element())).expect("it is resident");
                Value::Resident { buffer: &resident.buffer, shape, dtype }
            }
            _ => read_argument(arg, param, position, &mut keep)?,
        });
    }
    let checked = handle.shared().enter(py, "run")?.check(handle.registration(), &values);
    checked.map_err(|error| launch_error(error, &values))
}
