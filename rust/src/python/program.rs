//! `Program`: the one crossing from the Python frontend, and its form as bytes.

use crate::error::Error;
use crate::program;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;

/// First bytes of an encoded program; the number after them is [`VERSION`].
const MAGIC: &[u8; 8] = b"PYPTOPRG";

/// Version of the encoded form. It is raised by every change of [`program::Program`] or of what it contains, because
/// postcard does not describe itself.
const VERSION: u32 = 1;

/// A verified program.
#[pyclass(frozen, module = "pypto._pypto")]
pub(crate) struct Program {
    inner: Arc<program::Program>,
}

impl Program {
    fn verified(program: program::Program) -> PyResult<Self> {
        program::verify(&program).map_err(Error::from)?;
        Ok(Self { inner: Arc::new(program) })
    }
}

#[pymethods]
impl Program {
    #[new]
    fn new(data: &Bound<'_, PyDict>) -> PyResult<Self> {
        let program = pythonize::depythonize(data)
            .map_err(|error| PyValueError::new_err(format!("the program data is malformed: {error}")))?;
        Self::verified(program)
    }

    /// Reads what `encode` wrote.
    #[staticmethod]
    fn decode(data: &[u8]) -> PyResult<Self> {
        let body = data
            .strip_prefix(MAGIC)
            .ok_or_else(|| PyValueError::new_err("these bytes are not an encoded program: the first 8 bytes differ"))?;
        let (version, body) = body
            .split_first_chunk::<4>()
            .ok_or_else(|| PyValueError::new_err("the encoded program is cut off after its first 8 bytes"))?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(PyValueError::new_err(format!(
                "the encoded program has version {version}; this build reads version {VERSION}: compile the program again"
            )));
        }
        match postcard::take_from_bytes(body) {
            Ok((program, [])) => Self::verified(program),
            Ok((_, rest)) => {
                Err(PyValueError::new_err(format!("the encoded program is followed by {} extra bytes", rest.len())))
            }
            Err(error) => Err(PyValueError::new_err(format!("the encoded program is damaged: {error}"))),
        }
    }

    /// The program as bytes, for `decode`.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let bytes = postcard::to_extend(&*self.inner, bytes)
            .map_err(|error| PyValueError::new_err(format!("the program cannot be encoded: {error}")))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Name of the entry function.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn __repr__(&self) -> String {
        format!(
            "Program({:?}, {} parameters, {} kernels)",
            self.inner.name,
            self.inner.params.len(),
            self.inner.kernels.len()
        )
    }
}
