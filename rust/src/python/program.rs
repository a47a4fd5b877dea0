//! `Program`: the one crossing from the Python frontend, and its form as bytes.

use super::codes::Edge;
use crate::error::Error;
use crate::program::{self, Direction, ParamKind};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;

/// A verified program.
#[pyclass(frozen, module = "pypto._pypto")]
pub(super) struct Program {
    inner: Arc<program::Program>,
}

impl Program {
    fn verified(program: program::Program) -> PyResult<Self> {
        program::verify(&program).map_err(Error::from)?;
        Ok(Self { inner: Arc::new(program) })
    }

    pub(super) fn core(&self) -> &Arc<program::Program> {
        &self.inner
    }
}

#[pymethods]
impl Program {
    #[new]
    fn new(data: &Bound<'_, PyDict>) -> PyResult<Self> {
        let read = |data: &Bound<'_, PyDict>| pythonize::depythonize(data).map_err(|error| error.to_string());
        let program = match program::shallow(|| read(data)) {
            Some(program) => program,
            None => {
                let deep = data.as_unbound();
                let read = || program::with_room(|| Python::attach(|py| read(deep.bind(py))));
                data.py().detach(read).map_err(Error::from)?
            }
        };
        let malformed = |error| Edge::MalformedProgram.error(format!("the program data is malformed: {error}"));
        Self::verified(program.map_err(malformed)?)
    }

    #[staticmethod]
    fn decode(data: &[u8]) -> PyResult<Self> {
        let read = || program::Program::decode(data);
        let program = program::shallow(read).map_or_else(|| program::with_room(read), Ok).map_err(Error::from)?;
        Self::verified(program.map_err(Error::from)?)
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.encode())
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn written(&self) -> Vec<&str> {
        let writes = |param: &&program::Param| matches!(&param.kind, ParamKind::Tensor { direction, .. } if *direction != Direction::In);
        self.inner.params.iter().filter(writes).map(|param| param.name.as_str()).collect()
    }

    fn __repr__(&self) -> String {
        let Self { inner } = self;
        format!("Program({:?}, {} parameters, {} kernels)", inner.name, inner.params.len(), inner.kernels.len())
    }
}
