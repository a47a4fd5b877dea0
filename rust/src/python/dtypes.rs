//! Element types as torch objects. torch is imported when the first of them is needed.

use super::codes::Edge;
use crate::dtype::DType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The torch object of each element type, in the order of [`DType::ALL`]; `None` where this torch is too old to have it.
fn table(py: Python<'_>) -> PyResult<&[Py<PyAny>]> {
    static TABLE: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let table = TABLE.get_or_try_init(py, || {
        let torch = py.import("torch")?;
        let of = |dtype: &DType| Ok(torch.getattr_opt(dtype.torch_name())?.map_or_else(|| py.None(), Bound::unbind));
        DType::ALL.iter().map(of).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(table)
}

/// The torch object of `dtype`.
pub(super) fn to_torch(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    Ok(table(py)?[dtype as usize].bind(py).clone())
}

/// The element type that a torch object stands for.
///
/// # Errors
/// `TypeError` where it is not a `torch.dtype`, `ValueError` where the device has no such type.
pub(super) fn from_torch(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = object.py();
    let table = table(py)?;
    if let Some(index) = table.iter().position(|dtype| dtype.is(object)) {
        return Ok(DType::ALL[index]);
    }
    if object.get_type().is(table[0].bind(py).get_type()) {
        let known = DType::ALL.iter().map(|dtype| dtype.torch_name()).collect::<Vec<_>>().join(", ");
        return Err(
            Edge::UnsupportedDtype.error(format!("Unsupported DeviceTensor dtype {object}. Supported: {known}"))
        );
    }
    Err(Edge::BadDtype.error(format!("dtype must be a torch.dtype, got {}", object.repr()?)))
}
