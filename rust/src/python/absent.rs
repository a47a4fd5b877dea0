//! What torch's tensors have and a `DeviceTensor` has not: what to write instead.
//!
//! Nothing of it is offered under its own name, because each would download, or compute somewhere else than on the device,
//! without saying so.

use super::codes::Edge;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Names, and what to write.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["cpu", "to", "cuda", "type", "float", "half", "bfloat16", "int", "long", "double"],
        "to_host() gives a torch tensor",
    ),
    (&["item", "tolist"], "to_host() gives a torch tensor, which has it"),
    (&["detach", "requires_grad", "requires_grad_", "grad", "grad_fn", "backward"], "a device tensor has no gradient"),
    (&["clone"], "worker.from_host(t.to_host()) is a copy"),
    (
        &["fill_", "zero_", "normal_", "uniform_", "random_"],
        "t.copy_(host) writes what a host tensor holds; worker.zeros(...) and worker.full(...) make filled ones",
    ),
    (
        &["reshape", "flatten", "squeeze", "unsqueeze", "view_as", "reshape_as"],
        "t.view(*shape) is the same memory with another shape",
    ),
    (&["size", "dim", "ndim", "ndimension"], "t.shape is the tuple of its extents"),
    (&["numel", "element_size", "itemsize"], "t.nbytes are the bytes of all elements, t.dtype.itemsize those of one"),
    (&["stride", "strides", "is_contiguous", "contiguous"], "a device tensor is contiguous, always"),
    (&["storage_offset", "untyped_storage", "storage"], "t.buffer is its allocation"),
    (&["device", "is_cuda", "get_device"], "repr(t) names its worker, t.is_live says whether it may be used"),
    (&["copy", "tobytes", "astype"], "t.numpy() gives a numpy array, which has it"),
    (&["free", "delete", "release"], "worker.free_tensor(t), or `with t:`, frees it"),
];

/// The error for a name that a device tensor has not.
#[cold]
pub(super) fn attribute(py: Python<'_>, name: &str) -> PyErr {
    let mut text = format!("'DeviceTensor' object has no attribute '{name}'");
    let instead = INSTEAD.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead);
    if let Some(instead) = instead {
        text += &format!(": {instead}");
    } else if !name.starts_with('_') && has_torch(py, name) {
        text += &format!(
            ": its elements are on the device. A program computes there; t.to_host().{name} is that of a copy on the host"
        );
    }
    PyAttributeError::new_err(text)
}

/// Whether a tensor of torch has it.
fn has_torch(py: Python<'_>, name: &str) -> bool {
    static TENSOR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let tensor = TENSOR.get_or_try_init(py, || Ok::<_, PyErr>(py.import("torch")?.getattr("Tensor")?.unbind()));
    tensor.and_then(|tensor| tensor.bind(py).hasattr(name)).unwrap_or(false)
}

/// The error for a function of numpy, which would download the tensor as if it cost nothing.
#[cold]
pub(super) fn numpy_function(function: &Bound<'_, PyAny>) -> PyErr {
    let name = function.getattr("__name__").map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Edge::NumpyFunction.error(format!(
        "numpy.{name} got a DeviceTensor, whose elements are on the device. t.numpy() is a copy on the host; a program \
         computes on the device"
    ))
}
