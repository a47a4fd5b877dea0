//! The one error type of the core. Errors are data until the edge: `python/` turns [`Error::kind`] into an exception.

use crate::arena::ArenaError;
use crate::device::DeviceError;
use crate::program::ProgramError;
use crate::worker::WorkerError;

/// Result of a fallible operation of the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in the core, by the module that found it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Device memory: exhausted, or an address that is not what it claims to be.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// A program that breaks the rules of [`crate::program`].
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The device failed or was interrupted.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Ownership, life cycle, and arguments of a launch.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// The class of an error; one `match` in `python/errors.rs` turns it into a Python exception class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The caller passed an object of the wrong type (`TypeError`).
    Type,
    /// The caller passed a wrong value (`ValueError`).
    Value,
    /// The state does not allow the call (`RuntimeError`).
    Runtime,
    /// Device memory is exhausted (`OutOfMemoryError`, a `MemoryError` and a `RuntimeError`).
    Memory,
    /// A number does not fit its type (`OverflowError`).
    Overflow,
    /// There is no such element (`IndexError`).
    Index,
    /// Memory cannot be handed over as it is asked for (`BufferError`).
    Buffer,
    /// The user interrupted the call; the pending Python exception is raised as it is.
    Interrupted,
}

impl Error {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Arena(error) => error.kind(),
            Error::Program(error) => error.kind(),
            Error::Device(error) => error.kind(),
            Error::Worker(error) => error.kind(),
        }
    }

    /// A stable snake_case name of the error, for tools and for the table of errors in the documentation.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Arena(error) => error.code(),
            Error::Program(error) => error.code(),
            Error::Device(error) => error.code(),
            Error::Worker(error) => error.code(),
        }
    }
}
