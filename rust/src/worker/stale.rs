//! Resident arguments that hold what an earlier allocation left.
//!
//! What nobody wrote to a buffer reads as zero. Clearing a tensor of 64 MiB takes a third of the time of a kernel that then
//! writes all of it, so a launch clears only what the device does not overwrite.

use crate::arena::{Arena, Buffer, BufferState};
use crate::device::TensorArg;
use std::sync::Arc;

/// The arguments of one binding that nobody wrote yet.
#[derive(Clone, Default, Debug)]
pub(super) struct Stale(Vec<Argument>);

#[derive(Clone, Debug)]
struct Argument {
    /// Index of the tensor parameter.
    tensor: u32,
    /// Size of the argument, which may be a view.
    bytes: u64,
    buffer: Arc<Buffer>,
}

impl Stale {
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Begins a new binding.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Adds a buffer that is bound, if it is one of them.
    #[inline]
    pub fn note(&mut self, tensor: u32, bytes: u64, buffer: &Arc<Buffer>) {
        if buffer.is_stale() {
            self.0.push(Argument { tensor, bytes, buffer: buffer.clone() });
        }
    }

    /// Before the device's work: clears what the work might not overwrite. Until [`Stale::overwritten`] the others count as
    /// never written, so that work which fails half-way shows nothing of an earlier allocation either.
    #[inline]
    pub fn clear(&mut self, tensors: &[TensorArg], arena: &mut Arena, overwrites: impl Fn(usize) -> bool) {
        if !self.0.is_empty() {
            self.0.retain(|argument| argument.is_overwritten(tensors, arena, &overwrites));
        }
    }

    /// After the device's work: what it overwrote is what it says.
    #[inline]
    pub fn overwritten(&mut self, arena: &mut Arena) {
        for argument in self.0.drain(..) {
            arena.finish_write(&argument.buffer, argument.bytes);
        }
    }
}

impl Argument {
    /// Whether the work will write all of the buffer. If it might not, the buffer is cleared here.
    fn is_overwritten(&self, tensors: &[TensorArg], arena: &mut Arena, overwrites: impl Fn(usize) -> bool) -> bool {
        // A prepared launch may have got another argument since, and this one may be gone.
        if self.buffer.state() != BufferState::Live {
            return false;
        }
        let tensor = self.tensor as usize;
        let is_whole = self.bytes == self.buffer.bytes() && tensors[tensor].data == arena.pointer(&self.buffer);
        let is_overwritten = is_whole && overwrites(tensor);
        if !is_overwritten {
            arena.clear_stale(&self.buffer);
        }
        is_overwritten
    }
}
