//! Device memory.
mod buffer;
mod error;
mod owner;
mod report;
mod suballocator;

pub use buffer::{Buffer, BufferKind, BufferSpec, BufferState, Site};
pub use error::ArenaError;
pub use owner::Owner;
pub use report::{Bytes, MemoryReport};
