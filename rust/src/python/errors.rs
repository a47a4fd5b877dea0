//! Errors of the core become Python exceptions here, and nowhere else.

use crate::device::DeviceError;
use crate::device::findings::Findings;
use crate::error::{Error, ErrorKind};
use pyo3::exceptions::{
    PyBufferError, PyIndexError, PyKeyboardInterrupt, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The exception of an error. Its attribute `code` is the error's stable name, for programs that react to one kind.
impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match &error {
            Error::Device(DeviceError::Sanitizer(findings)) => sanitizer_error(findings, error.code(), &error),
            _ => exception(error.kind(), error.code(), error.to_string()),
        }
    }
}

/// `pypto.runtime.SanitizerError`, which has the findings as objects. It is a class of the Python half, because whoever
/// catches it reads it there.
fn sanitizer_error(findings: &Findings, code: &'static str, error: &Error) -> PyErr {
    Python::attach(|py| {
        let make = || {
            let class = py.import("pypto.runtime.sanitizers")?.getattr("SanitizerError")?;
            let plain = pythonize::pythonize(py, &findings.findings)?;
            let made = class.call1((error.to_string(), plain))?;
            made.setattr("code", code)?;
            Ok::<_, PyErr>(PyErr::from_value(made))
        };
        make().unwrap_or_else(|other| other)
    })
}

/// The exception for an error about the argument at `position` of a launch.
pub(super) fn at_position(position: usize, error: &Error) -> PyErr {
    exception(error.kind(), error.code(), format!("At position {position}: {error}"))
}

/// The exception for an error about device memory that `subject` stands for: `Parameter 'ptr' of free()`.
pub(super) fn about(subject: &str, error: Error) -> PyErr {
    match error {
        Error::Arena(_) => exception(error.kind(), error.code(), format!("{subject}: {error}")),
        // The worker is the reason, not what it was given.
        _ => error.into(),
    }
}

pub(super) fn exception(kind: ErrorKind, code: &'static str, text: String) -> PyErr {
    let exception = match kind {
        ErrorKind::Type => PyTypeError::new_err(text),
        ErrorKind::Value => PyValueError::new_err(text),
        ErrorKind::Runtime => PyRuntimeError::new_err(text),
        ErrorKind::Memory => out_of_memory(text),
        ErrorKind::Overflow => PyOverflowError::new_err(text),
        ErrorKind::Index => PyIndexError::new_err(text),
        ErrorKind::Buffer => PyBufferError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
    };
    Python::attach(|py| {
        // The attribute is an extra: an exception that cannot carry it is raised all the same.
        let _ = exception.value(py).setattr(pyo3::intern!(py, "code"), code);
    });
    exception
}

/// `pypto.OutOfMemoryError`, which Rust cannot derive: it has two bases.
fn out_of_memory(text: String) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Python::attach(|py| {
        let class = CLASS.import(py, "pypto.errors", "OutOfMemoryError");
        class.map_or_else(|error| error, |class| PyErr::from_type(class.clone(), text))
    })
}
