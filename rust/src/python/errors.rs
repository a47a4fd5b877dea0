//! Errors of the core become Python exceptions here, and nowhere else.

use crate::error::{Error, ErrorKind};
use pyo3::exceptions::{
    PyKeyboardInterrupt, PyMemoryError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::Type => PyTypeError::new_err(text),
            ErrorKind::Value => PyValueError::new_err(text),
            ErrorKind::Runtime => PyRuntimeError::new_err(text),
            ErrorKind::Memory => PyMemoryError::new_err(text),
            ErrorKind::Overflow => PyOverflowError::new_err(text),
            ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        }
    }
}
