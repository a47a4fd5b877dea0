//! Ownership, life cycle, and arguments of a launch that break the rules.

use crate::arena::{Buffer, Owner};
use crate::error::ErrorKind;
use std::sync::Arc;

/// A call that the state of the worker, the owner of a buffer, or the signature of a program does not allow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The worker has no device any more. Open a new one; buffers and registrations of the old one stay dead.
    #[error(
        "ChipWorker.{operation}() requires an initialized ChipWorker. Use `with chipworker:` or call ...init() first. ({owner})"
    )]
    Closed {
        /// The method that was called.
        operation: &'static str,
        /// The worker.
        owner: Arc<Owner>,
    },
    /// The process is a fork of the one that opened the worker. Open a worker in this process.
    #[error(
        "ChipWorker.{operation}(): {owner} belongs to the parent process and cannot be used after fork(). Open a ChipWorker in this process, or start it with the 'spawn' method"
    )]
    Forked {
        /// The method that was called.
        operation: &'static str,
        /// The worker.
        owner: Arc<Owner>,
    },
    /// The tensor was freed. Do not use it after `free_tensor()`.
    #[error("{what}: {buffer} is not a live allocation owned by this ChipWorker ({asked}): it was freed on {}. Do not use a tensor after free_tensor()", buffer.owner())]
    FreedBuffer {
        /// The use: `Parameter 'w' of 'mm'`, `free_tensor`.
        what: String,
        /// The buffer.
        buffer: Arc<Buffer>,
        /// The worker asked.
        asked: Arc<Owner>,
    },
    /// The tensor died with its worker. Allocate it again on the worker that is open.
    #[error("{what}: {buffer} is not a live allocation owned by this ChipWorker ({asked}): its worker, {}, was closed. Allocate it again on this worker", buffer.owner())]
    StaleBuffer {
        /// The use.
        what: String,
        /// The buffer.
        buffer: Arc<Buffer>,
        /// The worker asked.
        asked: Arc<Owner>,
    },
    /// The tensor is alive on another worker. Only the worker that allocated it can use it.
    #[error("{what}: {buffer} is not a live allocation owned by this ChipWorker ({asked}): it belongs to {}. Only the worker that allocated a tensor can use it; a launch that names no worker goes to the one whose `with` block it is in", buffer.owner())]
    ForeignBuffer {
        /// The use.
        what: String,
        /// The buffer.
        buffer: Arc<Buffer>,
        /// The worker asked.
        asked: Arc<Owner>,
    },
    /// The registration was made by another worker. Register the program on this one.
    #[error(
        "the registration of {program:?} belongs to {registered}, not to {asked}. Register the program on this worker"
    )]
    ForeignRegistration {
        /// Name of the program.
        program: String,
        /// The worker that made the registration.
        registered: Arc<Owner>,
        /// The worker asked.
        asked: Arc<Owner>,
    },
    /// Poison mode: the program wrote behind the end of a host tensor's staging memory.
    #[error("{program:?} wrote behind the end of parameter '{param}': the first bad byte is {} bytes from its start, {behind} behind its end", bytes + behind)]
    StagingGuard {
        /// Name of the program.
        program: String,
        /// Name of the parameter.
        param: String,
        /// Size of the tensor.
        bytes: u64,
        /// Distance of the first bad byte from its end.
        behind: u64,
    },
    /// The wrong number of arguments. The text lists the parameters.
    #[error("{program:?} expects {expected} arguments, got {got}. Parameters: [{parameters}]")]
    ArgumentCount {
        /// Name of the program.
        program: String,
        /// Number of parameters.
        expected: usize,
        /// Number of arguments.
        got: usize,
        /// Names of the parameters.
        parameters: String,
    },
    /// An argument of the wrong type: a scalar for a tensor, another rank, extent, or element type. The text says what
    /// the parameter expects.
    #[error("{0}")]
    ArgumentType(String),
    /// An argument of the right type that the launch cannot use: read-only, overlapping another, or of an extent that
    /// disagrees with another's. The text says what to pass instead.
    #[error("{0}")]
    ArgumentValue(String),
    /// A number that its parameter cannot hold. The text gives the range.
    #[error("{0}")]
    ScalarRange(String),
}

impl WorkerError {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            WorkerError::Closed { .. } | WorkerError::Forked { .. } | WorkerError::StagingGuard { .. } => {
                ErrorKind::Runtime
            }
            WorkerError::FreedBuffer { .. }
            | WorkerError::StaleBuffer { .. }
            | WorkerError::ForeignBuffer { .. }
            | WorkerError::ForeignRegistration { .. }
            | WorkerError::ArgumentValue(_) => ErrorKind::Value,
            WorkerError::ArgumentCount { .. } | WorkerError::ArgumentType(_) => ErrorKind::Type,
            WorkerError::ScalarRange(_) => ErrorKind::Overflow,
        }
    }

    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            WorkerError::Closed { .. } => "worker_closed",
            WorkerError::Forked { .. } => "worker_forked",
            WorkerError::FreedBuffer { .. } => "freed_buffer",
            WorkerError::StaleBuffer { .. } => "stale_buffer",
            WorkerError::ForeignBuffer { .. } => "foreign_buffer",
            WorkerError::ForeignRegistration { .. } => "foreign_registration",
            WorkerError::StagingGuard { .. } => "guard_violated",
            WorkerError::ArgumentCount { .. } => "argument_count",
            WorkerError::ArgumentType(_) => "argument_type",
            WorkerError::ArgumentValue(_) => "argument_value",
            WorkerError::ScalarRange(_) => "scalar_range",
        }
    }
}
