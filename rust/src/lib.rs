//! The Rust core of `pypto`: device memory, ownership, launches, tracing, and the simulated chip.
//!
//! The map of the crate, from the bottom up. A module uses only modules above it in this list, and the first four know
//! none of each other:
//!
//! | module      | what it holds                                                                        |
//! |-------------|--------------------------------------------------------------------------------------|
//! | [`arena`]   | device memory: reserved address space, suballocation, buffers, the memory report     |
//! | [`trace`]   | clock, per-thread rings of spans, exports                                            |
//! | [`program`] | what the Python frontend hands over: functions, operations, verification, encoding   |
//! | [`kernels`] | arithmetic on tiles, for each instruction set                                        |
//! | [`device`]  | the device contract and the simulated chip                                           |
//! | [`worker`]  | one device with its memory, its registrations and its clock; who owns what           |
//! | `python`    | the only module that knows PyO3 (feature `python`)                                   |

pub mod arena;
pub mod device;
pub mod dtype;
pub mod error;
pub mod fork;
pub mod id;
pub mod kernels;
pub mod program;
#[cfg(feature = "python")]
mod python;
pub mod shape;
pub mod sync;
pub mod trace;
pub mod worker;

pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use shape::Shape;
