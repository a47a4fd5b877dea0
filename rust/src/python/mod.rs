//! The Python extension module `pypto._pypto`: the only place that knows PyO3.
//!
//! Everything a caller can see is listed once, in [`_pypto`]; `python/pypto/_pypto.pyi` has the same list for type checkers,
//! `python/pypto/_native/` documents what is in it, and `stubtest` proves that both agree.
//!
//! | file                             | what it holds                                                              |
//! |----------------------------------|----------------------------------------------------------------------------|
//! | `handle`, `vectorcall`           | the launch path: calls, arguments, Ctrl-C, outputs of return-style calls     |
//! | `check`                          | the checks of a launch without the launch                                  |
//! | `host`, `dlpack`, `keep`         | host arrays: torch, numpy, anything that speaks DLPack; what holds their memory |
//! | `scalar`, `numbers`, `dtypes`    | numbers, shapes and element types as Python has them                         |
//! | `bound`, `way`                   | launches whose arguments were checked before; what all launches share        |
//! | `queue`, `submit`                | queued launches: their threads, and the futures                              |
//! | `worker`, `shared`, `transfer`   | one opened device, the way in that never waits while attached, copies        |
//! | `tensor`, `views`, `absent`      | `DeviceTensor`; its parts and other shapes; what it has not                  |
//! | `buffer`, `memory`               | the allocation behind it, the memory report                                  |
//! | `residency`, `profile`           | what a worker counted about host arguments; times of steps, peaks            |
//! | `program`, `trace`, `trace_file` | programs in and out; recordings, `[STRACE]` lines, timelines in files        |
//! | `platform`, `site`               | which device a name opens; the user's line                                   |
//! | `errors`, `codes`                | the one place that makes exceptions; what is found before the core is asked |

mod absent;
mod bound;
mod buffer;
mod check;
mod codes;
mod dlpack;
mod dtypes;
mod errors;
mod handle;
mod host;
mod keep;
mod memory;
mod numbers;
mod platform;
mod profile;
mod program;
mod queue;
mod residency;
mod scalar;
mod settings;
mod shared;
mod site;
mod submit;
mod tensor;
mod trace;
mod trace_file;
mod transfer;
mod vectorcall;
mod views;
mod way;
mod worker;

use crate::device::sim::pool::MAX_CORES;
use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _pypto {
    #[pymodule_export]
    use super::{
        bound::BoundLaunch, buffer::Buffer, check::check_arguments, handle::RegistrationHandle, memory::MemoryReport,
        memory::MemoryScope, profile::instruction_set, profile::measure_peaks, profile::take_profile,
        profile::take_tasks, program::Program, submit::QueuedLaunch, tensor::DeviceTensor, trace::Recording,
        trace::mirror_trace, trace::trace_available, trace_file::TraceFile, worker::Worker,
    };

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        handle::open_constructor(module.py());
        module.add("MAX_CORES", MAX_CORES)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
