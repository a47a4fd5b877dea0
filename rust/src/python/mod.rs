//! The Python extension module `pypto._pypto`: the only place that knows PyO3.
//!
//! Everything a caller can see is listed once, in [`_pypto`]; `python/pypto/_pypto.pyi` documents the same list for type
//! checkers, and `stubtest` proves that both agree.
//!
//! | file                             | what it holds                                                              |
//! |----------------------------------|----------------------------------------------------------------------------|
//! | `handle`, `vectorcall`           | the launch path: calls, arguments, Ctrl-C, outputs of return-style calls     |
//! | `check`                          | the checks of a launch without the launch                                  |
//! | `host`, `dlpack`                 | host arrays: torch, numpy, anything that speaks DLPack                       |
//! | `scalar`, `numbers`, `dtypes`    | numbers, shapes and element types as Python has them                         |
//! | `worker`, `shared`, `transfer`   | one opened device, the way in that never waits while attached, copies        |
//! | `tensor`, `buffer`, `memory`     | `DeviceTensor`, the allocation behind it, the memory report                  |
//! | `program`, `trace`               | programs in and out; recordings, and `[STRACE]` lines                        |
//! | `platform`, `site`               | which device a name opens; the user's line                                   |
//! | `errors`, `codes`                | the one place that makes exceptions; what is found before the core is asked |

mod buffer;
mod check;
mod codes;
mod dlpack;
mod dtypes;
mod errors;
mod handle;
mod host;
mod memory;
mod numbers;
mod platform;
mod program;
mod scalar;
mod settings;
mod shared;
mod site;
mod tensor;
mod trace;
mod transfer;
mod vectorcall;
mod worker;

use crate::device::sim::pool::MAX_CORES;
use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _pypto {
    #[pymodule_export]
    use super::{
        buffer::Buffer, check::check_arguments, handle::RegistrationHandle, memory::MemoryReport, program::Program,
        tensor::DeviceTensor, trace::Recording, trace::mirror_trace, trace::trace_available, worker::Worker,
    };

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("MAX_CORES", MAX_CORES)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
