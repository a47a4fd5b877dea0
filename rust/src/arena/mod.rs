//! Arena.

use crate::error::ErrorKind;

/// Placeholder.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {}

impl ArenaError {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match *self {}
    }

    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match *self {}
    }
}
