//! The Python extension module `pypto._pypto`: the only place that knows PyO3.
//!
//! Everything a caller can see is listed once, in [`_pypto`]; `python/pypto/_pypto.pyi` documents the same list for type
//! checkers, and `stubtest` proves that both agree.

mod errors;
mod program;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _pypto {
    #[pymodule_export]
    use super::program::Program;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
